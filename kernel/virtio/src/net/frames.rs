//! A queue of frames: a buffer holds one frame, with the device's header before it.
//!
//! ```text
//! 0        12                     2048
//! │ header │ the bytes of a frame │        up to 128 such buffers
//! ```
//!
//! The driver copies each frame between the buffer and its own memory. So a device that writes to a buffer after it has
//! completed that buffer changes no byte that the driver has copied. The header of a sent frame says what the device
//! does with it ([`offload`](super::offload)). A queue to a device that cuts frames also has some longer buffers.
//!
//! The header of a received frame is read only if the device merges buffers (`MERGED`). The device may then put several
//! frames together into one, whose data continues in further buffers without gaps. Only the first of these buffers has
//! a header, which contains their number.
//!
//! A device that completes a buffer which is not in flight is broken. The queue then receives or sends nothing, until the
//! device has been reset and the queue has been set up again.

#![expect(unsafe_code, reason = "promises to the queue that a frame owns its memory")]

use alloc::vec::Vec;
use core::fmt;

use super::offload::{CUT_FRAME_BYTES, HEADER, Offload};
use crate::memory::Memory;
use crate::ring::{Payload, Pieces, Ring, room};
use crate::{Dma, Doorbell, OpenError, PAGE_SIZE, Transport};

/// The largest frame on the wire: an Ethernet header and 1,500 bytes. A device may combine or cut frames: see
/// [`MERGED_FRAME_BYTES`] and [`CUT_FRAME_BYTES`].
pub const FRAME_BYTES: usize = 1514;

/// The largest frame that a device puts together: an Ethernet header, an IPv6 header, and the largest content.
pub const MERGED_FRAME_BYTES: usize = 14 + 40 + 65_535;

/// `VIRTIO_NET_F_GUEST_CSUM`, `VIRTIO_NET_F_GUEST_TSO4`, `VIRTIO_NET_F_GUEST_TSO6` and `VIRTIO_NET_F_MRG_RXBUF`: the
/// device may put segments of a connection together into one frame, which need not have a checksum, in several buffers.
/// The driver uses all of them or none.
pub(super) const MERGED: u64 = 1 << 1 | 1 << 7 | 1 << 8 | 1 << 15;
/// `MERGED` is used only if the queue has this many entries, for twice the buffers of the largest frame.
pub(super) const MERGED_ENTRIES: u16 = 2 * MOST_MERGED as u16;
/// The largest number of buffers of a frame.
const MOST_MERGED: usize = MERGED_FRAME_BYTES.div_ceil(BUFFER - HEADER);

/// The offsets of the flags in a header, and of the number of buffers.
const FLAGS: usize = 0;
const BUFFERS: usize = 10;
/// The flags which say that the device knows that the data is right: its checksum has not been computed yet, or the device
/// has checked it.
const CHECKED: u8 = 1 | 2;

const BUFFER: usize = 2048;
/// The size of the buffers for frames that the device cuts, and their number: two for each of four connections.
const LONG_BUFFER: usize = (HEADER + CUT_FRAME_BYTES).next_multiple_of(BUFFER);
const LONG_BUFFERS: usize = 8;
/// The largest number of buffers of a queue.
const MAX_BUFFERS: usize = 128;
/// The device is notified each time that this many buffers have been passed to it.
const BATCH: usize = 32;

/// The direction in which a queue passes frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Receive { is_merged: bool },
    Send { cuts: bool },
}

/// A frame that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// The length of the frame.
    pub bytes: usize,
    /// Whether the device knows that the data is right. The checksums of TCP and UDP may then be wrong.
    pub is_checked: bool,
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
            Direction::Receive { .. } => pieces.add_written(span),
            Direction::Send { .. } => pieces.add_read(span),
        }
        pieces
    }
}

/// A queue that receives or sends frames.
pub struct Frames<D> {
    ring: Ring<Frame>,
    direction: Direction,
    /// The buffers of 2048 bytes that the device does not have.
    free: Vec<Memory>,
    /// The longer buffers that the device does not have, for frames that it cuts.
    long: Vec<Memory>,
    doorbell: D,
    /// How many buffers the device has got since it was notified. All buffers of the set-up count as one.
    passed: usize,
    is_broken: bool,
}

impl<D> fmt::Debug for Frames<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("direction", &self.direction).finish_non_exhaustive()
    }
}

