//! The queues of a network device (virtio 1.2, 5.1): each buffer holds one frame, with the device's header before it.
//!
//! ```text
//! 0        12                     2048
//! │ header │ the bytes of a frame │        as many buffers as the queue may have in flight
//! ```
//!
//! The driver copies each frame between the buffer and its own memory. A device that writes to a buffer after it has
//! passed it to the driver can so change no byte that the driver has read. No offload is negotiated, so the header of a
//! frame to send is zero, and that of a received frame is not read.
//!
//! A device that completes a buffer which is not in flight is broken. Its queues then receive and send nothing.

#![expect(unsafe_code, reason = "accesses memory that the device accesses, too")]

use alloc::vec::Vec;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use virtio_drivers::transport::Transport;
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

use crate::before_shared_read;
use crate::buffer::{Piece, Pieces};
use crate::device::OpenError;
use crate::ring::Ring;

/// The largest frame: an Ethernet header and 1,500 bytes.
pub const FRAME_BYTES: usize = 1514;

/// The size of the header with `VIRTIO_F_VERSION_1` (virtio 1.2, 5.1.6).
const HEADER: usize = 12;
const BUFFER: usize = 2048;
/// The largest number of buffers of a queue.
const MAX_BUFFERS: usize = 128;

/// The direction in which a queue passes frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Receive,
    Send,
}

/// A queue that receives or sends frames.
pub struct Frames<H: Hal> {
    // Never dropped, because the device may access its memory at any time.
    ring: ManuallyDrop<Ring<H>>,
    direction: Direction,
    /// The memory of all buffers. Never freed, for the same reason.
    memory: NonNull<u8>,
    address: PhysAddr,
    /// The numbers of the buffers that the device does not have.
    free: Vec<u16>,
    /// For each token the buffer that is in flight with it.
    in_flight: Vec<Option<u16>>,
    is_broken: bool,
}

// SAFETY: only the device and the holder of this value access the memory, so the value may move to another thread.
unsafe impl<H: Hal> Send for Frames<H> {}

impl<H: Hal> fmt::Debug for Frames<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("direction", &self.direction).field("is_broken", &self.is_broken).finish()
    }
}

impl<H: Hal> Frames<H> {
    /// Sets up the queue `number` of a device, and passes all its buffers to the device. The caller must then notify
    /// the device, after it has set `DRIVER_OK`.
    ///
    /// # Errors
    /// If the device refuses the queue, or there is no memory. The caller must then reset the device.
    pub fn receiving(transport: &mut impl Transport, number: u16) -> Result<Self, OpenError> {
        let mut frames = Self::new(transport, number, Direction::Receive)?;
        while let Some(buffer) = frames.free.pop() {
            frames.pass(buffer, FRAME_BYTES);
        }
        Ok(frames)
    }

    /// Sets up the queue `number` of a device, for sending. The device does not interrupt when it has sent a frame: see
    /// [`set_interrupts`](Self::set_interrupts).
    ///
    /// # Errors
    /// If the device refuses the queue, or there is no memory. The caller must then reset the device.
    pub fn sending(transport: &mut impl Transport, number: u16) -> Result<Self, OpenError> {
        let frames = Self::new(transport, number, Direction::Send)?;
        frames.set_interrupts(false);
        Ok(frames)
    }

    fn new(transport: &mut impl Transport, number: u16, direction: Direction) -> Result<Self, OpenError> {
        // Without indirect descriptors, each buffer takes one entry of the queue.
        let ring = ManuallyDrop::new(Ring::new(transport, number, 0)?);
        let count = ring.entries().min(MAX_BUFFERS);
        let (mut free, mut in_flight) = (Vec::new(), Vec::new());
        free.try_reserve_exact(count).map_err(|_| OpenError::OutOfMemory)?;
        in_flight.try_reserve_exact(ring.entries()).map_err(|_| OpenError::OutOfMemory)?;
        free.extend(0..count as u16);
        in_flight.resize(ring.entries(), None);
        let (address, memory) = H::dma_alloc((count * BUFFER).div_ceil(PAGE_SIZE), BufferDirection::Both);
        if address == 0 {
            return Err(OpenError::OutOfMemory);
        }
        Ok(Self { ring, direction, memory, address, free, in_flight, is_broken: false })
    }

