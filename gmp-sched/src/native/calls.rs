//! Calls that block the thread. The P of such a call goes to another M. The number of threads that are blocked in
//! [`blocking`] and [`try_blocking`] is limited.

use std::sync::OnceLock;

use super::{Native, Semaphore};
use crate::base::error::OutOfResources;
use crate::entities::goroutine::WaitReason;

/// The maximum number of calls of [`blocking`] and [`try_blocking`] that block threads at the same time, unless
/// [`set_blocking_limit`] sets another number. Go: `debug.SetMaxThreads`. In Go the default is 10,000, and a program
/// that needs more threads ends.
#[doc(alias = "SetMaxThreads")]
pub const BLOCKING_LIMIT: u32 = 8_000;

/// Permits to block a thread. Gs that wait for a permit get one in the order of their calls.
static PERMITS: OnceLock<Semaphore> = OnceLock::new();

fn permits() -> &'static Semaphore {
    PERMITS.get_or_init(|| Semaphore::new(BLOCKING_LIMIT))
}

/// Sets the maximum number of calls of [`blocking`] and [`try_blocking`] that block threads at the same time, in all
/// schedulers of the process. Each further call parks its G until the call may begin. These calls begin in FIFO order.
///
/// Choose a number larger than the number of calls that may wait for one another. Otherwise these calls may wait
/// forever. Callable from any thread; does not block.
///
/// ```
/// use gmp_sched::native;
///
/// native::set_blocking_limit(100);
/// ```
///
/// # Panics
///
/// `limit` is 0 or above [`Semaphore::MAX`], the limit has been set before, or a blocking call has already been made.
#[track_caller]
pub fn set_blocking_limit(limit: u32) {
    assert!(limit > 0, "a limit of no blocking calls");
    assert!(PERMITS.set(Semaphore::new(limit)).is_ok(), "the limit of blocking calls is in use already");
}

/// Runs `call`, which may block the thread, as a system call. If the call lasts, sysmon hands the P off to another M,
/// usually after 20 µs to 20 ms. Until then the other Gs of the P wait or are stolen. A short call costs some
/// nanoseconds more than without this function. For a call that will block, use [`blocking`].
///
/// During the call the G stays on its thread, and must not spawn, yield or wait. On return, blocks the calling G until
/// there is a P for it. Go runs every system call in this way.
///
/// # Panics
///
/// The caller is pinned, is not a G with a P or [may not wait](super::may_wait), or `call` panics.
#[track_caller]
pub fn syscall<R>(call: impl FnOnce() -> R) -> R {
    crate::engine::syscall::syscall::<Native, R>(call)
}

/// Hands the P off to another M, so that the other Gs continue at once, and then runs `call`, which will block the
/// thread. Makes a thread for the P if none is idle.
///
/// At most [`BLOCKING_LIMIT`] calls, or as many as [`set_blocking_limit`] allows, run at the same time. Further calls
/// wait, in order, until a running call returns. In all other respects this is like [`syscall`].
///
/// # Panics
///
/// The caller is pinned, is not a G with a P or [may not wait](super::may_wait), the operating system has no thread to
/// take over the P, or `call` panics.
#[track_caller]
pub fn blocking<R>(call: impl FnOnce() -> R) -> R {
    let _permit = permits().acquire_for(WaitReason::BlockingLimit);
    crate::engine::syscall::blocking::<Native, R>(call)
}

/// Like [`blocking`], but returns an error if no thread can be created.
///
/// # Errors
///
/// The operating system has no thread to take over the P. `call` has not been run.
///
/// # Panics
///
/// The caller is pinned, is not a G with a P or [may not wait](super::may_wait), or `call` panics.
#[track_caller]
pub fn try_blocking<R>(call: impl FnOnce() -> R) -> Result<R, OutOfResources> {
    let _permit = permits().acquire_for(WaitReason::BlockingLimit);
    crate::engine::syscall::try_blocking::<Native, R>(call)
}
