//! Random programs on the simulated machine, one for each seed.
#![cfg(not(gmp_loom))]

mod explore;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::JoinError;
use gmp_sched::goroutine::WaitReason;
use gmp_sched::park::{park, ready};
use gmp_sched::sim::{self, Config, Sim};

use explore::{Random, explore};

/// Trees of Gs that do everything a G can do.
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
fn trees_of_everything() {
    explore(|seed| {
        let finished = Arc::new(AtomicUsize::new(0));
        let roots: Vec<_> = (0..3).map(|root| sim::go(tree(seed * 11 + root, 2, finished.clone()))).collect();
        roots.into_iter().for_each(|root| root.join().unwrap());
        // Detached ones may take longer.
        while finished.load(Ordering::Relaxed) < 3 * 13 {
            sim::sleep(Duration::from_millis(1));
        }
    });
}

/// A semaphore of one G: what park and ready are for.
#[derive(Default)]
struct Baton {
    /// 0: nobody waits and none is there; 1: one is there; else the waiting G.
    state: AtomicU64,
}

impl Baton {
    fn take(&self) {
        while self.state.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed).is_err() {
            park::<Sim>(WaitReason::Parked, |_, me| {
                let me = std::ptr::from_ref(me).expose_provenance() as u64;
                self.state.compare_exchange(0, me, Ordering::Release, Ordering::Relaxed).is_ok()
            });
        }
    }

    fn give(&self) {
        let waiter = self.state.swap(1, Ordering::AcqRel);
        if waiter > 1 {
            // SAFETY: a value above 1 is the address of a G that parked in `take`, put there by its commit.
            let waiter = unsafe { &*std::ptr::with_exposed_provenance(waiter as usize) };
            // SAFETY: as above, and the exchange gave it to us alone.
            unsafe { ready::<Sim>(waiter) };
        }
    }
}

#[test]
fn batons_in_a_ring_are_never_lost() {
    explore(|seed| {
        const PLACES: usize = 5;
        const ROUNDS: usize = 6;
        let ring: Arc<Vec<Baton>> = Arc::new((0..PLACES).map(|_| Baton::default()).collect());
        let runners: Vec<_> = (0..PLACES)
            .map(|place| {
                let ring = ring.clone();
                sim::go(move || {
                    let mut random = Random::new(seed + place as u64);
                    for _ in 0..ROUNDS {
                        ring[place].take();
                        match random.below(6) {
                            0 => sim::work(Duration::from_micros(random.below(50))),
                            1 => sim::sleep(Duration::from_micros(random.below(50))),
                            2 => sim::block(Duration::from_micros(random.below(50))),
                            3 => sim::yield_now(),
                            _ => {}
                        }
                        ring[(place + 1) % PLACES].give();
                    }
                })
            })
            .collect();
        ring[0].give();
        runners.into_iter().for_each(|runner| runner.join().unwrap());
    });
}

#[test]
fn hogs_on_every_processor_do_not_keep_main_from_waking() {
    explore(|seed| {
        let stop = Arc::new(AtomicBool::new(false));
        let hogs: Vec<_> = (0..16)
            .map(|_| {
                let stop = stop.clone();
                sim::go(move || {
                    while !stop.load(Ordering::Relaxed) {
                        sim::work(Duration::from_millis(1));
                    }
                })
            })
            .collect();
        for round in 0..3 {
            let before = sim::elapsed();
            let nap = Duration::from_micros(100 + seed % 1000 * round);
            sim::sleep(nap);
            let late = sim::elapsed() - before - nap;
            // A timer's G does not wait for the slices of 16 hogs to end.
            assert!(late < Duration::from_millis(25), "woke {late:?} late");
        }
        stop.store(true, Ordering::Relaxed);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

/// A timer that comes due while its P's M is in a system call is not forgotten.
#[test]
fn a_system_call_does_not_make_timers_late() {
    explore(|seed| {
        let sleeper = sim::go(|| {
            let before = sim::elapsed();
            sim::sleep(Duration::from_micros(100));
            sim::elapsed() - before - Duration::from_micros(100)
        });
        sim::yield_now();
        sim::syscall(Duration::from_micros(100 + seed % 200));
        sim::work(Duration::from_millis(40));
        let late = sleeper.join().unwrap();
        assert!(late < Duration::from_millis(5), "woke {late:?} late");
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let config = Config { cpus: 4, processors: 4, seed: 42, ..Config::default() };
        let report = sim::run(config, || {
            let finished = Arc::new(AtomicUsize::new(0));
            let hogs: Vec<_> = (0..8).map(|_| sim::go(|| sim::work(Duration::from_millis(50)))).collect();
            sim::go(tree(1, 4, finished)).join().unwrap();
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
        });
        let report = report.unwrap();
        (report.steps, report.elapsed, report.counts)
    };
    let first = run();
    assert_eq!(first, run());
    assert!(first.2.steals > 0 && first.2.preemptions > 0 && first.2.handoffs > 0, "{first:?}");
}

#[test]
fn a_deadlock_is_found_and_told() {
    let config = Config { cpus: 2, processors: 2, seed: 3, ..Config::default() };
    let failure = sim::run(config, || park::<Sim>(WaitReason::Parked, |_, _| true)).unwrap_err();
    assert!(failure.message.contains("all goroutines are asleep - deadlock!"), "{failure}");
}

#[test]
fn a_panic_is_told_with_the_seed() {
    let config = Config { cpus: 2, processors: 2, seed: 5, ..Config::default() };
    let failure = sim::run(config, || {
        let dies: sim::JoinHandle<()> = sim::go(|| panic!("on purpose"));
        let _ = dies.join();
    })
    .unwrap_err();
    assert_eq!((failure.config.seed, &*failure.message), (5, "on purpose"));
}

/// Gs that end themselves: their joiners are told, their slots are never used again, all others go on.
#[test]
fn goroutines_that_exit_take_nobody_along() {
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
                    if number % 3 == 0 {
                        sim::exit();
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
fn when_main_exits_the_others_finish_and_then_nobody_is_left() {
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
            sim::exit();
        })
        .unwrap_err();
        assert!(failure.to_string().contains("no goroutines (main called exit) - deadlock!"), "{failure}");
        assert_eq!(finished.load(Ordering::Relaxed), 5);
    }
}
