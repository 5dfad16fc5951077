//! Numbers that describe the process and the caller's scheduler, and settings that hold for all schedulers of the
//! process.

use core::time::Duration;
use std::thread;

use super::Native;
use crate::base::atomic::{Ordering, StaticU64};
use crate::platform::{Pinned, SLICE};

static SLICE_NANOSECONDS: StaticU64 = StaticU64::new(SLICE.as_nanos() as u64);

/// Returns how long a G of any scheduler of this process may run before it has to give way to others; see
/// [`Platform::slice`](crate::platform::Platform::slice).
pub(super) fn slice() -> Duration {
    Duration::from_nanos(SLICE_NANOSECONDS.load(Ordering::Relaxed))
}

/// Sets the length of a slice for all schedulers of this process: how long a G may run before it has to give way to
/// others. The default is 10 ms. With [`Duration::MAX`] no slice ends, so with one P the order in which Gs run does not
/// depend on timing.
///
/// Callable from any thread; does not block. Go: `forcePreemptNS`, a constant.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native;
///
/// native::set_slice(Duration::from_millis(1));
/// ```
#[doc(alias = "forcePreemptNS")]
pub fn set_slice(slice: Duration) {
    let nanoseconds = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    SLICE_NANOSECONDS.store(nanoseconds, Ordering::Relaxed);
}

/// Whether the stacks of dead Gs are poisoned; see [`poison_dead_stacks`].
static IS_POISONING: StaticU64 = StaticU64::new(0);

pub(super) fn poisons_dead_stacks() -> bool {
    IS_POISONING.load(Ordering::Relaxed) != 0
}

/// Makes all schedulers of this process poison the stacks of Gs that have ended: the upper 32 KiB of a stack of the
/// standard size are overwritten with a pattern when the stack goes to a free list. If the pattern has changed when the
/// stack is used again, the process ends with a message. Use this to find code that uses the stack of a G that has
/// ended.
///
/// Has no effect in a build of this crate without debug assertions. Callable from any thread; does not block.
///
/// ```
/// use gmp_sched::native;
///
/// native::poison_dead_stacks();
/// ```
pub fn poison_dead_stacks() {
    IS_POISONING.store(1, Ordering::Relaxed);
}

static IDLE_NANOSECONDS: StaticU64 = StaticU64::new(10_000_000_000);

/// Returns how long a scheduler may have more threads than it needs; see [`set_idle_limit`].
pub(super) fn idle_limit() -> Duration {
    Duration::from_nanos(IDLE_NANOSECONDS.load(Ordering::Relaxed))
}

/// Sets, for all schedulers of this process, how long a scheduler keeps idle threads that it does not need. The default
/// is 10 s. A scheduler needs one thread for each P, in addition to the threads that are blocked in calls. If it has
/// had more threads than that for at least `limit`, the superfluous threads end as they become idle.
///
/// Callable from any thread; does not block. In Go threads do not end.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native;
///
/// native::set_idle_limit(Duration::from_secs(1));
/// ```
pub fn set_idle_limit(limit: Duration) {
    let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    IDLE_NANOSECONDS.store(nanoseconds, Ordering::Relaxed);
}

/// The number of CPUs that this process may use, or 1 if the system does not report it. Callable from any thread; does
/// not block. Go: `runtime.NumCPU`.
///
/// ```
/// use gmp_sched::native;
///
/// // SAFETY: no G uses a thread-local variable.
/// let threads = unsafe { native::enter() };
/// assert_eq!(threads.run(native::num_cpu(), native::procs), native::num_cpu());
/// ```
#[doc(alias = "NumCPU")]
#[must_use]
pub fn num_cpu() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The number of Ps of the caller's scheduler, which is how many Gs can run at once. [`set_procs`](super::set_procs)
/// changes it. Does not block. Go: `runtime.GOMAXPROCS(0)`.
///
/// # Panics
///
/// The caller is not a G.
#[doc(alias = "GOMAXPROCS")]
#[must_use]
#[track_caller]
pub fn procs() -> usize {
    Pinned::<Native>::of_scheduler().machine().scheduler().procs()
}

/// The number of living Gs of the caller's scheduler, including the caller. Does not block. Go: `runtime.NumGoroutine`.
///
/// ```
/// use gmp_sched::native;
///
/// // SAFETY: no G uses a thread-local variable.
/// let alive = unsafe { native::enter() }.run(1, || {
///     let other = native::go(|| ());
///     let before = native::num_goroutine();
///     other.join().unwrap();
///     (before, native::num_goroutine())
/// });
/// assert_eq!(alive, (2, 1));
/// ```
///
/// # Panics
///
/// The caller is not a G.
#[doc(alias = "NumGoroutine")]
#[must_use]
#[track_caller]
pub fn num_goroutine() -> usize {
    Pinned::<Native>::of_scheduler().machine().scheduler().num_goroutine()
}
