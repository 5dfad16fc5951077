//! The parts of a request: its memory, its entry in the completion table, and its outcome.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use virtio_drivers::device::blk::{BlkReq, BlkResp};

use crate::drivers::disk_error::RequestError;
use crate::mm::PAGE_SIZE;
use crate::sched::kthread::KernelThread;

/// The most bytes that one request transfers.
pub(crate) const REQUEST_BYTES: usize = 64 * 1024;

/// Number of pages of a slot: one page for header and status, the others for the data.
pub(super) const SLOT_PAGES: usize = 1 + REQUEST_BYTES / PAGE_SIZE;
/// Offset of the status in the first page.
const RESPONSE_OFFSET: usize = 64;

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// The memory of a slot. The device accesses it from the submission of a request to its completion. At other times only
/// the holder of the slot accesses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    pub(super) request: NonNull<BlkReq>,
    pub(super) response: NonNull<BlkResp>,
    pub(super) data: NonNull<u8>,
}

// SAFETY: the pointers are to memory of the DMA pool, which the driver never frees. One thread at a time holds the
// slot, and only this thread accesses the memory.
unsafe impl Send for Buffers {}
// SAFETY: one thread at a time holds the slot, and only this thread accesses the memory.
unsafe impl Sync for Buffers {}

impl Buffers {
    /// The memory of one slot.
    ///
    /// # Safety
    /// `start` is the beginning of [`SLOT_PAGES`] zeroed pages that are used for this slot only.
    pub(super) unsafe fn new(start: NonNull<u8>) -> Self {
        // SAFETY: the status is within the first page of the slot, which the caller provides.
        let response = unsafe { start.add(RESPONSE_OFFSET) }.cast();
        // SAFETY: the data begins at the second page of the slot, which the caller provides.
        let data = unsafe { start.add(PAGE_SIZE) };
        Self { request: start.cast(), response, data }
    }
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    /// The token by which the queue identifies the request.
    pub(super) token: u16,
    pub(super) direction: Direction,
    pub(super) bytes: usize,
    pub(super) thread: &'static KernelThread,
}

/// The outcome of the current request of a slot: pending, successful, or an error.
#[derive(Debug)]
pub(super) struct Outcome(AtomicU8);

impl Outcome {
    const PENDING: u8 = 0;
    const DONE: u8 = 1;

    /// The outcome before the first request.
    pub(super) const fn new() -> Self {
        Self(AtomicU8::new(Self::PENDING))
    }

    /// Begins a request by making its outcome pending.
    pub(super) fn begin(&self) {
        self.0.store(Self::PENDING, Ordering::Relaxed);
    }

    /// Stores the outcome of the request. Callable from interrupts.
    pub(super) fn set(&self, result: Result<(), RequestError>) {
        let value = match result {
            Ok(()) => Self::DONE,
            Err(RequestError::Failed) => 2,
            Err(RequestError::Unsupported) => 3,
            Err(RequestError::Refused) => 4,
            Err(RequestError::Broken) => 5,
        };
        // Ordering: Release; partner: the Acquire load in `get`. Before this store the device has written its data, and
        // the interrupt handler has finished with the buffers. A thread that loads the outcome may therefore read and
        // reuse the buffers.
        self.0.store(value, Ordering::Release);
    }

    /// The outcome; `None` while the request is pending.
    pub(super) fn get(&self) -> Option<Result<(), RequestError>> {
        Some(match self.0.load(Ordering::Acquire) {
            Self::PENDING => return None,
            Self::DONE => Ok(()),
            2 => Err(RequestError::Failed),
            3 => Err(RequestError::Unsupported),
            4 => Err(RequestError::Refused),
            _ => Err(RequestError::Broken),
        })
    }
}