impl<D: Doorbell> Frames<D> {
    /// Sets up the queue `number` of a device, and passes all its buffers to the device. `is_merged` is whether the
    /// features `MERGED` were negotiated. The caller must call [`flush`](Self::flush) after it has set `DRIVER_OK`.
    ///
    /// # Errors
    /// If the device refuses the queue, or there is no memory. The caller must then reset the device.
    pub fn receiving<M: Dma>(
        transport: &mut impl Transport,
        number: u16,
        is_merged: bool,
        doorbell: D,
    ) -> Result<Self, OpenError> {
        let mut frames = Self::new::<M>(transport, number, Direction::Receive { is_merged }, doorbell)?;
        frames.begin();
        Ok(frames)
    }

    /// Sets up the queue `number` of a device, for sending. `cuts` is whether the features `CUT` were negotiated. The
    /// device does not interrupt when it has sent a frame: see [`set_interrupts`](Self::set_interrupts).
    ///
    /// # Errors
    /// If the device refuses the queue, or there is no memory. The caller must then reset the device.
    pub fn sending<M: Dma>(
        transport: &mut impl Transport,
        number: u16,
        cuts: bool,
        doorbell: D,
    ) -> Result<Self, OpenError> {
        let mut frames = Self::new::<M>(transport, number, Direction::Send { cuts }, doorbell)?;
        frames.begin();
        Ok(frames)
    }

    fn new<M: Dma>(
        transport: &mut impl Transport,
        number: u16,
        direction: Direction,
        doorbell: D,
    ) -> Result<Self, OpenError> {
        // Each buffer is one piece of memory, so indirect descriptors would save no entries.
        let ring = Ring::new::<M>(transport, number, false)?;
        let long_count = if direction == (Direction::Send { cuts: true }) { LONG_BUFFERS } else { 0 };
        let count = (ring.entries() - long_count).min(MAX_BUFFERS);
        let (mut free, mut long) = (room(count)?, room(long_count)?);
        let bytes = count * BUFFER + long_count * LONG_BUFFER;
        let mut memory = Memory::allocate::<M>(bytes.div_ceil(PAGE_SIZE))?;
        free.resize_with(count, || memory.split_off(BUFFER));
        long.resize_with(long_count, || memory.split_off(LONG_BUFFER));
        Ok(Self { ring, direction, free, long, doorbell, passed: 0, is_broken: false })
    }

    /// Sets the queue up again, and takes back all buffers. The device has been reset. The caller must call
    /// [`flush`](Self::flush) after it has set `DRIVER_OK`. Allocates nothing.
    ///
    /// # Errors
    /// If the device refuses the queue.
    pub fn renew(&mut self, transport: &mut impl Transport) -> Result<(), OpenError> {
        self.ring.renew(transport)?;
        for Frame { buffer, .. } in self.ring.remove() {
            let list = if buffer.bytes() == BUFFER { &mut self.free } else { &mut self.long };
            list.push(buffer);
        }
        self.is_broken = false;
        self.begin();
        Ok(())
    }

    /// Passes the buffers for received frames to the device, or turns the interrupts for sent ones off.
    fn begin(&mut self) {
        self.passed = 0;
        match self.direction {
            Direction::Send { .. } => self.set_interrupts(false),
            Direction::Receive { .. } => {
                while let Some(buffer) = self.free.pop() {
                    self.add(buffer, self.room());
                }
                self.passed = 1;
            }
        }
    }

