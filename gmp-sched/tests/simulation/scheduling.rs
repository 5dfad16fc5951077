//! Tests of scheduling in the simulator. Most tests run their program with many seeds, and most programs are random.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::JoinError;
use gmp_sched::exit::abandon;
use gmp_sched::goroutine::WaitReason;
use gmp_sched::park::park;
use gmp_sched::platform::Pinned;
use gmp_sched::sim::{self, Config, Sim};

use crate::explore::{Random, explore, explore_with};
use crate::hogs::Hogs;
use crate::several::{go_each, join_all, spawn_each};

/// Returns the body of a G that is the root of a tree of Gs with `depth` levels below the root. Each G with children
/// usually performs a random operation after it has spawned a child. Each G adds one to `finished` before it ends.
fn tree(seed: u64, depth: u64, finished: Arc<AtomicUsize>) -> Box<dyn FnOnce() + Send> {
    Box::new(move || {
        let mut random = Random::new(seed);
        let mut children = Vec::new();
        for child in 0..if depth > 0 { 3 } else { 0 } {
            children.push(sim::go(tree(seed * 7 + child + 1, depth - 1, finished.clone())));
            let nanoseconds = random.below(200_000);
            let time = Duration::from_nanos(nanoseconds);
            match random.below(14) {
                0 => sim::sleep(time),
                1 => sim::sleep(time * 100),
                2 => sim::block(time),
                3 => sim::syscall(time),
                4 => sim::syscall(Duration::from_nanos(nanoseconds / 1000)),
                5 => sim::work(time),
                6 => sim::work(time * 100),
                7..=10 => sim::yield_now(),
                _ => {}
            }
        }
        for child in children {
            if random.below(8) == 0 { child.detach() } else { child.join().unwrap() }
        }
        finished.fetch_add(1, Ordering::Relaxed);
    })
}

#[test]
fn trees_of_gs_with_all_operations() {
    explore(|seed| {
        let finished = Arc::new(AtomicUsize::new(0));
        join_all(spawn_each(0..3, |root| tree(seed * 11 + root, 2, finished.clone())));
        // Gs that were detached may still run, so main waits until all Gs have ended.
        while finished.load(Ordering::Relaxed) < 3 * 13 {
            sim::sleep(Duration::from_millis(1));
        }
    });
}

/// The state that all Gs of a program share. Some of these Gs stop the world.
#[derive(Default)]
struct Scene {
    is_stopped: AtomicBool,
    steps: AtomicU64,
}

