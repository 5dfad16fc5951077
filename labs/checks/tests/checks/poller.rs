//! Lab 8: a network poller, on simulated machines: Gs that wait for devices, which are timers of the machine.

use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::platform::{Pinned, Platform as _};
use gmp_sched::sim::{self, Report, Sim};

use crate::machine::{of_cpus, run};

pub(crate) fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// Numbers that look random, and are the same in each run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23).wrapping_add(0x5851_F42D_4C95_7F2D);
        (self.0 >> 32) % limit
    }
}

fn signal() -> &'static Signal<Sim> {
    Box::leak(Box::default())
}

/// Waits for a device that is ready after `time`. Returns how late the G went on.
fn lateness(device: &'static Signal<Sim>, time: Duration) -> Duration {
    let due = sim::elapsed() + time;
    sim::start_device(device, time);
    device.wait();
    sim::elapsed().saturating_sub(due)
}

#[test]
fn raise_ends_a_wait() {
    for cpus in [1, 2, 4] {
        for seed in 0..20 {
            run(of_cpus(cpus, seed), move || {
                let device = signal();
                for round in 0..10 {
                    let late = lateness(device, micros(100 * round));
                    assert!(
                        late < micros(500),
                        "{cpus} CPUs, seed {seed}: a G went on {late:?} after its device was ready"
                    );
                }
            });
        }
    }
}

#[test]
fn raise_is_kept_for_the_next_wait() {
    for seed in 0..20 {
        run(of_cpus(1, seed), move || {
            let device = signal();
            for round in 1..5 {
                device.raise();
                device.raise();
                assert!(device.wait_timeout(millis(1)), "seed {seed}: raise {round}, before the wait, is lost");
                assert!(
                    !device.wait_timeout(micros(50)),
                    "seed {seed}: a wait ended, although there was no raise since the last wait"
                );
            }
        });
    }
}

/// The device is ready at about the time of the deadline, so either of them may come first.
#[test]
fn wait_ends_once_by_its_device_or_its_deadline() {
    for seed in 0..100 {
        let cpus = [1, 2, 4][seed as usize % 3];
        run(of_cpus(cpus, seed), move || {
            let waits = move |number| {
                let mut numbers = Numbers(seed * 11 + number);
                let device = signal();
                for round in 0..20 {
                    let is_started = numbers.below(2) == 0;
                    if is_started {
                        sim::start_device(device, Duration::from_nanos(numbers.below(3_000)));
                    }
                    let deadline = Sim::now() + Duration::from_nanos(numbers.below(6_000));
                    let is_raised = device.wait_until(deadline);
                    let state = format!("{cpus} CPUs, seed {seed}, round {round}");
                    assert!(is_raised || Sim::now() >= deadline, "{state}: nothing ended the wait");
                    assert!(is_started || !is_raised, "{state}: the device was not started, and its signal was raised");
                    if is_started && !is_raised {
                        assert!(device.wait_timeout(millis(5)), "{state}: the raise after a deadline is lost");
                    }
                }
                assert!(!device.wait_timeout(micros(5)), "{cpus} CPUs, seed {seed}: one raise counts twice");
            };
            let gs: Vec<_> = (0..3).map(|number| sim::go(move || waits(number))).collect();
            gs.into_iter().for_each(|g| g.join().expect("no panic"));
        });
    }
}

#[test]
fn deadline_comes_in_time() {
    for seed in 0..20 {
        run(of_cpus(2, seed), move || {
            let device = signal();
            for time in [micros(50), millis(1), millis(30)] {
                let begin = sim::elapsed();
                assert!(!device.wait_timeout(time), "the device was not started");
                let late = (sim::elapsed() - begin).saturating_sub(time);
                assert!(late < micros(500), "seed {seed}: a wait with a limit of {time:?} ended {late:?} later");
            }
        });
    }
}

/// `count` Gs wait, each for a device of its own, `rounds` times, and at least a millisecond each time.
fn wait_for_devices(cpus: usize, seed: u64, count: u64, rounds: u64) -> Report {
    run(of_cpus(cpus, seed), move || {
        let waits = move |number| {
            let device = signal();
            for round in 0..rounds {
                sim::start_device(device, micros(1_000 + 37 * number + 101 * round));
                device.wait();
            }
        };
        let gs: Vec<_> = (0..count).map(|number| sim::go(move || waits(number))).collect();
        gs.into_iter().for_each(|g| g.join().expect("no panic"));
    })
}

#[test]
fn gs_that_wait_need_no_m() {
    for seed in 0..10 {
        let report = wait_for_devices(2, seed, 100, 3);
        let (machines, handoffs) = (report.machines, report.counts.handoffs);
        assert!(machines <= 3, "100 Gs wait for devices on 2 CPUs, with {machines} Ms (seed {seed})");
        assert!(handoffs == 0, "100 Gs wait for devices, and {handoffs} Ps were handed off (seed {seed})");
    }
}

#[test]
fn interrupt_wakes_one_m() {
    for seed in 0..10 {
        run(of_cpus(4, seed), move || {
            let (device, scheduler) = (signal(), Pinned::<Sim>::new().machine().scheduler());
            // In the first rounds, the other Ms park.
            (0..3).for_each(|_| _ = lateness(device, millis(1)));
            let before = scheduler.counts();
            (0..20).for_each(|_| _ = lateness(device, millis(1)));
            let now = scheduler.counts();
            let (wakes, preemptions) = (now.wakes - before.wakes, now.preemptions - before.preemptions);
            assert!(
                wakes == 0,
                "20 interrupts ready one G each, and {wakes} Ms were woken that found nothing (seed {seed})"
            );
            assert!(preemptions == 0, "20 interrupts on an idle machine, and {preemptions} preemptions (seed {seed})");
        });
        let steps = wait_for_devices(4, seed, 1, 50).steps;
        assert!(
            steps < 3_000,
            "one G waits for 50 interrupts, on 4 CPUs, and the CPUs took {steps} steps (seed {seed})"
        );
    }
}

/// At the end of a slice, the G that waits for the device may have to wait for its turn once.
#[test]
fn device_is_served_while_all_ps_are_busy() {
    for cpus in [1, 2, 4] {
        for seed in 0..10 {
            run(of_cpus(cpus, seed), move || {
                let hogs: Vec<_> = (0..2 * cpus).map(|_| sim::go(|| sim::work(millis(40)))).collect();
                let device = signal();
                let rounds = (0..10).map(|round| lateness(device, micros(700 + 77 * round)));
                let late = rounds.filter(|late| *late > millis(5)).count();
                assert!(
                    late <= 2,
                    "{cpus} CPUs, seed {seed}: all Ps are busy, and {late} of 10 times a G ran 5 ms after its device was ready"
                );
                hogs.into_iter().for_each(|g| g.join().expect("no panic"));
            });
        }
    }
}

/// If the devices of several Gs are ready at the same time, idle Ps take all of these Gs but one.
#[test]
fn gs_of_one_interrupt_run_in_parallel() {
    for seed in 0..10 {
        let report = run(of_cpus(4, seed), || {
            let waits = |_| {
                sim::go(|| {
                    let device = signal();
                    for _ in 0..5 {
                        lateness(device, millis(1));
                        sim::work(millis(4));
                    }
                })
            };
            let gs: Vec<_> = (0..4).map(waits).collect();
            gs.into_iter().for_each(|g| g.join().expect("no panic"));
        });
        let elapsed = report.elapsed;
        assert!(
            elapsed < millis(60),
            "4 Gs wait for 1 ms and work for 4 ms, 5 times, and this took {elapsed:?} on 4 CPUs (seed {seed})"
        );
    }
}
