//! Tests of `synctest::test` on threads of the host: the clock of a bubble (a group of Gs) advances only when all of
//! its Gs wait.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::panics::panic_of;
use crate::several::{go_each, join_all, spawn_each};
use gmp_sched::cancel::ContextError;
use gmp_sched::native::{Context, Timer, go, now, sleep, synctest, yield_now};
use gmp_sched::select;
use thread_tests::THREADS;

const HOUR: Duration = Duration::from_secs(3600);

/// Runs `body` in a bubble, with 1, 2 and 4 Ps.
fn in_bubbles(body: fn()) {
    for processors in [1, 2, 4] {
        THREADS.run(processors, move || synctest::test(body));
    }
}

#[test]
fn clock_advances_only_when_all_gs_wait() {
    in_bubbles(|| {
        let start = now();
        assert_eq!(start.as_nanos(), 946_684_800_000_000_000);
        std::thread::sleep(Duration::from_millis(2));
        yield_now();
        assert_eq!(now(), start);
        let others = go_each(1..=3u32, move |hours| {
            sleep(HOUR * hours);
            now() - start
        });
        for (hours, other) in (1..=3).zip(others) {
            assert_eq!(other.join().unwrap(), HOUR * hours);
            assert_eq!(now() - start, HOUR * hours);
        }
    });
}

/// Gs that are due at the same instant wake in random order, as in Go, so that programs cannot rely on an order.
#[test]
fn sleepers_due_at_the_same_instant_wake_in_random_order() {
    let first = || {
        let order = Arc::new(Mutex::new(Vec::new()));
        join_all(spawn_each(0..4, |number| {
            let order = order.clone();
            move || {
                sleep(HOUR);
                order.lock().unwrap().push(number);
            }
        }));
        let order = order.lock().unwrap();
        assert_eq!(order.len(), 4);
        order[0]
    };
    let firsts: HashSet<i32> = THREADS.run(1, move || (0..200).map(|_| synctest::test(first)).collect());
    assert_eq!(firsts.len(), 4, "only these were ever first: {firsts:?}");
}

/// A select that waits for timers receives the tick of the first timer that fires. As in Go, this may be any of the
/// timers that are due.
#[test]
fn timers_due_at_the_same_instant_end_a_select_in_random_order() {
    fn chosen_of_two_timers() -> usize {
        let (one, two) = (Timer::new(HOUR), Timer::new(HOUR));
        select! { recv(one) => 0, recv(two) => 1 }
    }
    fn chosen_of_timer_and_limit() -> usize {
        let timer = Timer::new(HOUR);
        select! { recv(timer) => 0, timeout(HOUR) => 1 }
    }
    let ways =
        [("two timers", chosen_of_two_timers as fn() -> usize), ("a timer and a limit", chosen_of_timer_and_limit)];
    for (way, choose) in ways {
        let chosen: HashSet<usize> = THREADS.run(1, move || (0..100).map(|_| synctest::test(choose)).collect());
        assert_eq!(chosen.len(), 2, "of {way}, only this was ever chosen: {chosen:?}");
    }
}

#[test]
fn wait_returns_when_the_others_wait() {
    in_bubbles(|| {
        let (start, steps) = (now(), Arc::new(AtomicUsize::new(0)));
        let counter = steps.clone();
        let other = go(move || {
            for _ in 0..3 {
                (0..10).for_each(|_| yield_now());
                counter.fetch_add(1, Ordering::Relaxed);
                sleep(HOUR);
            }
        });
        for expected in 1..=3 {
            synctest::wait();
            assert_eq!(steps.load(Ordering::Relaxed), expected);
            assert_eq!(now() - start, HOUR * (expected as u32 - 1));
            sleep(HOUR);
        }
        other.join().unwrap();
    });
}

/// The sleep of `synctest` returns after all other Gs that wake at the same instant have done their work. One of these
/// Gs begins its last sleep while main already sleeps.
#[test]
fn sleep_returns_after_simultaneous_sleeps() {
    in_bubbles(|| {
        let (start, wakes) = (now(), Arc::new(AtomicUsize::new(0)));
        for later in [false, true] {
            let count = wakes.clone();
            go(move || {
                if later {
                    sleep(HOUR / 2);
                    sleep(HOUR / 2);
                } else {
                    sleep(HOUR);
                }
                (0..10).for_each(|_| yield_now());
                count.fetch_add(1, Ordering::Relaxed);
            })
            .detach();
        }
        synctest::sleep(HOUR);
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
        assert_eq!(now() - start, HOUR);
    });
}

/// This test is an example from the documentation of Go's package `testing/synctest`.
#[test]
fn context_ends_exactly_at_its_deadline() {
    in_bubbles(|| {
        let timeout = Duration::from_secs(5);
        let (context, _cancel) = Context::background().with_timeout(timeout);
        let ran = Arc::new(AtomicUsize::new(0));
        let runs = ran.clone();
        context.after_func(move || runs.store(1, Ordering::Relaxed));
        sleep(timeout - Duration::from_nanos(1));
        synctest::wait();
        assert!(context.err().is_none() && ran.load(Ordering::Relaxed) == 0);
        sleep(Duration::from_nanos(1));
        synctest::wait();
        assert_eq!((context.err(), ran.load(Ordering::Relaxed)), (Some(ContextError::DeadlineExceeded), 1));
    });
}

fn message_of(body: impl FnOnce() + Send + 'static) -> String {
    THREADS.run(2, move || panic_of(|| synctest::test(body)))
}

#[test]
fn deadlocks_of_a_bubble_panic() {
    assert_eq!(
        message_of(|| {
            go(|| Context::background().wait()).join().unwrap();
        }),
        "deadlock: all goroutines in bubble are blocked"
    );
    assert_eq!(
        message_of(|| {
            go(|| Context::background().wait()).detach();
        }),
        "deadlock: main bubble goroutine has exited but blocked goroutines remain"
    );
    // The clock has stopped because main has ended, so the sleep would never end.
    assert_eq!(
        message_of(|| go(|| sleep(HOUR)).detach()),
        "deadlock: main bubble goroutine has exited but blocked goroutines remain"
    );
}
