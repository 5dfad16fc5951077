//! Gs that keep their M and their thread while they are preempted, as on the platform of threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gmp_sched::platform::{Pinned, SLICE};
use gmp_sched::sim::{self, Config, Sim};

use crate::anything::{anything, microseconds};
use crate::explore::{Random, explore_on};
use crate::hogs::Hogs;
use crate::several::{join_all, spawn_each};

/// Runs `program` with every seed. At most `limit` Gs are preempted at the same time.
fn explore(limit: u32, program: fn(u64)) {
    explore_on(Config { preempted_limit: Some(limit), procs_limit: 4, ..Config::default() }, program);
}

/// Six Gs compute for six slices each. Each stays on one M.
fn compute_side_by_side() {
    let done: Arc<Vec<AtomicU64>> = Arc::new((0..6).map(|_| AtomicU64::new(0)).collect());
    join_all(spawn_each(0..done.len(), |hog| {
        let done = done.clone();
        move || {
            let machine = sim::machine();
            for _ in 0..12 {
                sim::work(SLICE / 2);
                done[hog].fetch_add(1, Ordering::Relaxed);
                assert_eq!(sim::machine(), machine, "the G has moved to another M");
            }
        }
    }));
    assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 12));
}

#[test]
fn hogs_with_a_thread_each_take_turns() {
    explore(64, |_| compute_side_by_side());
}

#[test]
fn hogs_at_the_limit_exchange_their_ps() {
    explore(2, |_| compute_side_by_side());
}

