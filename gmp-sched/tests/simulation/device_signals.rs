//! Gs that wait for devices. No raise is lost or counted twice, and deadlines end waits.

use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::platform::{Pinned, Platform};
use gmp_sched::sim::{self, Config, Sim};

use crate::explore::{Random, explore};
use crate::several::{go_each, join_all};

fn signal<Plat: Platform>() -> &'static Signal<Plat> {
    Box::leak(Box::default())
}

#[test]
fn devices_are_served_while_all_ps_are_busy() {
    explore(|seed| {
        let mut random = Random::new(seed);
        let workers = go_each(0..1 + random.below(12), move |number| {
            let mut random = Random::new(seed * 31 + number);
            let device = signal::<Sim>();
            for _ in 0..4 {
                let time = Duration::from_nanos(random.below(50_000));
                sim::start_device(device, time);
                if random.below(3) == 0 {
                    sim::work(time * 2);
                }
                device.wait();
            }
        });
        // Hogs keep all Ps busy. Nevertheless, the signals of devices are delivered.
        let hogs = go_each(0..random.below(4), move |_| sim::work(Duration::from_micros(300)));
        for handle in workers.into_iter().chain(hogs) {
            handle.join().unwrap();
        }
    });
}

/// A G whose device is ready preempts the G that keeps the only P busy, long before the slice of 10 ms is over.
#[test]
fn ready_device_does_not_wait_for_the_end_of_a_slice() {
    for seed in 0..20 {
        let config = Config { cpus: 1, processors: 1, seed, ..Config::default() };
        let result = sim::run(config, || {
            let hog = sim::go(|| sim::work(Duration::from_millis(8)));
            let waiter = sim::go(|| {
                let device = signal::<Sim>();
                let begin = sim::elapsed();
                sim::start_device(device, Duration::from_micros(50));
                device.wait();
                sim::elapsed() - begin
            });
            let took = waiter.join().unwrap();
            assert!(took < Duration::from_millis(1), "the G ran after {took:?}");
            hog.join().unwrap();
        });
        result.unwrap_or_else(|failure| panic!("seed {seed}: {}", failure.message));
    }
}

/// All CPUs halt until the device is ready. Its G must not wait until the timer of the sleeper interrupts a CPU.
#[test]
fn raised_signal_does_not_wait_for_a_sleeper() {
    explore(|_| {
        let sleeper = sim::go(|| sim::sleep(Duration::from_millis(1)));
        let device = signal::<Sim>();
        sim::start_device(device, Duration::from_micros(50));
        device.wait();
        assert!(sim::elapsed() < Duration::from_micros(500), "the G ran after {:?}", sim::elapsed());
        sleeper.join().unwrap();
    });
}

/// The wait is ended by the raise, by a cancellation in another G, or by a deadline. The waiter drops its context right
/// after the wait.
#[test]
fn wait_for_a_signal_ends_once_by_raise_deadline_or_cancellation() {
    explore(|seed| {
        join_all(go_each(0..3, move |number| {
            let mut random = Random::new(seed * 11 + number);
            let device = signal::<Sim>();
            for _ in 0..6 {
                let (context, cancel) = sim::Context::background().with_cancel();
                let time = Duration::from_nanos(random.below(3_000));
                let canceller = sim::go(move || {
                    sim::work(time);
                    cancel.cancel();
                });
                let is_started = random.below(2) == 0;
                if is_started {
                    sim::start_device(device, Duration::from_nanos(random.below(3_000)));
                }
                let deadline = Sim::now() + Duration::from_nanos(random.below(6_000));
                let limit = sim::Limit::from(&context).and(deadline);
                let is_raised = device.wait_until(limit);
                assert!(is_raised || limit.err().is_some(), "nothing ended the wait");
                assert!(is_started || !is_raised, "a raise that did not happen");
                drop(context);
                if is_started && !is_raised {
                    device.wait();
                }
                canceller.join().unwrap();
            }
            assert!(!device.wait_timeout(Duration::from_micros(5)), "one raise counted twice");
        }));
    });
}

#[test]
fn wait_for_a_device_is_no_deadlock() {
    for cpus in [1, 2, 8] {
        let config = Config { cpus, processors: cpus, seed: cpus as u64, ..Config::default() };
        let report = sim::run(config, || {
            let device = signal::<Sim>();
            sim::start_device(device, Duration::from_secs(2));
            device.wait();
        })
        .unwrap();
        assert!(report.elapsed >= Duration::from_secs(2), "{report:?}");
    }
}

/// Every P is idle when the device interrupts. The device readies only one G. The woken M takes a P for this G, and
/// assigns no P to another M.
#[test]
fn interrupt_on_an_idle_machine_wakes_one_m() {
    explore(|_| {
        let device = signal::<Sim>();
        let wakes = |rounds| {
            for _ in 0..rounds {
                sim::start_device(device, Duration::from_millis(1));
                device.wait();
            }
            Pinned::<Sim>::new().machine().scheduler().counts().wakes
        };
        // In the first round the other Ms park.
        let before = wakes(1);
        assert_eq!(wakes(10), before, "an M was woken that found nothing to do");
    });
}
