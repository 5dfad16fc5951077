//! Tests of selects without a channel. Nothing in such a select determines the platform, so the tests use the `select!`
//! that belongs to one platform.

use core::time::Duration;

use gmp_sched::time::Instant;

use super::platform;
use super::platform::{Context, go, now, sleep, yield_now};

fn select_of_only_a_default_takes_it() {
    let taken = platform::select! { default => 1 };
    let generic: u32 = gmp_sched::select! { ordered; default => 2 };
    assert_eq!((taken, generic), (1, 2));
}
shared_test!(select_of_only_a_default_takes_it);

fn select_of_only_a_timeout_ends_after_it() {
    const TIMEOUT: Duration = Duration::from_millis(2);
    let start = now();
    let taken = platform::select! { timeout(TIMEOUT) => 1 };
    assert!(now() - start >= TIMEOUT);
    let start = now();
    let ordered = platform::select! { ordered; timeout(TIMEOUT) => 2, };
    assert!(now() - start >= TIMEOUT);
    let start = now();
    platform::select! { until(start + TIMEOUT) => {} }
    assert!(now() - start >= TIMEOUT);
    platform::select! { timeout(Duration::ZERO) => {} }
    platform::select! { until(Instant::from_nanos(0)) => {} }
    assert_eq!((taken, ordered), (1, 2));
}
shared_test!(select_of_only_a_timeout_ends_after_it);

fn select_of_only_a_context_ends_when_it_is_canceled() {
    let (context, cancel) = Context::background().with_cancel();
    let waiting = go(move || platform::select! { until(&context) => context.is_done() });
    (0..10).for_each(|_| yield_now());
    assert!(!waiting.is_finished());
    cancel.cancel();
    assert_eq!(waiting.join(), Ok(true));
}
shared_test!(select_of_only_a_context_ends_when_it_is_canceled);

/// `select! {}` has the type `!`, so it can be the value of any type.
fn select_without_arms_blocks_for_ever() {
    fn never() -> u32 {
        platform::select! {}
    }
    fn never_ordered() -> u32 {
        platform::select! { ordered; }
    }
    let waiting = [go(never), go(never_ordered)];
    for _ in 0..3 {
        sleep(Duration::from_millis(1));
        assert!(waiting.iter().all(|handle| !handle.is_finished()));
    }
    waiting.into_iter().for_each(|handle| handle.detach());
}
shared_test!(select_without_arms_blocks_for_ever);
