//! Waiting until other Gs wait.

use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{Native, yield_now};
use gmp_sched::platform::Pinned;

/// Yields until at least `count` Gs of the caller's scheduler wait for `reason`. These Gs are then in the queue of what
/// they wait for. A test must not sleep instead, because a busy host may not run the thread of another M for long.
pub(crate) fn until_waiting(count: usize, reason: WaitReason) {
    let scheduler = Pinned::<Native>::new().machine().scheduler();
    while scheduler.goroutines().filter(|goroutine| goroutine.wait_reason() == reason).count() < count {
        yield_now();
    }
}
