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

#![expect(unsafe_code, reason = "accesses memory that the device accesses, too")]

use alloc::vec::{Drain, Vec};
use core::ptr::{self, NonNull};

use virtio_drivers::{PAGE_SIZE, PhysAddr};

use crate::before_shared_read;
use crate::protocol::{HEADER_BYTES, NO_STATUS, Request};
use crate::ring::TABLE_BYTES;

/// The largest number of bytes of data in one buffer.
pub const BUFFER_BYTES: usize = 64 * 1024;
/// The largest number of buffers of one request.
pub const MAX_REQUEST_BUFFERS: usize = 16;
/// The largest number of bytes that one request transfers.
pub const MAX_REQUEST_BYTES: usize = MAX_REQUEST_BUFFERS * BUFFER_BYTES;
/// The largest number of pieces of memory of one request.
pub(crate) const MAX_PIECES: usize = MAX_REQUEST_BUFFERS + 1;

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

/// Memory that the device can access. Only the device and the holder of this value access it.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<u8>,
    /// The address by which the device accesses the memory.
    address: PhysAddr,
}

// SAFETY: only the device and the holder of this value access the memory, so the value may move to another thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// # Safety
    /// `start` must be the beginning of [`BUFFER_PAGES`] pages that are never freed, that no other code uses, and whose
    /// bytes are initialised. `address` must be the address of these pages for the device.
    pub(crate) unsafe fn new(start: NonNull<u8>, address: PhysAddr) -> Self {
        Self { start, address }
    }

    /// Returns the piece of this buffer that begins at `offset` and has `bytes` bytes.
    fn piece(&self, offset: usize, bytes: usize) -> Piece {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= END), "within the buffer");
        // SAFETY: the assertion ensures that the result is within the buffer's pages.
        let memory = NonNull::slice_from_raw_parts(unsafe { self.start.add(offset) }, bytes);
        Piece { memory, address: self.address + offset as PhysAddr }
    }
}

/// The buffers of one request. Only the device and the holder of this value access their memory.
#[derive(Debug)]
pub struct Buffers {
    /// The list was allocated for [`MAX_REQUEST_BUFFERS`] buffers when the device was set up, so it never grows.
    list: Vec<Buffer>,
    /// The number of bytes of data for which each buffer has room.
    segment_bytes: usize,
}

/// A piece of memory that the device reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) memory: NonNull<[u8]>,
    /// The address by which the device accesses the memory.
    pub(crate) address: PhysAddr,
}

impl Piece {
    fn start(self) -> *mut u8 {
        self.memory.as_ptr().cast()
    }
}

/// The pieces of a request's memory: those that the device reads, and then those that it writes.
#[derive(Debug)]
pub(crate) struct Pieces {
    list: heapless::Vec<Piece, MAX_PIECES>,
    /// The number of pieces that the device reads.
    read: usize,
    /// Room for the descriptors of the pieces.
    table: Piece,
}

impl Buffers {
    /// Makes an empty list with room for [`MAX_REQUEST_BUFFERS`] buffers, with `segment_bytes` bytes of data in each.
    /// Returns `None` if there is no memory.
    pub(crate) fn with_room(segment_bytes: usize) -> Option<Self> {
        let mut list = Vec::new();
        list.try_reserve_exact(MAX_REQUEST_BUFFERS).ok()?;
        Some(Self { list, segment_bytes })
    }

    /// Moves the last `count` buffers of `from` into this list. Does not allocate, because a request has at most
    /// [`MAX_REQUEST_BUFFERS`] buffers.
    pub(crate) fn fill(&mut self, count: usize, from: &mut Vec<Buffer>) {
        self.list.extend(from.drain(from.len() - count..));
    }

