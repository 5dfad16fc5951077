//! The order in which Gs run with one P, on threads and in the simulator, in cases where Go's order is deterministic.
//! The expected orders were measured with go1.27.
//!
//! On threads, the order equals Go's only while no slice ends. If the slice of the main G ended while the main G spawns
//! others, the G in `runnext` would go to the tail of the ring. Whether this happened would depend on the load of the
//! computer. So these tests have a process of their own, in which slices of Gs on threads never end.

#[cfg(feature = "extras")]
extern crate alloc;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::native;
use gmp_sched::sim::{self, Config};
use thread_tests::THREADS;

/// The platform under test, with the names that the module `waiters` uses.
#[cfg(feature = "extras")]
mod platform {
    pub(crate) use gmp_sched::native::*;
}

/// Turns the named function into a test, which runs it with the numbers of Ps in `procs`. During the test no slice
/// ends.
#[cfg(feature = "extras")]
macro_rules! shared_test {
    ($name:ident, procs = $procs:expr) => {
        mod $name {
            #[test]
            fn on_threads() {
                gmp_sched::native::set_slice(std::time::Duration::MAX);
                let procs: &[usize] = $procs;
                for &procs in procs {
                    thread_tests::THREADS.run(procs, super::$name);
                }
            }
        }
    };
}

#[cfg(feature = "extras")]
#[path = "../../gmp-sched/tests/shared/order.rs"]
mod waiters;

/// The numbers that Gs have logged, in the order in which the Gs ran.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u32>>>);

impl Log {
    fn add(&self, entry: u32) {
        self.0.lock().unwrap().push(entry);
    }

    fn entries(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }
}

/// Runs `$body` on threads and in the simulator, compares the two orders, and returns the order. In `$body`,
/// `$platform` names the module of the platform.
macro_rules! on_both {
    ($platform:ident, $log:ident, $body:block) => {{
        let native_log = Log::default();
        let $log = native_log.clone();
        native::set_slice(Duration::MAX);
        THREADS.run(1, move || {
            use native as $platform;
            $body
        });
        for cpus in 1..=3 {
            for seed in 0..20 {
                let sim_log = Log::default();
                let $log = sim_log.clone();
                let config = Config { cpus, processors: 1, seed, ..Config::default() };
                let result = sim::run(config, move || {
                    use sim as $platform;
                    $body
                });
                result.unwrap_or_else(|failure| panic!("{failure}"));
                assert_eq!(sim_log.entries(), native_log.entries(), "seed {seed}, {cpus} CPUs");
            }
        }
        native_log.entries()
    }};
}

/// A new G goes to `runnext`. The G that was in `runnext` before goes to the tail of the ring.
#[test]
fn last_spawned_runs_first_and_others_in_order() {
    let order = on_both!(platform, log, {
        let spawned: Vec<_> = (0..10)
            .map(|number| {
                let log = log.clone();
                platform::go(move || log.add(number))
            })
            .collect();
        spawned.into_iter().for_each(|handle| handle.join().unwrap());
    });
    assert_eq!(order, [9, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

/// When a G ends, its joiner goes to `runnext` and runs next. The G that was in `runnext` goes to the tail of the ring.
#[test]
fn joiner_runs_next_and_displaces_the_g_of_runnext() {
    let order = on_both!(platform, log, {
        let entries = log.clone();
        let ends = platform::go(move || {
            let others = [1, 2].map(|number| {
                let log = entries.clone();
                platform::go(move || log.add(number))
            });
            entries.add(0);
            others
        });
        let others = ends.join().unwrap();
        log.add(10);
        platform::yield_now();
        log.add(11);
        others.into_iter().for_each(|handle| handle.join().unwrap());
    });
    assert_eq!(order, [0, 10, 1, 2, 11]);
}

#[test]
fn yielding_gs_rotate() {
    let order = on_both!(platform, log, {
        let yielding: Vec<_> = (0..3)
            .map(|number| {
                let log = log.clone();
                platform::go(move || {
                    log.add(number * 10);
                    platform::yield_now();
                    log.add(number * 10 + 1);
                })
            })
            .collect();
        yielding.into_iter().for_each(|handle| handle.join().unwrap());
    });
    assert_eq!(order, [20, 0, 10, 21, 1, 11]);
}

/// The main G spawns more Gs than fit into the ring. Whenever the ring is full, half of its Gs move to the tail of the
/// global queue. Until the ring is empty, the P takes a G from the global queue only every 61 ticks.
#[test]
fn no_g_is_skipped_when_the_ring_overflows() {
    let order = on_both!(platform, log, {
        let spawned: Vec<_> = (0..600)
            .map(|number| {
                let log = log.clone();
                platform::go(move || log.add(number))
            })
            .collect();
        spawned.into_iter().for_each(|handle| handle.join().unwrap());
    });
    // The ring overflowed three times. Each time the older half of its Gs moved to the global queue, together with the
    // G that did not fit. At the first overflow, the Gs 0 to 127 and 256 moved, at the second 128 to 255 and 385, and
    // at the third 257 to 384 and 514. The other Gs stayed in the ring.
    let is_ring = |number: u32| number >= 386 && number != 514;
    let ring: Vec<u32> = order.iter().copied().filter(|&number| is_ring(number)).collect();
    assert_eq!(order[0], 599);
    assert!(ring[1..].is_sorted(), "{order:?}");
    let global: Vec<usize> = (0..order.len()).filter(|&turn| !is_ring(order[turn])).collect();
    assert_eq!((ring.len(), global.len()), (213, 387));
    // Until the ring is empty, every 61st G is from the global queue.
    assert!(global[0] <= 61 && global[1] - global[0] == 61 && global[2] - global[1] == 61, "{global:?}");
    assert_eq!(global[..3].iter().map(|&turn| order[turn]).collect::<Vec<_>>(), [0, 1, 2]);
    let mut all = order;
    all.sort_unstable();
    assert!(all.into_iter().eq(0..600));
}

/// Each of three hogs runs for a slice of 10 to 20 ms before another one runs.
#[test]
fn hogs_rotate_in_slices() {
    for seed in 0..50 {
        let turns: Arc<Mutex<Vec<(u32, Duration)>>> = Arc::default();
        let log = turns.clone();
        let config = Config { cpus: 1, processors: 1, seed, ..Config::default() };
        let result = sim::run(config, move || {
            let hogs: Vec<_> = (0..3)
                .map(|number| {
                    let log = log.clone();
                    sim::go(move || {
                        for _ in 0..500 {
                            {
                                let mut turns = log.lock().unwrap();
                                if turns.last().is_none_or(|&(last, _)| last != number) {
                                    turns.push((number, sim::elapsed()));
                                }
                            }
                            sim::work(Duration::from_micros(100));
                        }
                    })
                })
                .collect();
            hogs.into_iter().for_each(|hog| hog.join().unwrap());
        });
        result.unwrap_or_else(|failure| panic!("{failure}"));
        let turns = turns.lock().unwrap();
        let order: Vec<_> = turns.iter().map(|&(number, _)| number).collect();
        assert_eq!(order[..6], [2, 0, 1, 2, 0, 1], "seed {seed}");
        for pair in turns[..6].windows(2) {
            let slice = pair[1].1 - pair[0].1;
            // A hog logs the beginning of its slice only when its current step of 100 µs ends, so the bounds are a
            // little wider than 10 to 20 ms.
            let bounds = Duration::from_micros(9_900)..=Duration::from_millis(21);
            assert!(bounds.contains(&slice), "seed {seed}: a slice of {slice:?}");
        }
    }
}
