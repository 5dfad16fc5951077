//! What a request consists of: its memory, its line in the completion table, how it stands and how it ended.

use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use virtio_drivers::device::blk::{BlkReq, BlkResp};

use crate::mm::PAGE_SIZE;
use crate::sched::kthread::KernelThread;

/// Bytes that one request moves at most.
pub(crate) const REQUEST_BYTES: usize = 64 * 1024;

/// Pages of a place: one for what is asked and how it went, the others for the data.
pub(super) const PLACE_PAGES: usize = 1 + REQUEST_BYTES / PAGE_SIZE;
/// In the first page: how it went.
const RESPONSE_OFFSET: usize = 64;

/// Which way data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestError {
    /// The device reports an error.
    Failed,
    /// The device does not know the request.
    Unsupported,
    /// The queue did not take the request.
    Refused,
    /// The device completed what was not asked of it, now or earlier, and is not used any more.
    Broken,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "the device reports an input/output error",
            Self::Unsupported => "the device does not know the request",
            Self::Refused => "the queue does not take the request",
            Self::Broken => "the device does not keep to the protocol and is not used any more",
        })
    }
}

impl core::error::Error for RequestError {}

/// The memory of a place. Whoever has the place has the memory, but for the time from submission to completion, when it
/// is the device's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    pub(super) request: NonNull<BlkReq>,
    pub(super) response: NonNull<BlkResp>,
    pub(super) data: NonNull<u8>,
}

// SAFETY: memory of the DMA pool, used by one owner at a time as said above.
unsafe impl Send for Buffers {}
// SAFETY: as above.
unsafe impl Sync for Buffers {}

impl Buffers {
    /// The memory of one place.
    ///
    /// # Safety
    /// `start` is the beginning of [`PLACE_PAGES`] zeroed pages for this place alone.
    pub(super) unsafe fn new(start: NonNull<u8>) -> Self {
        // SAFETY: inside of the first page.
        let response = unsafe { start.add(RESPONSE_OFFSET) }.cast();
        // SAFETY: the second page.
        let data = unsafe { start.add(PAGE_SIZE) };
        Self { request: start.cast(), response, data }
    }
}

/// A request that the device has.
#[derive(Debug)]
pub(super) struct InFlight {
    /// What the device knows it by.
    pub(super) token: u16,
    pub(super) direction: Direction,
    pub(super) bytes: usize,
    pub(super) thread: &'static KernelThread,
}

/// How the request of a place stands.
#[derive(Debug)]
pub(super) struct Outcome(AtomicU8);

impl Outcome {
    const PENDING: u8 = 0;
    const DONE: u8 = 1;

    /// Of a place that no request was made in.
    pub(super) const fn new() -> Self {
        Self(AtomicU8::new(Self::PENDING))
    }

    /// A request begins.
    pub(super) fn begin(&self) {
        self.0.store(Self::PENDING, Ordering::Relaxed);
    }

    /// It ended. Callable from interrupts.
    pub(super) fn set(&self, result: Result<(), RequestError>) {
        let value = match result {
            Ok(()) => Self::DONE,
            Err(RequestError::Failed) => 2,
            Err(RequestError::Unsupported) => 3,
            Err(RequestError::Refused) => 4,
            Err(RequestError::Broken) => 5,
        };
        // Ordering: Release; partner: the Acquire in `get`. What the device wrote is there, and the handler is through
        // with the buffers.
        self.0.store(value, Ordering::Release);
    }

    /// How it ended, if it has.
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
