//! A queue of frames: each buffer holds one frame, with the device's header before it.
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
//! A device that completes a buffer which is not in flight is broken. Its queues then receive and send nothing, until the
//! device was reset and the queues were set up again.

#![expect(unsafe_code, reason = "promises to the queue that a frame owns its memory")]

use alloc::vec::Vec;
use core::fmt;

use crate::memory::Memory;
use crate::ring::{Payload, Pieces, Ring, room};
use crate::{Dma, Doorbell, OpenError, PAGE_SIZE, Transport};

/// The largest frame: an Ethernet header and 1,500 bytes.
pub const FRAME_BYTES: usize = 1514;

/// The size of the header with `VIRTIO_F_VERSION_1` (virtio 1.2, 5.1.6).
const HEADER: usize = 12;
const BUFFER: usize = 2048;
/// The largest number of buffers of a queue.
const MAX_BUFFERS: usize = 128;
/// The device is notified of this many buffers at once, while more of them are passed to it.
const BATCH: usize = 32;

/// The direction in which a queue passes frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Receive,
    Send,
}

/// A buffer that the device has: with `bytes` bytes of a frame, or room for them.
struct Frame {
    buffer: Memory,
    bytes: usize,
    direction: Direction,
}

// SAFETY: the buffer belongs to the value, whose fields do not change.
unsafe impl Payload for Frame {
    fn pieces(&self) -> Pieces {
        let (mut pieces, span) = (Pieces::default(), self.buffer.span(0, HEADER + self.bytes));
        match self.direction {
            Direction::Receive => pieces.add_written(span),
            Direction::Send => pieces.add_read(span),
        }
        pieces
    }
}

/// A queue that receives or sends frames.
pub struct Frames<D> {
    ring: Ring<Frame>,
    direction: Direction,
    /// The buffers that the device does not have.
    free: Vec<Memory>,
    doorbell: D,
    /// How many buffers the device has got since it was notified.
    passed: usize,
    is_broken: bool,
}

impl<D> fmt::Debug for Frames<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("direction", &self.direction).finish_non_exhaustive()
    }
}

impl<D: Doorbell> Frames<D> {
    /// Sets up the queue `number` of a device, and passes all its buffers to the device. The caller must call
    /// [`flush`](Self::flush) after it has set `DRIVER_OK`.
    ///
    /// # Errors
    /// If the device refuses the queue, or there is no memory. The caller must then reset the device.
    pub fn receiving<M: Dma>(transport: &mut impl Transport, number: u16, doorbell: D) -> Result<Self, OpenError> {
        let mut frames = Self::new::<M>(transport, number, Direction::Receive, doorbell)?;
        frames.begin();
        Ok(frames)
    }

    /// Sets up the queue `number` of a device, for sending. The device does not interrupt when it has sent a frame: see
    /// [`set_interrupts`](Self::set_interrupts).
    ///
    /// # Errors
    /// If the device refuses the queue, or there is no memory. The caller must then reset the device.
    pub fn sending<M: Dma>(transport: &mut impl Transport, number: u16, doorbell: D) -> Result<Self, OpenError> {
        let mut frames = Self::new::<M>(transport, number, Direction::Send, doorbell)?;
        frames.begin();
        Ok(frames)
    }

    fn new<M: Dma>(
        transport: &mut impl Transport,
        number: u16,
        direction: Direction,
        doorbell: D,
    ) -> Result<Self, OpenError> {
        // Without indirect descriptors, each buffer takes one entry of the queue.
        let ring = Ring::new::<M>(transport, number, false)?;
        let count = ring.entries().min(MAX_BUFFERS);
        let mut free = room(count)?;
        let mut memory = Memory::allocate::<M>((count * BUFFER).div_ceil(PAGE_SIZE))?;
        free.resize_with(count, || memory.split_off(BUFFER));
        Ok(Self { ring, direction, free, doorbell, passed: 0, is_broken: false })
    }

    /// Sets the queue up again, and takes back all buffers. The device has been reset. The caller must call
    /// [`flush`](Self::flush) after it has set `DRIVER_OK`. Allocates nothing.
    ///
    /// # Errors
    /// If the device refuses the queue.
    pub fn renew(&mut self, transport: &mut impl Transport) -> Result<(), OpenError> {
        self.ring.renew(transport)?;
        self.free.extend(self.ring.remove().map(|Frame { buffer, .. }| buffer));
        self.is_broken = false;
        self.begin();
        Ok(())
    }

    /// Passes the buffers for received frames to the device, or turns the interrupts for sent ones off.
    fn begin(&mut self) {
        self.passed = 0;
        match self.direction {
            Direction::Send => self.set_interrupts(false),
            Direction::Receive => {
                while let Some(buffer) = self.free.pop() {
                    self.add(buffer, FRAME_BYTES);
                }
                self.passed = 1;
            }
        }
    }

    /// Ends the use of the queue. The device may still access the buffers that it has, so they are never used again.
    pub fn give_up(&mut self) {
        self.is_broken = true;
    }

    /// Breaks the protocol, so that the device finds an error. Tests use this.
    pub fn mislead(&mut self) {
        self.ring.mislead();
        self.doorbell.ring();
    }

    fn add(&mut self, buffer: Memory, bytes: usize) {
        let added = self.ring.add(Frame { buffer, bytes, direction: self.direction });
        debug_assert!(added.is_ok(), "an entry for each buffer");
    }

    /// Passes a buffer to the device, and notifies the device from time to time.
    fn pass(&mut self, buffer: Memory, bytes: usize) {
        self.add(buffer, bytes);
        self.passed += 1;
        if self.passed == BATCH {
            self.flush();
        }
    }

    /// Notifies the device of all buffers that it has got.
    pub fn flush(&mut self) {
        if core::mem::take(&mut self.passed) != 0 {
            self.doorbell.ring();
        }
    }

    /// Takes the next buffer that the device has completed, and how much the device says it has written.
    fn complete(&mut self) -> Option<(Memory, u32)> {
        if self.is_broken {
            return None;
        }
        let completed = self.ring.complete();
        self.is_broken = completed.is_err();
        completed.ok().flatten().map(|(Frame { buffer, .. }, written)| (buffer, written))
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
    /// the frame, or `None` if no frame has arrived. A length that cannot be right is taken as an empty frame. When the
    /// caller has received what there is, it must call [`flush`](Self::flush).
    ///
    /// # Panics
    /// If the queue is for sending.
    pub fn receive(&mut self, frame: &mut [u8; FRAME_BYTES]) -> Option<usize> {
        assert_eq!(self.direction, Direction::Receive, "a queue for receiving");
        let (buffer, written) = self.complete()?;
        let bytes = (written as usize).checked_sub(HEADER).filter(|&bytes| bytes <= FRAME_BYTES).unwrap_or(0);
        buffer.read(HEADER, &mut frame[..bytes]);
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

    /// Copies `frame` into a buffer and passes it to the device. When the caller has sent what there is, it must call
    /// [`flush`](Self::flush). Drops the frame if [`can_send`](Self::can_send) returns false.
    ///
    /// # Panics
    /// If the queue is for receiving, or the frame has more than [`FRAME_BYTES`] bytes.
    pub fn send(&mut self, frame: &[u8]) {
        assert!(frame.len() <= FRAME_BYTES, "a frame of {} bytes", frame.len());
        if self.can_send()
            && let Some(mut buffer) = self.free.pop()
        {
            // The header before the frame stays zero.
            buffer.write(HEADER, frame);
            self.pass(buffer, frame.len());
        }
    }
}
