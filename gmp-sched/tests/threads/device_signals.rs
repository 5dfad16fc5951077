//! Gs that wait for signals raised by other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::native::{self, Native};
use gmp_sched::platform::{Pinned, Platform};

use crate::entered::THREADS;

fn signal<Plat: Platform>() -> &'static Signal<Plat> {
    Box::leak(Box::default())
}

#[test]
fn raises_from_other_threads_are_never_lost() {
    const ROUNDS: u64 = 100;
    for processors in [1, 2, 4] {
        THREADS.run_with(processors, move |scheduler| {
            let (ping, pong) = (signal::<Native>(), Arc::new(AtomicU64::new(0)));
            let answered = pong.clone();
            let finished = Arc::new(AtomicUsize::new(0));
            let device = thread::spawn(move || {
                for round in 1..=ROUNDS {
                    ping.raise(scheduler);
                    while answered.load(Ordering::Acquire) < round {
                        thread::yield_now();
                    }
                }
            });
            let busy: Vec<_> = (0..processors)
                .map(|_| {
                    let finished = finished.clone();
                    native::go(move || {
                        while finished.load(Ordering::Relaxed) == 0 {
                            native::yield_now();
                        }
                    })
                })
                .collect();
            for round in 1..=ROUNDS {
                ping.wait();
                pong.store(round, Ordering::Release);
            }
            finished.store(1, Ordering::Relaxed);
            for handle in busy {
                handle.join().unwrap();
            }
            device.join().unwrap();
        });
    }
}

#[test]
fn timeout_ends_a_wait_for_a_signal() {
    THREADS.run(1, || {
        let device = signal::<Native>();
        let start = native::now();
        assert!(!device.wait_timeout(Duration::from_millis(1)));
        assert!(native::now() - start >= Duration::from_millis(1));
        device.raise(Pinned::<Native>::new().machine().scheduler());
        assert!(device.wait_timeout(Duration::ZERO), "it was raised before");
        assert!(!device.wait_timeout(Duration::ZERO));
    });
}