/// On the only P, a G that main displaces continues before the next G begins: it is preempted within its slice.
#[test]
fn displaced_g_continues_in_the_rest_of_its_slice() {
    explore(64, |_| {
        sim::set_procs(1).unwrap();
        let (begun, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let hogs = spawn_each(0..6, |_| {
            let (begun, ended) = (begun.clone(), ended.clone());
            move || {
                begun.fetch_add(1, Ordering::Relaxed);
                sim::work(SLICE * 2 / 5);
                let before = ended.fetch_add(1, Ordering::Relaxed);
                let is_any_slice_over = Pinned::<Sim>::new().machine().scheduler().counts().preemptions != 0;
                assert!(is_any_slice_over || begun.load(Ordering::Relaxed) == before + 1, "another G has begun");
            }
        });
        while ended.load(Ordering::Relaxed) < 6 {
            sim::sleep(microseconds(1_000));
        }
        join_all(hogs);
    });
}

/// On the only P, Gs that compute take turns, although main displaces the running one ten times in a slice. A turn may
/// last for three slices, and three more if the M for the next G has to be made.
#[test]
fn displaced_gs_take_turns() {
    const TURN: u64 = 6 * 5;
    explore(64, |_| {
        sim::set_procs(1).unwrap();
        // The CPUs share the clock, also if only one of them computes.
        let step = SLICE / 5 * sim::config().cpus as u32;
        let done: Arc<Vec<AtomicU64>> = Arc::new((0..3).map(|_| AtomicU64::new(0)).collect());
        let hogs = spawn_each(0..done.len(), |hog| {
            let done = done.clone();
            move || {
                for mine in 0..2 * TURN {
                    sim::work(step);
                    done[hog].store(mine, Ordering::Relaxed);
                    let least = done.iter().map(|done| done.load(Ordering::Relaxed)).min();
                    assert!(mine <= TURN || least > Some(0), "others starve: {done:?}");
                }
            }
        });
        while done.iter().any(|done| done.load(Ordering::Relaxed) < 2 * TURN - 1) {
            sim::sleep(microseconds(1_000));
        }
        join_all(hogs);
    });
}

/// On the only P, a timer displaces a hog soon after it is due, because sysmon wakes for it. The answer to a question
/// comes before the hog continues that was displaced for the question. (Once in 61 ticks, a hog whose slice is over runs
/// before the answer.)
#[test]
fn answers_come_before_displaced_gs_continue() {
    explore(64, |_| {
        sim::set_procs(1).unwrap();
        let hogs = Hogs::start(2, Duration::from_millis(1));
        let (questions, answers) = (sim::Chan::new(0), sim::Chan::new(0));
        let (asked, answered) = (questions.clone(), answers.clone());
        let other = sim::go(move || {
            while let Ok(()) = asked.recv() {
                answered.send(()).unwrap();
            }
        });
        let mut late = 0;
        for _ in 0..40 {
            let due = sim::now() + Duration::from_millis(1);
            sim::sleep(microseconds(1_000));
            questions.send(()).unwrap();
            answers.recv().unwrap();
            late += u64::from(sim::now() - due > SLICE / 4);
        }
        questions.close();
        other.join().unwrap();
        hogs.stop();
        assert!(late <= 8, "{late} of 40 answers come late");
    });
}

/// The world stops in bounded time, whether there is a spare M or not.
#[test]
fn world_stops_beside_hogs() {
    explore(64, |_| {
        let hogs = Hogs::start(5, Duration::from_millis(1));
        for _ in 0..3 {
            let world = sim::stop_the_world();
            sim::work(microseconds(50));
            drop(world);
            sim::sleep(microseconds(100));
        }
        hogs.stop();
    });
}

/// A G that gives way because the world stops is not counted as displaced by an urgent G.
#[test]
fn stop_of_the_world_is_no_displacement() {
    explore(64, |_| {
        let hogs = Hogs::start(3, Duration::from_millis(1));
        for _ in 0..3 {
            sim::work(SLICE / 5);
            drop(sim::stop_the_world());
        }
        assert_eq!(Pinned::<Sim>::new().machine().scheduler().counts().displacements, 0);
        hogs.stop();
    });
}

/// Takes a lock for which others spin, and holds it for `held`. The holder may be preempted.
fn hold(lock: &AtomicBool, held: Duration) {
    while lock.swap(true, Ordering::Acquire) {
        sim::work(microseconds(20));
    }
    sim::work(held);
    lock.store(false, Ordering::Release);
}

/// The holder of the lock continues, although all others spin.
#[test]
fn gs_that_spin_for_a_preempted_g_let_it_continue() {
    explore(3, |seed| {
        let lock = Arc::new(AtomicBool::new(false));
        join_all(spawn_each(0..5, |number| {
            let (lock, mut random) = (lock.clone(), Random::new(seed * 8 + number));
            move || (0..3).for_each(|_| hold(&lock, microseconds(random.below(15_000))))
        }));
    });
}

/// Does one of the things that change who holds which P.
fn act(random: &mut Random, lock: &AtomicBool) {
    match random.below(12) {
        0 | 1 => sim::work(microseconds(random.below(25_000))),
        2 => hold(lock, microseconds(random.below(8_000))),
        3 => {
            let locked = sim::lock_thread();
            sim::work(microseconds(random.below(25_000)));
            anything(random);
            drop(locked);
        }
        4 => drop(sim::stop_the_world()),
        5 => sim::syscall(microseconds(random.below(12_000))),
        6 => sim::block(microseconds(random.below(12_000))),
        7 => sim::sleep(microseconds(random.below(5_000))),
        8 => _ = sim::go(|| sim::work(microseconds(500))).join(),
        _ => anything(random),
    }
}

#[test]
fn preempted_gs_mix_with_locked_gs_calls_timers_and_stops_of_the_world() {
    explore(3, |seed| {
        let lock = Arc::new(AtomicBool::new(false));
        let all = spawn_each(0..7, |number| {
            let (lock, mut random) = (lock.clone(), Random::new(seed * 16 + number));
            move || (0..10).for_each(|_| act(&mut random, &lock))
        });
        let mut random = Random::new(seed);
        for _ in 0..3 {
            sim::sleep(microseconds(random.below(20_000)));
            let _ = sim::set_procs(1 + random.below(sim::config().procs_limit as u64) as usize);
        }
        join_all(all);
    });
}
