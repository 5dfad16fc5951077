//! Gs that wait for signals raised by other threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::native::{self, Native};
use gmp_sched::platform::Platform;
use thread_tests::THREADS;

use crate::panics::message;
use crate::several::{join_all, spawn_each};

fn signal<Plat: Platform>() -> &'static Signal<Plat> {
    Box::leak(Box::default())
}

#[test]
fn raises_from_other_threads_are_never_lost() {
    const ROUNDS: u64 = 100;
    for processors in [1, 2, 4] {
        THREADS.run(processors, move || {
            let (ping, pong) = (signal::<Native>(), Arc::new(AtomicU64::new(0)));
            let answered = pong.clone();
            let finished = Arc::new(AtomicUsize::new(0));
            let device = thread::spawn(move || {
                for round in 1..=ROUNDS {
                    ping.raise();
                    while answered.load(Ordering::Acquire) < round {
                        thread::yield_now();
                    }
                }
            });
            let busy = spawn_each(0..processors, |_| {
                let finished = finished.clone();
                move || {
                    while finished.load(Ordering::Relaxed) == 0 {
                        native::yield_now();
                    }
                }
            });
            for round in 1..=ROUNDS {
                ping.wait();
                pong.store(round, Ordering::Release);
            }
            finished.store(1, Ordering::Relaxed);
            join_all(busy);
            device.join().unwrap();
        });
    }
}

/// The G that waits for the signal is left behind by its scheduler. A raise after that leaves the signal on a list that
/// no M of that scheduler checks. A G that waits for the signal later must not wait for such an M.
#[test]
fn signal_that_an_ended_scheduler_has_left_behind_does_not_stop_the_next_wait() {
    let device = signal::<Native>();
    THREADS.run(1, || {
        native::go(|| device.wait()).detach();
        native::yield_now();
    });
    device.raise();
    THREADS.run(1, || {
        // If the G that was left behind has taken the raise, the signal is free, and only the limit ends this wait.
        // Otherwise the signal still belongs to that G, so this wait is refused.
        match catch_unwind(AssertUnwindSafe(|| device.wait_timeout(Duration::from_millis(10)))) {
            Ok(was_raised) => assert!(!was_raised, "the raise was for another wait"),
            Err(refused) => assert_eq!(message(refused), "two Gs wait for one signal"),
        }
    });
}
