//! The memory of one request.
//!
//! ```text
//!  0          496      512                       512 + n    17 pages
//!  │  unused   │ header │ data (n bytes)            │ status │ unused │
//!  write:      └── the device reads ────────────────┴ writes ┘
//!  read:       └ reads ─┴── the device writes ───────────────┘
//! ```
//!
//! The header directly precedes the data, and the status directly follows it. So each request is one piece of memory
//! that the device reads, followed by one that it writes. (Virtio 1.2, 2.7.4, allows the driver to divide a request
//! into pieces as it likes.)

#![expect(unsafe_code, reason = "accesses memory that the device accesses, too")]

use core::ptr::{self, NonNull};

use virtio_drivers::PAGE_SIZE;

use crate::protocol::{HEADER_BYTES, NO_STATUS, Request};

/// The most bytes that one request transfers.
pub const REQUEST_BYTES: usize = 64 * 1024;

/// Offset of the data. It is a multiple of 512, because hosts need this alignment for direct transfers to and from a
/// disk with sectors of 512 bytes.
const DATA: usize = 512;
/// Offset of the header.
const HEADER: usize = DATA - HEADER_BYTES;
/// Number of pages of a buffer.
pub const BUFFER_PAGES: usize = (DATA + REQUEST_BYTES + 1).div_ceil(PAGE_SIZE);

/// The memory of one request, which the device can access. Only the device and the holder of this value access it.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
}

// SAFETY: only the device and the holder of this value access the memory, so the value may move to another thread.
unsafe impl Send for Buffer {}

/// The two pieces of a request's memory that are added to the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    pub(crate) read_by_device: NonNull<[u8]>,
    pub(crate) written_by_device: NonNull<[u8]>,
}

impl Buffer {
    /// # Safety
    /// `start` must be the beginning of [`BUFFER_PAGES`] pages that are never freed, that no other code uses, and whose
    /// bytes are initialised.
    pub(crate) unsafe fn new(start: NonNull<u8>) -> Self {
        Self { start }
    }

    /// Copies data from the buffer, beginning at the byte `offset` of the data.
    ///
    /// # Panics
    /// If the range is longer than the buffer.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.data(offset, into.len());
        // SAFETY: `data` has checked the range. `into` is other memory, because nobody has references to the buffer.
        // The copy makes no reference to the buffer. So if the device wrongly changes these bytes meanwhile, only the
        // copied data is wrong.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr(), into.len()) };
    }

    /// Copies data to the buffer, beginning at the byte `offset` of the data.
    ///
    /// # Panics
    /// If the range is longer than the buffer.
    pub fn write(&mut self, offset: usize, from: &[u8]) {
        let into = self.data(offset, from.len());
        // SAFETY: `data` has checked the range. `from` is other memory, because nobody has references to the buffer.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into.as_ptr(), from.len()) };
    }

    /// Returns the address of the `bytes` bytes of the data from `offset` on.
    fn data(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= REQUEST_BYTES), "within the buffer");
        // SAFETY: the assertion ensures that the result is within the buffer's pages.
        unsafe { self.start.add(DATA + offset) }
    }

    /// Writes the header of `request` (and the range of a discard), and sets the status to [`NO_STATUS`].
    pub(crate) fn prepare(&mut self, request: Request) -> Pieces {
        if let Some(range) = request.discarded_range() {
            self.write(0, &range);
        }
        let header = request.header();
        let (read, written) = request.data_bytes();
        assert!(read.max(written) <= REQUEST_BYTES, "the driver has checked the length");
        // SAFETY: the header is within the first page.
        let start = unsafe { self.start.add(HEADER) };
        // SAFETY: the header is within the first page, and there are no references to it.
        unsafe { ptr::copy_nonoverlapping(header.as_ptr(), start.as_ptr(), HEADER_BYTES) };
        // SAFETY: the data has at most `REQUEST_BYTES` bytes, and the pages have room for that and a status.
        let rest = unsafe { start.add(HEADER_BYTES + read) };
        // SAFETY: as above. Only one of `read` and `written` is not 0.
        let status = unsafe { rest.add(written) };
        // SAFETY: the status is within the pages, and there are no references to it.
        unsafe { status.write_volatile(NO_STATUS) };
        Pieces {
            read_by_device: NonNull::slice_from_raw_parts(start, HEADER_BYTES + read),
            written_by_device: NonNull::slice_from_raw_parts(rest, written + 1),
        }
    }
}

impl Pieces {
    /// Reads the status, which is the last byte that the device writes.
    pub(crate) fn status(self) -> u8 {
        let last = self.written_by_device.len() - 1;
        // SAFETY: `prepare` has made this piece, which contains at least the status.
        let status = unsafe { self.written_by_device.cast::<u8>().add(last) };
        // SAFETY: `prepare` has initialised the byte. The read is volatile, because the device may change it.
        unsafe { status.read_volatile() }
    }
}
