//! The memory of a request: one buffer, or several for a large request.
//!
//! ```text
//!           first buffer                            each further buffer
//!           0       272      496      512                   0        512
//!           │ table │ unused │ header │ data │ ...          │ unused │ data │ ...
//!
//!  write:                    └── read ───────┘                       └ read ┘   ...   after the last byte of data: └ status, written
//!  read:                     └ read ─┴ written ┘                     └ written ┘ ...  └ status, written
//! ```
//!
//! Each buffer except for the last one is full of data. The header directly precedes the data in the first buffer, and
//! the status directly follows the data in the last one. (Virtio 1.2, 2.7.4, allows the driver to divide a request into
//! pieces as it likes.) So a request with one buffer consists of two pieces of memory: one that the device reads,
//! followed by one that it writes. Each further buffer adds one piece. The table contains the descriptors of the
//! pieces, if the queue uses indirect descriptors.

use alloc::vec::{Drain, Vec};

use super::protocol::{HEADER_BYTES, NO_STATUS, Request};
use crate::memory::{Memory, Span};
use crate::ring::{MAX_PIECES, Pieces, TABLE_BYTES, room};
use crate::rings::Descriptor;
use crate::{OpenError, PAGE_SIZE};

/// The largest number of bytes of data in one buffer.
pub const BUFFER_BYTES: usize = 64 * 1024;
/// The largest number of buffers of one request.
pub const MAX_REQUEST_BUFFERS: usize = 16;
/// The largest number of bytes that one request transfers.
pub const MAX_REQUEST_BYTES: usize = MAX_REQUEST_BUFFERS * BUFFER_BYTES;
const _: () = assert!(MAX_REQUEST_BUFFERS < MAX_PIECES);

/// The offset of the data in a buffer. It is a multiple of 512, because hosts need this alignment for direct transfers
/// to and from a disk with sectors of 512 bytes.
const DATA: usize = 512;
/// The offset of the header in the first buffer.
const HEADER: usize = DATA - HEADER_BYTES;
const _: () = assert!(TABLE_BYTES <= HEADER, "the table ends before the header");
/// The offset of the end of a buffer. There is room for [`BUFFER_BYTES`] bytes of data and for one byte of status.
const END: usize = DATA + BUFFER_BYTES + 1;
/// The number of pages of a buffer.
pub const BUFFER_PAGES: usize = END.div_ceil(PAGE_SIZE);

/// The buffers of one request. Only the device and the holder of this value access their memory.
#[derive(Debug)]
pub struct Buffers {
    /// The list was allocated for [`MAX_REQUEST_BUFFERS`] buffers when the device was set up, so it never grows.
    list: Vec<Memory>,
    /// The number of bytes of data for which each buffer has room.
    segment_bytes: usize,
    slot: u16,
}

impl Buffers {
    /// Makes an empty list with room for [`MAX_REQUEST_BUFFERS`] buffers, with `segment_bytes` bytes of data in each.
    pub(super) fn with_room(segment_bytes: usize, slot: u16) -> Result<Self, OpenError> {
        Ok(Self { list: room(MAX_REQUEST_BUFFERS)?, segment_bytes, slot })
    }

    /// Moves the last `count` buffers of `from` into this list. Does not allocate, because a request has at most
    /// [`MAX_REQUEST_BUFFERS`] buffers.
    pub(super) fn fill(&mut self, count: usize, from: &mut Vec<Memory>) {
        self.list.extend(from.drain(from.len() - count..));
    }

