//! Lab 9: a scheduling policy, on simulated machines.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::sim::{self, Builder, Config};
use lab_policy::{ANSWERS, LabPolicy};

use crate::machine::{of_cpus, run, tree};

pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// A machine with the policy of the lab.
pub(crate) fn machine(cpus: usize, seed: u64) -> Config {
    Config { policy: Some(&LabPolicy), ..of_cpus(cpus, seed) }
}

/// The time that a G computes in one step. The simulator may let another CPU go on after each step.
pub(crate) const STEP: Duration = Duration::from_micros(50);

/// Returns the percentile `percent` of the delays with which Gs begin to answer, while twice as many Gs compute as
/// there are CPUs.
pub(crate) fn delay(cpus: usize, percent: usize) -> Duration {
    let delays: Arc<Mutex<Vec<Duration>>> = Arc::default();
    for seed in 0..10 {
        let delays = delays.clone();
        run(machine(cpus, seed), move || {
            let is_over = Arc::new(AtomicBool::new(false));
            let compute = |_| {
                let is_over = is_over.clone();
                sim::go(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        sim::work(STEP);
                    }
                })
            };
            let answer = |number: u64| {
                let delays = delays.clone();
                // Each question comes at its time, even if the previous question has not been answered. Otherwise a G
                // that does not get to run would be asked nothing, and would not be late.
                let mut due = sim::elapsed();
                Builder::new().parameter(ANSWERS).go(move || {
                    for round in 0..30 {
                        due += Duration::from_micros(1_000 + number * 130 + round * 17);
                        sim::sleep(due.saturating_sub(sim::elapsed()));
                        delays.lock().expect("no panic").push(sim::elapsed().saturating_sub(due));
                        sim::work(STEP);
                    }
                })
            };
            let computes: Vec<_> = (0..2 * cpus).map(compute).collect();
            let answers: Vec<_> = (0..cpus as u64 + 1).map(answer).collect();
            sim::sleep(Duration::from_millis(200));
            is_over.store(true, Ordering::Relaxed);
            answers.into_iter().chain(computes).for_each(|g| g.join().expect("no panic"));
        });
    }
    let mut delays = delays.lock().expect("no panic");
    delays.sort_unstable();
    delays[(delays.len() - 1) * percent / 100]
}

#[test]
fn answers_come_soon() {
    for cpus in [1, 2, 4] {
        for (percent, limit) in [(50, MILLISECOND), (99, 3 * MILLISECOND)] {
            let delay = delay(cpus, percent);
            assert!(
                delay <= limit,
                "{cpus} CPUs: {percent} % of the answers begin within {delay:?}; the limit is {limit:?}"
            );
        }
    }
}

/// How long the last of some Gs that compute waits until it begins, while Gs that answer have work for all CPUs.
pub(crate) fn waits(cpus: usize, seed: u64) -> Duration {
    let last = Arc::new(AtomicU64::new(0));
    let latest = last.clone();
    run(machine(cpus, seed), move || {
        // These Gs answer all the time, and have work for all CPUs for 400 ms.
        let busy = || {
            for _ in 0..400 {
                sim::work(MILLISECOND / 2);
                sim::yield_now();
            }
        };
        let answers: Vec<_> = (0..2 * cpus).map(|_| Builder::new().parameter(ANSWERS).go(busy)).collect();
        let begin = |_| {
            let latest = latest.clone();
            sim::go(move || latest.fetch_max(sim::elapsed().as_nanos() as u64, Ordering::Relaxed))
        };
        let computes: Vec<_> = (0..cpus).map(begin).collect();
        computes.into_iter().for_each(|g| g.join().map(|_| ()).expect("no panic"));
        answers.into_iter().for_each(|g| g.join().expect("no panic"));
    });
    Duration::from_nanos(last.load(Ordering::Relaxed))
}

#[test]
fn no_g_starves() {
    for cpus in [1, 2, 4] {
        for seed in 0..5 {
            let (waited, limit) = (waits(cpus, seed), 300 * MILLISECOND);
            assert!(
                waited <= limit,
                "{cpus} CPUs, seed {seed}: a G that computes began after {waited:?}; the limit is {limit:?}"
            );
        }
    }
}

/// The longest time for which a G that computes waits once it has begun. Meanwhile Gs that answer have work for all CPUs, for a
/// second at most.
fn pause(cpus: usize, seed: u64) -> Duration {
    let longest = Arc::new(AtomicU64::new(0));
    let seen = longest.clone();
    run(machine(cpus, seed), move || {
        let is_over = Arc::new(AtomicBool::new(false));
        let busy = |_| {
            let is_over = is_over.clone();
            Builder::new().parameter(ANSWERS).go(move || {
                while !is_over.load(Ordering::Relaxed) && sim::elapsed() < 1_000 * MILLISECOND {
                    sim::work(MILLISECOND / 2);
                    sim::yield_now();
                }
            })
        };
        let answers: Vec<_> = (0..2 * cpus).map(busy).collect();
        let computes = sim::go(move || {
            let mut last = sim::elapsed();
            // More than one slice.
            for _ in 0..25 * (MILLISECOND.as_nanos() / STEP.as_nanos()) {
                sim::work(STEP);
                let now = sim::elapsed();
                seen.fetch_max((now - last).as_nanos() as u64, Ordering::Relaxed);
                last = now;
            }
        });
        computes.join().expect("no panic");
        is_over.store(true, Ordering::Relaxed);
        answers.into_iter().for_each(|g| g.join().expect("no panic"));
    });
    Duration::from_nanos(longest.load(Ordering::Relaxed))
}

#[test]
fn no_g_starves_after_its_first_slice() {
    for cpus in [1, 2, 4] {
        for seed in 0..3 {
            let (pause, limit) = (pause(cpus, seed), 300 * MILLISECOND);
            assert!(
                pause <= limit,
                "{cpus} CPUs, seed {seed}: a G that computes had begun, and then waited for {pause:?}; the limit is {limit:?}"
            );
        }
    }
}

/// Spawns `count` Gs that compute for `each`, pause for a moment, and so on, `rounds` times. Waits for them.
fn compute(count: usize, each: Duration, rounds: u32) {
    let body = move || {
        for _ in 0..rounds {
            (0..each.as_nanos() / STEP.as_nanos()).for_each(|_| sim::work(STEP));
            sim::sleep(STEP);
        }
    };
    let gs: Vec<_> = (0..count).map(|_| sim::go(body)).collect();
    gs.into_iter().for_each(|g| g.join().expect("no panic"));
}

#[test]
fn gs_that_compute_are_left_alone() {
    for cpus in [1, 2, 4] {
        for seed in 0..5 {
            let report = run(machine(cpus, seed), move || compute(4 * cpus, 4 * MILLISECOND, 8));
            let (number, most) = (report.counts.preemptions + report.counts.displacements, 2 * cpus as u64);
            assert!(
                number <= most,
                "{cpus} CPUs, seed {seed}: Gs that compute were displaced or preempted {number} times; the limit is {most}"
            );
        }
    }
}

#[test]
fn few_thefts_spread_many_gs() {
    for seed in 0..10 {
        let steals = run(machine(2, seed), || compute(128, MILLISECOND / 2, 1)).counts.steals;
        assert!(steals <= 32, "2 CPUs, seed {seed}: {steals} thefts for 128 Gs; 32 are enough");
    }
}

#[test]
fn programs_of_all_kinds_end() {
    for seed in 0..100 {
        let cpus = [1, 2, 4, 8][seed as usize % 4];
        run(machine(cpus, seed), move || (0..3).for_each(|root| tree(seed * 3 + root + 1, 3, sim::block)));
    }
}
