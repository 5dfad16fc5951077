//! A function that returns when other Gs wait.

use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{Native, yield_now};
use gmp_sched::platform::Pinned;

/// Yields until at least `count` Gs of the caller's scheduler wait for `reason`. Each of these Gs is then in the wait
/// queue of the object for which it waits. A test must not sleep instead, because on a busy host it may take a long
/// time until the thread of another M runs.
pub(crate) fn until_waiting(count: usize, reason: WaitReason) {
    let scheduler = Pinned::<Native>::new().machine().scheduler();
    while scheduler.goroutines().filter(|goroutine| goroutine.wait_reason() == reason).count() < count {
        yield_now();
    }
}
