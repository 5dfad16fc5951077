//! Lab 3: the order of the pick, and stealing, on simulated machines. Each machine takes the same steps in each run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::sim::{self, Config};

use crate::machine::{Partner, compute, of_cpus, order, run, tree};

const MOMENT: Duration = Duration::from_micros(20);

/// Main gives work to four Gs and waits for their results, `count` times. So the P almost always has Gs of its own.
fn rounds(count: u32) {
    let workers: [_; 4] = core::array::from_fn(|_| Partner::new(count, || sim::work(MOMENT)));
    for _ in 0..count {
        workers.iter().for_each(Partner::ask);
        workers.iter().for_each(Partner::wait_for_answer);
    }
}

#[test]
fn global_queue_is_not_starved() {
    for seed in 0..20 {
        run(of_cpus(1, seed), move || {
            let progress = Arc::new(AtomicUsize::new(0));
            let counted = progress.clone();
            // Its slice ends after 10 ms, so it goes to the global queue again and again.
            let computes = sim::go(move || {
                for _ in 0..60 {
                    sim::work(Duration::from_millis(1));
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
            rounds(1000);
            let done = progress.load(Ordering::Relaxed);
            assert!(
                done == 60,
                "seed {seed}: the G in the global queue ran for {done} of 60 ms in {:?}",
                sim::elapsed()
            );
            computes.join().expect("no panic");
        });
    }
}

/// Main spawns so many Gs that the ring overflows: its older half, the Gs that were spawned first, goes to the global
/// queue. Then the Gs of the ring run, and from time to time one of the global queue.
#[test]
fn global_queue_has_one_turn_in_61() {
    let turns = order(300).into_iter().take(122).filter(|number| *number < 128).count();
    assert!((1..=3).contains(&turns), "of the first 122 picks, {turns} took a G of the global queue; 2 are right");
}

/// Spawns `count` Gs, each of which computes for `each`, and waits for them. Returns the largest share of this work that
/// one M did, in percent.
fn largest_share(cpus: usize, seed: u64, count: usize, each: Duration) -> usize {
    const PIECES: usize = 20;
    let done: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let counted = done.clone();
    run(of_cpus(cpus, seed), move || {
        let spawn = |_| {
            let done = counted.clone();
            sim::go(move || {
                for _ in 0..PIECES {
                    sim::work(each / PIECES as u32);
                    *done.lock().expect("no panic").entry(format!("{:?}", sim::machine())).or_default() += 1;
                }
            })
        };
        let gs: Vec<_> = (0..count).map(spawn).collect();
        gs.into_iter().for_each(|g| g.join().expect("no panic"));
    });
    let done = done.lock().expect("no panic");
    100 * done.values().max().expect("some M ran the Gs") / (count * PIECES)
}

#[test]
fn work_spreads_over_all_processors() {
    // With two Gs, one waits in a ring in which it is the only one.
    for (cpus, count) in [(2, 2), (2, 32), (4, 64), (8, 128)] {
        let share = |seed| largest_share(cpus, seed, count, Duration::from_millis(2));
        // The CPUs of the simulated machine are not equally fast, so no split is perfect.
        let (mean, perfect) = ((0..20).map(share).sum::<usize>() / 20, 100 / cpus);
        assert!(
            mean <= perfect * 3 / 2,
            "{count} Gs of 2 ms on {cpus} CPUs: one M did {mean} % of the work on average, a perfect split is {perfect} %"
        );
    }
}

/// How many thefts spread `count` Gs that compute.
pub(crate) fn thefts(cpus: usize, seed: u64, count: usize) -> u64 {
    run(of_cpus(cpus, seed), move || compute(count, Duration::from_micros(500))).counts.steals
}

#[test]
fn few_thefts_spread_many_gs() {
    let (cpus, count) = (4, 200);
    for seed in 0..20 {
        let steals = thefts(cpus, seed, count);
        assert!(steals > 0, "{count} Gs on {cpus} CPUs: nothing was stolen (seed {seed})");
        assert!(steals < 120, "{count} Gs on {cpus} CPUs: {steals} thefts (seed {seed})");
    }
}

#[test]
fn decisions_follow_the_policy() {
    for seed in 0..200 {
        let cpus = [1, 2, 4, 8][seed as usize % 4];
        run(Config { is_specified: true, ..of_cpus(cpus, seed) }, move || {
            let hogs: Vec<_> = (0..cpus).map(|_| sim::go(|| sim::work(Duration::from_millis(25)))).collect();
            (0..3).for_each(|root| tree(seed * 3 + root + 1, 3, sim::block));
            rounds(50);
            hogs.into_iter().for_each(|hog| hog.join().expect("no panic"));
        });
    }
}

/// A timer fires every [`MOMENT`], so there is often an urgent G when it is the global queue's turn.
#[test]
fn urgent_gs_do_not_take_the_turn_of_the_global_queue() {
    for seed in 0..20 {
        run(Config { is_specified: true, ..of_cpus(1, seed) }, || {
            let hog = sim::go(|| sim::work(Duration::from_millis(25)));
            let sleeper = sim::go(|| (0..400).for_each(|_| sim::sleep(MOMENT)));
            rounds(400);
            sleeper.join().expect("no panic");
            hog.join().expect("no panic");
        });
    }
}