    /// Removes all buffers.
    pub(super) fn drain(&mut self) -> Drain<'_, Memory> {
        self.list.drain(..)
    }

    /// Returns the number of buffers.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns the number by which the answer to the request names these buffers. No other buffers of the same queue
    /// have this number until these are put back.
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Returns the number of bytes of data for which there is room.
    pub fn bytes(&self) -> usize {
        self.list.len() * self.segment_bytes
    }

    /// Fills `into` with data from the buffers, beginning at the byte `offset` of the data.
    ///
    /// # Panics
    /// If the range extends past the end of the buffers.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let mut rest = into;
        for (index, start, bytes) in self.data(offset, rest.len()) {
            let (part, others) = rest.split_at_mut(bytes);
            self.list[index].read(start, part);
            rest = others;
        }
    }

    /// Copies `from` to the buffers, beginning at the byte `offset` of the data.
    ///
    /// # Panics
    /// If the range extends past the end of the buffers.
    pub fn write(&mut self, offset: usize, from: &[u8]) {
        let mut rest = from;
        for (index, start, bytes) in self.data(offset, rest.len()) {
            let (part, others) = rest.split_at(bytes);
            self.list[index].write(start, part);
            rest = others;
        }
    }

    /// Returns where the `bytes` bytes of the data from `offset` on are: for each buffer that contains some of them,
    /// the index of the buffer, the offset in the buffer, and the number of bytes.
    fn data(&self, offset: usize, bytes: usize) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.bytes()).expect("within the buffers");
        let (mut offset, segment_bytes) = (offset, self.segment_bytes);
        core::iter::from_fn(move || {
            let (index, skip) = (offset / segment_bytes, offset % segment_bytes);
            let bytes = (end - offset).min(segment_bytes - skip);
            offset += bytes;
            (bytes != 0).then_some((index, DATA + skip, bytes))
        })
    }

    /// Writes the header of `request` (and the range of a discard), and sets the status to [`NO_STATUS`]. The buffers
    /// must have room for the request.
    pub(super) fn prepare(&mut self, request: Request) {
        if let Some(range) = request.discarded_range() {
            self.write(0, &range);
        }
        self.list[0].write(HEADER, &request.header());
        let (last, offset) = self.status_position(request);
        self.list[last].write(offset, &[NO_STATUS]);
    }

    /// Returns the index of the last buffer that `request` needs, and the offset of the status in this buffer.
    fn status_position(&self, request: Request) -> (usize, usize) {
        let (read, written) = request.data_bytes();
        // At least one of the two numbers is 0.
        let bytes = read.max(written);
        let last = bytes.div_ceil(self.segment_bytes).max(1) - 1;
        (last, DATA + bytes - last * self.segment_bytes)
    }

    /// Reads the status of `request`.
    pub(super) fn status(&self, request: Request) -> u8 {
        let ((last, offset), mut status) = (self.status_position(request), [0]);
        self.list[last].read(offset, &mut status);
        status[0]
    }

    /// Returns the pieces of memory of `request`. The buffers must have room for the request. If there are more buffers
    /// than the request needs, the last ones are not used.
    pub(super) fn pieces(&self, request: Request) -> Pieces {
        let ((last, status), (_, written)) = (self.status_position(request), request.data_bytes());
        let mut pieces = Pieces::default();
        for (index, buffer) in self.list[..=last].iter().enumerate() {
            let start = if index == 0 { HEADER } else { DATA };
            let (data_end, end) = if index == last {
                (status, status + 1)
            } else {
                (DATA + self.segment_bytes, DATA + self.segment_bytes)
            };
            // The device reads the bytes before `middle`, and writes the bytes from `middle` on. Only the first buffer
            // of a read and the last buffer of any other request contain both. Otherwise one of the pieces is empty.
            let middle = if written > 0 { DATA } else { data_end };
            if start < middle {
                pieces.add_read(buffer.span(start, middle - start));
            }
            pieces.add_written(buffer.span(middle, end - middle));
        }
        pieces
    }

    /// Returns room for the descriptors of the pieces.
    pub(super) fn table(&mut self) -> (&[Descriptor], Span) {
        let span = self.list[0].span(0, TABLE_BYTES);
        (self.list[0].atomics(0, MAX_PIECES), span)
    }
}