impl Scene {
    /// Counts a step of the calling G, and checks that the world is not stopped.
    fn step(&self) {
        assert!(!self.is_stopped.load(Ordering::Relaxed), "a G runs while the world is stopped");
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops the world, computes for `time`, and checks that no other G takes a step meanwhile.
    fn stop(&self, time: Duration) {
        let world = sim::stop_the_world();
        assert!(!self.is_stopped.swap(true, Ordering::Relaxed), "stopped twice");
        let steps = self.steps.load(Ordering::Relaxed);
        sim::work(time);
        assert_eq!(self.steps.load(Ordering::Relaxed), steps, "a G took a step while the world was stopped");
        self.is_stopped.store(false, Ordering::Relaxed);
        drop(world);
    }

    /// Performs `actions` random operations. For example, sleeps, stops the world, or locks the calling G to its M. If
    /// `depth` is not zero, also spawns Gs that do the same, and waits for them at the end.
    fn act(self: &Arc<Self>, seed: u64, actions: u64, depth: u64) {
        let mut random = Random::new(seed);
        let mut children = Vec::new();
        for action in 0..actions {
            self.step();
            let nanoseconds = random.below(100_000);
            let time = Duration::from_nanos(nanoseconds);
            match random.below(16) {
                0 => self.stop(time / 10),
                1 => drop(sim::set_procs(1 + random.below(4) as usize).unwrap()),
                2 => drop(sim::set_procs(1 + random.below(64) as usize).unwrap()),
                3 => sim::sleep(time),
                4 => sim::block(time),
                5 => sim::syscall(time),
                6 => sim::syscall(time / 1000),
                7 => sim::work(time),
                8 => sim::work(time * 20),
                9 => {
                    let locked = sim::lock_thread();
                    let machine = sim::machine();
                    for _ in 0..1 + random.below(4) {
                        match random.below(8) {
                            0 => sim::sleep(time),
                            1 => sim::block(time),
                            2 => sim::syscall(time),
                            3 => sim::work(time * 100),
                            4 => self.stop(time / 10),
                            5 => drop(sim::lock_thread()),
                            6 => drop(sim::go(|| sim::sleep(Duration::from_micros(5))).join()),
                            _ => sim::yield_now(),
                        }
                        assert_eq!(sim::machine(), machine, "a locked G changed its M");
                        self.step();
                    }
                    // A G that ends while locked unlocks its M.
                    if depth < 2 && random.below(3) == 0 { std::mem::forget(locked) } else { drop(locked) }
                }
                10 | 11 if depth > 0 => {
                    let scene = self.clone();
                    let seed = seed * 31 + action;
                    children.push(sim::go(move || scene.act(seed, 4, depth - 1)));
                }
                _ => sim::yield_now(),
            }
        }
        self.step();
        join_all(children);
    }
}

/// All Gs perform random operations at the same time. For example, they stop the world, change the number of Ps, and
/// lock themselves to their Ms. No G runs while another has stopped the world.
#[test]
fn world_is_stopped_and_resized_under_load() {
    explore_with(64, |seed| {
        let scene = Arc::new(Scene::default());
        join_all(spawn_each(0..6, |actor| {
            let scene = scene.clone();
            move || scene.act(seed * 13 + actor, 8, 2)
        }));
    });
}

/// When the world is to stop, Gs that never call the scheduler are preempted before their slices end.
#[test]
fn hogs_do_not_keep_the_world_from_stopping() {
    explore(|seed| {
        let hogs = Hogs::start(16, Duration::from_millis(200));
        for round in 0..3 {
            sim::sleep(Duration::from_micros(100 + seed % 1000 * round));
            drop(sim::stop_the_world());
        }
        hogs.stop();
        let longest = sim::longest_stop();
        assert!(longest < Duration::from_millis(8), "stopping the world took {longest:?}");
    });
}

/// When the world starts, most Gs that were computing continue on the same M and P. Go's test allows 25% of them to
/// move.
#[test]
fn computing_gs_keep_their_cpus_when_the_world_starts() {
    let m_and_p = || {
        let pinned = Pinned::<Sim>::new();
        (pinned.machine().id(), pinned.processor().id())
    };
    let moved = Arc::new(AtomicUsize::new(0));
    let (seeds, rounds, spinners) = (20, 5, 4);
    for seed in 0..seeds {
        let moved = moved.clone();
        let run = sim::run(Config { cpus: 8, processors: 8, seed, ..Config::default() }, move || {
            let round = Arc::new(AtomicUsize::new(0));
            let arrived = Arc::new(AtomicUsize::new(0));
            let handles = spawn_each(0..spinners, |_| {
                let (round, arrived, moved) = (round.clone(), arrived.clone(), moved.clone());
                move || {
                    let (mut last, mut last_m_and_p) = (0, m_and_p());
                    while last < rounds {
                        sim::work(Duration::from_micros(5));
                        let now = round.load(Ordering::Relaxed);
                        if now != last {
                            moved.fetch_add(usize::from(m_and_p() != last_m_and_p), Ordering::Relaxed);
                            (last, last_m_and_p) = (now, m_and_p());
                            arrived.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
            for number in 1..=rounds {
                sim::sleep(Duration::from_micros(500));
                drop(sim::stop_the_world());
                sim::sleep(Duration::from_micros(500));
                round.store(number, Ordering::Relaxed);
                while arrived.load(Ordering::Relaxed) < number * spinners {
                    sim::sleep(Duration::from_micros(100));
                }
            }
            join_all(handles);
        });
        run.unwrap();
    }
    let (moved, of) = (moved.load(Ordering::Relaxed), seeds as usize * (rounds - 1) * spinners);
    assert!(moved * 4 <= of, "{moved} of {of} continued elsewhere");
}

#[test]
fn same_seed_repeats_the_run() {
    let run = || {
        let config = Config { cpus: 4, processors: 4, seed: 42, ..Config::default() };
        let report = sim::run(config, || {
            let finished = Arc::new(AtomicUsize::new(0));
            let hogs = go_each(0..8, move |_| sim::work(Duration::from_millis(50)));
            sim::go(tree(1, 4, finished)).join().unwrap();
            join_all(hogs);
        });
        let report = report.unwrap();
        (report.steps, report.elapsed, report.counts)
    };
    let first = run();
    assert_eq!(first, run());
    assert!(first.2.steals > 0 && first.2.preemptions > 0 && first.2.handoffs > 0, "{first:?}");
}

/// The pin would count for the next G, which could not block.
#[test]
fn pin_that_a_commit_leaves_behind_ends_the_run() {
    for with_next in [false, true] {
        let failure = sim::run(Config { bodies_unwind: true, ..Config::default() }, move || {
            if with_next {
                sim::go(|| ()).detach();
            }
            park::<Sim>(WaitReason::Parked, |_, _| {
                std::mem::forget(Pinned::<Sim>::new());
                true
            });
        });
        let message = failure.unwrap_err().message;
        assert!(message.starts_with("fatal error: the commit of a park panicked: goroutine 1 parks"), "{message}");
    }
}

#[test]
fn panic_is_reported_with_the_seed() {
    let config = Config { cpus: 2, processors: 2, seed: 5, ..Config::default() };
    let failure = sim::run(config, || {
        let dies: sim::JoinHandle<()> = sim::go(|| panic!("on purpose"));
        let _ = dies.join();
    })
    .unwrap_err();
    assert_eq!((failure.config.seed, &*failure.message), (5, "on purpose"));
}

/// When a G ends by `goexit` or is abandoned, joining it returns an error, and all other Gs return their results.
#[test]
fn exiting_gs_do_not_end_others() {
    explore(|seed| {
        let mut random = Random::new(seed);
        let all: Vec<_> = (0..12u64)
            .map(|number| {
                let time = Duration::from_nanos(random.below(100_000));
                let handle = sim::go(move || {
                    match number % 4 {
                        0 => sim::sleep(time),
                        1 => sim::work(time),
                        2 => sim::yield_now(),
                        _ => {}
                    }
                    if number % 6 == 0 {
                        // SAFETY: nothing borrows from the G's stack.
                        unsafe { abandon::<Sim>(JoinError::Exited) }
                    } else if number % 3 == 0 {
                        sim::goexit();
                    }
                    number
                });
                if random.below(3) == 0 {
                    sim::yield_now();
                }
                (number, handle)
            })
            .collect();
        for (number, handle) in all {
            match random.below(4) {
                0 => handle.detach(),
                _ if number % 3 == 0 => assert_eq!(handle.join(), Err(JoinError::Exited)),
                _ => assert_eq!(handle.join(), Ok(number)),
            }
        }
    });
}

#[test]
fn others_finish_after_main_exits_then_deadlock_is_reported() {
    for seed in 0..50 {
        let finished = Arc::new(AtomicUsize::new(0));
        let others = finished.clone();
        let failure = sim::run(Config { seed, ..Config::default() }, move || {
            for number in 0..5 {
                let finished = others.clone();
                sim::go(move || {
                    sim::sleep(Duration::from_micros(number * 30));
                    finished.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
            }
            sim::goexit();
        })
        .unwrap_err();
        assert!(failure.to_string().contains("no goroutines (main called runtime.Goexit) - deadlock!"), "{failure}");
        assert_eq!(finished.load(Ordering::Relaxed), 5);
    }
}

/// A G with preemption off computes, and a G that it has spawned waits in the queue of its P. The other P has only a G
/// that yields. So no M is idle, and this yield has to steal the waiting G.
#[test]
fn g_that_yields_alone_steals_from_a_p_whose_g_is_not_preempted() {
    let moments = || (0..100_000).map(|_| sim::work(Duration::from_micros(1)));
    for seed in 0..100 {
        let config = Config { cpus: 2, processors: 2, seed, ..Config::default() };
        let run = sim::run(config, move || {
            let [is_alone, is_found, is_over] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
            let computes = {
                let (is_alone, is_found, is_over) = (is_alone.clone(), is_found.clone(), is_over.clone());
                sim::go(move || {
                    let _pinned = Pinned::<Sim>::new();
                    assert!(moments().any(|()| is_alone.load(Ordering::Relaxed)), "the other P runs no G");
                    let found = is_found.clone();
                    sim::go(move || found.store(true, Ordering::Relaxed)).detach();
                    assert!(moments().any(|()| is_found.load(Ordering::Relaxed)), "the other P does not steal the G");
                    is_over.store(true, Ordering::Relaxed);
                })
            };
            while !is_over.load(Ordering::Relaxed) {
                sim::yield_now();
                is_alone.store(true, Ordering::Relaxed);
            }
            computes.join().unwrap();
        });
        run.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// The panic of a run that could not be set up does not make the thread unusable for other runs.
#[test]
fn simulation_runs_after_one_that_could_not_be_set_up() {
    for (cpus, processors) in [(0, 1), (65, 1), (1, 0)] {
        let config = Config { cpus, processors, ..Config::default() };
        assert!(catch_unwind(AssertUnwindSafe(|| sim::run(config, || ()))).is_err(), "{cpus} CPUs and {processors} Ps");
    }
    sim::run(Config::default(), || ()).unwrap();
}