    /// Returns how many bytes of a frame a buffer for received frames has room for, after the header.
    fn room(&self) -> usize {
        if self.direction == (Direction::Receive { is_merged: true }) { BUFFER - HEADER } else { FRAME_BYTES }
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

    /// Passes a buffer to the device, and notifies the device of every [`BATCH`] buffers.
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

    /// Whether the device says that it has completed a buffer.
    pub(super) fn has_completed(&self) -> bool {
        self.ring.has_completed()
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

    /// Whether the device has broken the protocol, or the queue was [given up](Self::give_up). The queue then receives or
    /// sends nothing until it is [renewed](Self::renew).
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Sets whether the device interrupts when it has received a frame, or has sent one. After turning interrupts on,
    /// the caller must check whether there is something to do, because the device may have done it just before.
    pub fn set_interrupts(&self, are_on: bool) {
        self.ring.set_interrupts(are_on);
    }

    /// Copies the next received frame to the beginning of `frame`, and passes its buffers to the device again. Returns
    /// `None` if no frame has arrived, or the queue is broken. A frame that cannot be right, or is longer than `frame`, is
    /// taken as an empty one. When the caller has received what there is, it must call [`flush`](Self::flush).
    ///
    /// # Panics
    /// If the queue is for sending.
    pub fn receive(&mut self, frame: &mut [u8]) -> Option<Received> {
        let Direction::Receive { is_merged } = self.direction else { panic!("a queue for receiving") };
        let (buffer, written) = self.complete()?;
        let (mut buffers, mut is_checked) = (1, false);
        if is_merged {
            let mut header = [0; HEADER];
            buffer.read(0, &mut header);
            buffers = u16::from_le_bytes([header[BUFFERS], header[BUFFERS + 1]]).into();
            is_checked = header[FLAGS] & CHECKED != 0;
        }
        let mut end = self.take(buffer, HEADER, written, frame, 0);
        if !(1..=MOST_MERGED).contains(&buffers) {
            return Some(Received::default());
        }
        for _ in 1..buffers {
            // The device completes the buffers of a frame together (virtio 1.2, 5.1.6.4.1).
            let Some((buffer, written)) = self.complete() else { return Some(Received::default()) };
            end = end.and_then(|start| self.take(buffer, 0, written, frame, start));
        }
        Some(end.map_or(Received::default(), |bytes| Received { bytes, is_checked }))
    }

    /// Copies the data of a buffer, which begins at `offset`, to `frame`, from `start` on. Passes the buffer to the device
    /// again. `written` is the number of bytes that the device says it has written. Returns the end of the data in
    /// `frame`, or `None` if there is no room or `written` cannot be right.
    fn take(&mut self, buffer: Memory, offset: usize, written: u32, frame: &mut [u8], start: usize) -> Option<usize> {
        let most = HEADER + self.room();
        let bytes = (written as usize).checked_sub(offset).filter(|bytes| offset + bytes <= most);
        let part = bytes.and_then(|bytes| frame.get_mut(start..start + bytes));
        let end = part.map(|part| {
            buffer.read(offset, part);
            start + part.len()
        });
        self.pass(buffer, most - HEADER);
        end
    }

    /// Whether [`send`](Self::send) has a buffer for a frame of any length. Takes back the buffers of the frames that were
    /// sent.
    ///
    /// # Panics
    /// If the queue is for receiving.
    pub fn can_send(&mut self) -> bool {
        let Direction::Send { cuts } = self.direction else { panic!("a queue for sending") };
        while let Some((buffer, _)) = self.complete() {
            let list = if buffer.bytes() == BUFFER { &mut self.free } else { &mut self.long };
            list.push(buffer);
        }
        let has_room = !self.free.is_empty() && (!cuts || !self.long.is_empty());
        has_room && !self.is_broken
    }

    /// Copies `frame` into a buffer and passes it to the device. A device that cuts frames cuts it into segments of at
    /// most `segment_bytes` bytes of data. When the caller has sent what there is, it must call [`flush`](Self::flush).
    /// Drops the frame if [`can_send`](Self::can_send) returns false.
    ///
    /// # Panics
    /// If the queue is for receiving, or the frame has more than [`FRAME_BYTES`] bytes, or than [`CUT_FRAME_BYTES`] if
    /// the device cuts it.
    pub fn send(&mut self, frame: &[u8], segment_bytes: u16) {
        let cuts = self.direction == Direction::Send { cuts: true };
        assert!(frame.len() <= if cuts { CUT_FRAME_BYTES } else { FRAME_BYTES }, "a frame of {} bytes", frame.len());
        if !self.can_send() {
            return;
        }
        let list = if frame.len() > FRAME_BYTES { &mut self.long } else { &mut self.free };
        if let Some(mut buffer) = list.pop() {
            let Offload { header, sum } = if cuts { Offload::of(frame, segment_bytes) } else { Offload::default() };
            buffer.write(0, &header);
            buffer.write(HEADER, frame);
            if let Some((at, sum)) = sum {
                buffer.write(HEADER + at, &sum);
            }
            self.pass(buffer, frame.len());
        }
    }
}
