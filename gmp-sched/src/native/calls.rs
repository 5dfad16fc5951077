//! Calls that block the thread: their P goes to another M, and not more than a limited number of threads are blocked.

use std::sync::OnceLock;

use super::{Native, Semaphore};
use crate::base::error::OutOfResources;

/// The most calls that [`blocking`] and [`try_blocking`] let block threads at the same time, unless
/// [`set_blocking_limit`] sets another number. Go: `debug.SetMaxThreads`, 10,000, beyond which the program ends.
#[doc(alias = "SetMaxThreads")]
pub const BLOCKING_LIMIT: u32 = 8_000;

/// Permits to block a thread. Waiters get one in the order of their calls.
static PERMITS: OnceLock<Semaphore> = OnceLock::new();

fn permits() -> &'static Semaphore {
    PERMITS.get_or_init(|| Semaphore::new(BLOCKING_LIMIT))
}

/// Sets the most calls that [`blocking`] and [`try_blocking`] let block threads at the same time, in all schedulers of the
/// process. Further calls wait, each parking only its G, and begin in order.
///
/// Choose a number above that of the calls which may wait for one another: otherwise they may wait forever. Callable
/// from any thread; does not block.
///
/// ```
/// use gmp_sched::native;
///
/// native::set_blocking_limit(100);
/// ```
///
/// # Panics
///
/// `limit` is 0 or above [`Semaphore::MAX`]; the limit has been set before, or a call has been made.
#[track_caller]
pub fn set_blocking_limit(limit: u32) {
    assert!(limit > 0, "a limit of no blocking calls");
    assert!(PERMITS.set(Semaphore::new(limit)).is_ok(), "the limit of blocking calls is in use already");
}

/// Runs `call`, which may block the thread, as a system call: if it lasts, sysmon hands the P off to another M, after 20 µs at
/// the earliest and 10 ms at the latest. Until then the other Gs of the P wait or are stolen. Costs some nanoseconds if the
/// call is short. For a call that will block, use [`blocking`].
///
/// The G stays on its thread during the call, and may neither spawn, yield nor wait. Blocks the calling G on return until there
/// is a P for it. Go: what every system call does.
///
/// # Panics
///
/// The caller is not a G; the call panics.
#[track_caller]
pub fn syscall<R>(call: impl FnOnce() -> R) -> R {
    crate::engine::syscall::syscall::<Native, R>(call)
}

/// Runs `call`, which will block the thread, after handing the P off to another M, so that the other Gs continue at
/// once. Makes a thread for that if none is idle.
///
/// At most [`BLOCKING_LIMIT`] calls run at the same time; further ones wait, in order, until one of them returns. Otherwise as
/// [`syscall`].
///
/// # Panics
///
/// The caller is not a G; the operating system has no thread to take over; the call panics.
#[track_caller]
pub fn blocking<R>(call: impl FnOnce() -> R) -> R {
    let _permit = permits().acquire(1);
    crate::engine::syscall::blocking::<Native, R>(call)
}

/// [`blocking`] that returns an error if there is no thread.
///
/// # Errors
///
/// The operating system has no thread to take over; `call` has not been run.
///
/// # Panics
///
/// The caller is not a G; the call panics.
#[track_caller]
pub fn try_blocking<R>(call: impl FnOnce() -> R) -> Result<R, OutOfResources> {
    let _permit = permits().acquire(1);
    crate::engine::syscall::try_blocking::<Native, R>(call)
}