    /// Returns the memory of a buffer: the header and `bytes` bytes of a frame.
    fn piece(&self, buffer: u16, bytes: usize) -> Piece {
        assert!(bytes <= FRAME_BYTES, "a frame of {bytes} bytes");
        let offset = usize::from(buffer) * BUFFER;
        // SAFETY: the number is that of a buffer of this queue, so the result is within the queue's memory.
        let start = unsafe { self.memory.add(offset) };
        Piece {
            memory: NonNull::slice_from_raw_parts(start, HEADER + bytes),
            address: self.address + offset as PhysAddr,
        }
    }

    /// Returns the beginning of the frame in a buffer.
    fn frame(&self, buffer: u16) -> *mut u8 {
        // SAFETY: the header is within the buffer.
        unsafe { self.piece(buffer, 0).memory.cast::<u8>().add(HEADER) }.as_ptr()
    }

    /// Passes a buffer with `bytes` bytes of a frame, or room for them, to the device.
    fn pass(&mut self, buffer: u16, bytes: usize) {
        let pieces = Pieces::one(self.piece(buffer, bytes), self.direction == Direction::Receive);
        // SAFETY: the buffer is not in `free` as long as the device has it, and only buffers that were taken from there
        // or from `complete` are accessed.
        let token = unsafe { self.ring.add(&pieces) }.expect("an entry for each buffer");
        self.in_flight[usize::from(token)] = Some(buffer);
    }

    /// Takes the next buffer that the device has completed, and how much the device says it has written.
    fn complete(&mut self) -> Option<(u16, u32)> {
        if self.is_broken {
            return None;
        }
        let (token, written) = self.ring.take()?;
        let token = u16::try_from(token).ok();
        let entry = token.and_then(|token| Some((token, self.in_flight.get_mut(usize::from(token))?.take()?)));
        let Some((token, buffer)) = entry else {
            self.is_broken = true;
            return None;
        };
        let pieces = Pieces::one(self.piece(buffer, 0), false);
        self.ring.free(token, &pieces);
        Some((buffer, written))
    }

    /// Whether the device has broken the protocol. The queue then receives and sends nothing any more.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Sets whether the device interrupts when it has received a frame, or has sent one. After turning interrupts on,
    /// the caller must check whether there is something to do, because the device may have done it just before.
    pub fn set_interrupts(&self, are_on: bool) {
        self.ring.set_interrupts(are_on);
    }

    /// Copies the next received frame into `frame`, and passes its buffer to the device again. Returns the length of
    /// the frame, or `None` if no frame has arrived. If there was a frame, the caller must notify the device. A length
    /// that cannot be right is taken as an empty frame.
    ///
    /// # Panics
    /// If the queue is for sending.
    pub fn receive(&mut self, frame: &mut [u8; FRAME_BYTES]) -> Option<usize> {
        assert_eq!(self.direction, Direction::Receive, "a queue for receiving");
        let (buffer, written) = self.complete()?;
        let bytes = (written as usize).checked_sub(HEADER).filter(|&bytes| bytes <= FRAME_BYTES).unwrap_or(0);
        let from = self.frame(buffer);
        before_shared_read(from, bytes);
        // SAFETY: the buffer has room for a frame, and `frame` is other memory. The copy makes no reference to the
        // buffer. So if the device wrongly changes these bytes meanwhile, only the copied data is wrong.
        unsafe { from.copy_to_nonoverlapping(frame.as_mut_ptr(), bytes) };
        self.pass(buffer, FRAME_BYTES);
        Some(bytes)
    }

    /// Whether [`send`](Self::send) has a buffer for a frame. Takes back the buffers of the frames that were sent.
    ///
    /// # Panics
    /// If the queue is for receiving.
    pub fn can_send(&mut self) -> bool {
        assert_eq!(self.direction, Direction::Send, "a queue for sending");
        while let Some((buffer, _)) = self.complete() {
            self.free.push(buffer);
        }
        !self.is_broken && !self.free.is_empty()
    }

    /// Copies `frame` into a buffer and passes it to the device. The caller must then notify the device. Drops the
    /// frame if [`can_send`](Self::can_send) returns false.
    ///
    /// # Panics
    /// If the queue is for receiving, or the frame has more than [`FRAME_BYTES`] bytes.
    pub fn send(&mut self, frame: &[u8]) {
        assert!(frame.len() <= FRAME_BYTES, "a frame of {} bytes", frame.len());
        if !self.can_send() {
            return;
        }
        let Some(buffer) = self.free.pop() else { return };
        // SAFETY: the buffer has room for a frame, and `frame` is other memory, because there are no references to
        // buffers. The header before it stays zero.
        unsafe { self.frame(buffer).copy_from_nonoverlapping(frame.as_ptr(), frame.len()) };
        self.pass(buffer, frame.len());
    }
}
