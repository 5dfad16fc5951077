//! Lab 5: preemption by timer interrupts, on simulated machines.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::sim;

use crate::machine::{Partner, of_cpus, run};

/// The time that a G computes in one step. The simulator may let another CPU go on after each step.
const STEP: Duration = Duration::from_micros(50);
const SLICE: Duration = Duration::from_millis(10);

/// Computes in small steps for `time`, and calls `each` after each of them.
fn compute(time: Duration, mut each: impl FnMut()) {
    for _ in 0..time.as_nanos() / STEP.as_nanos() {
        sim::work(STEP);
        each();
    }
}

/// Four Gs compute on one P. Returns how long each of their turns lasted, without the first and the last.
fn turns(seed: u64) -> Vec<Duration> {
    let turns: Arc<Mutex<Vec<(usize, Duration, Duration)>>> = Arc::default();
    let noted = turns.clone();
    run(of_cpus(1, seed), move || {
        let hog = |number| {
            let turns = noted.clone();
            sim::go(move || {
                compute(60 * Duration::from_millis(1), || {
                    let (mut turns, now) = (turns.lock().expect("no panic"), sim::elapsed());
                    match turns.last_mut() {
                        Some((last, _, end)) if *last == number => *end = now,
                        _ => turns.push((number, now, now)),
                    }
                });
            })
        };
        let hogs: Vec<_> = (0..4).map(hog).collect();
        hogs.into_iter().for_each(|hog| hog.join().expect("no panic"));
    });
    let turns = turns.lock().expect("no panic");
    let inner = turns.iter().skip(1).take(turns.len().saturating_sub(2));
    inner.map(|(_, begin, end)| *end - *begin).collect()
}

#[test]
fn gs_that_compute_take_turns() {
    for seed in 0..20 {
        let turns = turns(seed);
        let longest = turns.iter().max().copied().unwrap_or_default();
        assert!(
            turns.len() >= 6 && longest <= 3 * SLICE,
            "seed {seed}: four Gs that compute for 60 ms each had {} turns, the longest of {longest:?}",
            turns.len()
        );
        let short = turns.iter().filter(|turn| **turn < SLICE / 2).count();
        assert!(
            2 * short <= turns.len(),
            "seed {seed}: {short} of {} turns were shorter than half a slice",
            turns.len()
        );
    }
}

/// Two Gs ready each other all the time, so each of them leaves its P long before its slice is over. The slice is that of
/// the P, so a third G gets its turn, too.
#[test]
fn pair_shares_one_slice() {
    for seed in 0..20 {
        run(of_cpus(1, seed), move || {
            let partner = Partner::new(2_000, || sim::work(STEP));
            let begun = Arc::new(AtomicU64::new(0));
            let began = begun.clone();
            let third = sim::go(move || {
                // It goes to the tail of the ring.
                sim::yield_now();
                began.store(sim::elapsed().as_nanos() as u64, Ordering::Relaxed);
            });
            for _ in 0..2_000 {
                partner.ask();
                partner.wait_for_answer();
            }
            let waited = Duration::from_nanos(begun.load(Ordering::Relaxed));
            third.join().expect("no panic");
            assert!(
                !waited.is_zero() && waited <= 4 * SLICE,
                "seed {seed}: a third G began after {waited:?} (0ns: never), while two readied each other for {:?}",
                sim::elapsed()
            );
        });
    }
}

#[test]
fn sleeper_is_served_beside_gs_that_compute() {
    for (cpus, seed) in (0..20).map(|seed| ([1, 2][seed as usize % 2], seed)) {
        run(of_cpus(cpus, seed), move || {
            let is_over = Arc::new(AtomicBool::new(false));
            let hog = |_| {
                let is_over = is_over.clone();
                sim::go(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        sim::work(STEP);
                    }
                })
            };
            let hogs: Vec<_> = (0..2 * cpus).map(hog).collect();
            let mut late = 0;
            for _ in 0..40 {
                let due = sim::elapsed() + Duration::from_micros(1_700);
                sim::sleep(Duration::from_micros(1_700));
                late += u32::from(sim::elapsed() > due + Duration::from_millis(1));
            }
            is_over.store(true, Ordering::Relaxed);
            hogs.into_iter().for_each(|hog| hog.join().expect("no panic"));
            assert!(late <= 4, "seed {seed}: of 40 sleeps beside Gs that compute, {late} ended more than 1 ms late");
        });
    }
}

/// Eight Gs sleep for a moment, again and again, so that there is always a timer due. They may displace the G that computes
/// only so often that it still makes progress.
#[test]
fn displaced_g_makes_progress() {
    for seed in 0..10 {
        run(of_cpus(1, seed), move || {
            let is_over = Arc::new(AtomicBool::new(false));
            let sleeper = |number: u64| {
                let is_over = is_over.clone();
                sim::go(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        sim::sleep(Duration::from_micros(3 + number));
                        sim::work(Duration::from_micros(1));
                    }
                })
            };
            let sleepers: Vec<_> = (0..8).map(sleeper).collect();
            sim::sleep(Duration::from_millis(1));
            let begin = sim::elapsed();
            compute(5 * Duration::from_millis(1), || {});
            let took = sim::elapsed() - begin;
            is_over.store(true, Ordering::Relaxed);
            sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("no panic"));
            let limit = Duration::from_micros(6_500);
            assert!(took <= limit, "seed {seed}: a G computed for 5 ms beside Gs that sleep, and needed {took:?}");
        });
    }
}

#[test]
fn world_stops_although_gs_compute() {
    for (cpus, seed) in (0..20).map(|seed| ([2, 4][seed as usize % 2], seed)) {
        run(of_cpus(cpus, seed), move || {
            let hogs: Vec<_> = (0..cpus).map(|_| sim::go(|| compute(40 * Duration::from_millis(1), || {}))).collect();
            sim::sleep(Duration::from_millis(1));
            let begin = sim::elapsed();
            drop(sim::stop_the_world());
            let took = sim::elapsed() - begin;
            hogs.into_iter().for_each(|hog| hog.join().expect("no panic"));
            assert!(took <= Duration::from_millis(2), "{cpus} CPUs, seed {seed}: it took {took:?} to stop the world");
        });
    }
}