    /// Removes all buffers.
    pub(crate) fn drain(&mut self) -> Drain<'_, Buffer> {
        self.list.drain(..)
    }

    /// Returns the number of buffers.
    pub fn count(&self) -> usize {
        self.list.len()
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
        for piece in self.data(offset, rest.len()) {
            let (part, others) = rest.split_at_mut(piece.memory.len());
            before_shared_read(piece.start(), part.len());
            // SAFETY: the piece is in a buffer, and is as long as `part`. `part` is other memory, because there are no
            // references to buffers. The copy makes no reference to the buffer. So if the device wrongly changes these
            // bytes meanwhile, only the copied data is wrong.
            unsafe { ptr::copy_nonoverlapping(piece.start(), part.as_mut_ptr(), part.len()) };
            rest = others;
        }
    }

    /// Copies `from` to the buffers, beginning at the byte `offset` of the data.
    ///
    /// # Panics
    /// If the range extends past the end of the buffers.
    pub fn write(&mut self, offset: usize, from: &[u8]) {
        let mut rest = from;
        for piece in self.data(offset, rest.len()) {
            let (part, others) = rest.split_at(piece.memory.len());
            // SAFETY: the piece is in a buffer, and is as long as `part`. `part` is other memory, because there are no
            // references to buffers.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), piece.start(), part.len()) };
            rest = others;
        }
    }

    /// Returns the memory of the `bytes` bytes of the data from `offset` on: one piece in each buffer that contains
    /// some of these bytes.
    fn data(&self, offset: usize, bytes: usize) -> impl Iterator<Item = Piece> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.bytes()).expect("within the buffers");
        let mut offset = offset;
        core::iter::from_fn(move || {
            let (index, skip) = (offset / self.segment_bytes, offset % self.segment_bytes);
            let bytes = (end - offset).min(self.segment_bytes - skip);
            offset += bytes;
            (bytes != 0).then(|| self.list[index].piece(DATA + skip, bytes))
        })
    }

    /// Writes the header of `request` (and the range of a discard), and sets the status to [`NO_STATUS`]. Returns the
    /// pieces of memory of the request. The buffers must have room for the request.
    pub(crate) fn prepare(&mut self, request: Request) -> Pieces {
        if let Some(range) = request.discarded_range() {
            self.write(0, &range);
        }
        let header = self.list[0].piece(HEADER, HEADER_BYTES);
        // SAFETY: the piece is as long as the header, and there are no references to it.
        unsafe { ptr::copy_nonoverlapping(request.header().as_ptr(), header.start(), HEADER_BYTES) };
        let pieces = self.pieces(request);
        // SAFETY: the status is within a buffer, and there are no references to it.
        unsafe { pieces.status_address().write_volatile(NO_STATUS) };
        pieces
    }

    /// Returns the pieces of memory of `request`. The buffers must have room for the request. If there are more buffers
    /// than the request needs, the last ones are not used.
    pub(crate) fn pieces(&self, request: Request) -> Pieces {
        let (read, written) = request.data_bytes();
        // At least one of the two numbers is 0.
        let bytes = read.max(written);
        let count = bytes.div_ceil(self.segment_bytes).max(1);
        let table = self.list[0].piece(0, TABLE_BYTES);
        let mut pieces = Pieces { list: heapless::Vec::new(), read: 0, table };
        for (index, buffer) in self.list[..count].iter().enumerate() {
            let start = if index == 0 { HEADER } else { DATA };
            let data_end = DATA + self.segment_bytes.min(bytes - index * self.segment_bytes);
            let end = if index == count - 1 { data_end + 1 } else { data_end };
            // The device reads the bytes before `middle`, and writes the bytes from `middle` on.
            let middle = if written > 0 { DATA } else { data_end };
            // Only the first buffer of a read and the last buffer of any other request contain both a piece that the
            // device reads and a piece that it writes. In every other buffer one of the two pieces is empty.
            pieces.list.extend(not_empty(buffer.piece(start, middle - start)));
            pieces.read += usize::from(start < middle);
            pieces.list.extend(not_empty(buffer.piece(middle, end - middle)));
        }
        pieces
    }
}

impl Pieces {
    /// Returns the pieces of a request that has only one, for a queue without indirect descriptors.
    pub(crate) fn one(piece: Piece, is_written: bool) -> Self {
        Self { list: not_empty(piece).into_iter().collect(), read: usize::from(!is_written), table: piece }
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns the pieces. The second value of each pair is whether the device writes the piece.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Piece, bool)> {
        self.list.iter().enumerate().map(|(index, &piece)| (piece, index >= self.read))
    }

    /// Returns memory with room for a descriptor of each piece. This memory begins at the beginning of a page, and
    /// belongs to the request like the pieces themselves.
    pub(crate) fn table(&self) -> Piece {
        self.table
    }

    /// Returns the address of the status, which is the last byte that the device writes.
    fn status_address(&self) -> NonNull<u8> {
        let last = self.list.last().expect("the device writes at least the status").memory;
        // SAFETY: the result is the last byte of the piece, which is not empty.
        unsafe { last.cast::<u8>().add(last.len() - 1) }
    }

    /// Reads the status.
    pub(crate) fn status(&self) -> u8 {
        before_shared_read(self.status_address().as_ptr(), 1);
        // SAFETY: the byte is in a buffer, whose memory is initialised and never freed. The read is volatile, because
        // the device may change the byte.
        unsafe { self.status_address().read_volatile() }
    }
}

fn not_empty(piece: Piece) -> Option<Piece> {
    (!piece.memory.is_empty()).then_some(piece)
}
