//! The run queues, replayed from a trace, and those of the scheduler.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gmp_sched::platform::Pinned;
use gmp_sched::sim::{self, Config, Sim};
use gmp_sched::trace::EventKind;
use timeline::Trace;
use timeline::queues::Queues;

/// Runs a program on one P, or on two Ps that share a CPU, with several seeds. The program calls its argument to check
/// the length of the ring of the caller's P. Asserts that the replayed ring has the same length at each check, and that
/// each run has `checks` checks and an event of `kind`.
fn assert_ring_is_replayed(
    processors: usize,
    checks: usize,
    kind: EventKind,
    program: fn(Arc<dyn Fn() + Send + Sync>),
) {
    for seed in 0..12 {
        let lengths = Arc::new(Mutex::new(Vec::new()));
        let recorded = lengths.clone();
        let cpus = if processors == 1 { 1 + seed as usize % 2 } else { 1 };
        let config = Config { cpus, processors, seed, ..Config::default() };
        let (result, traces) = sim::run_traced(config, 100_000, move || {
            program(Arc::new(move || {
                let pinned = Pinned::<Sim>::new();
                sim::mark("check");
                recorded.lock().unwrap_or_else(PoisonError::into_inner).push(pinned.processor().queue_length());
            }));
        });
        result.expect("the program ends");
        let trace = Trace::new(traces);
        let mut queues = Queues::new(&trace);
        let mut replayed = Vec::new();
        for entry in trace.events() {
            queues.apply(entry);
            if entry.kind == EventKind::Mark {
                replayed.push(queues.processors[entry.processor().expect("a P") as usize].ring.len());
            }
        }
        let lengths = lengths.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(trace.events().iter().any(|entry| entry.kind == kind), "seed {seed}");
        assert_eq!(lengths.len(), checks);
        assert_eq!(replayed, *lengths, "seed {seed}");
    }
}

#[test]
fn replayed_queues_are_those_of_the_scheduler() {
    // These are more Gs than the ring has room for, so the ring overflows.
    assert_ring_is_replayed(1, 601, EventKind::Overflow, |check| {
        let all: Vec<_> = (0..300)
            .map(|number| {
                let check = check.clone();
                sim::go(move || {
                    check();
                    match number % 4 {
                        0 => sim::yield_now(),
                        1 => sim::sleep(Duration::from_micros(number % 50)),
                        2 => sim::block(Duration::from_micros(number % 20)),
                        _ => sim::work(Duration::from_micros(300)),
                    }
                    check();
                })
            })
            .collect();
        check();
        all.into_iter().for_each(|handle| handle.join().expect("no G panics"));
    });
}

/// Each G readies the next one, and then computes. So the next one is in `runnext` when the slice is over, and goes to
/// the tail of the ring.
#[test]
fn g_that_may_not_inherit_a_slice_is_replayed_into_the_ring() {
    assert_ring_is_replayed(1, 20, EventKind::Kick, |check| {
        let channels: Vec<_> = (0..4).map(|_| sim::channel(1)).collect();
        let all: Vec<_> = (0..4)
            .map(|number| {
                let (receiver, sender) = (channels[number].1.clone(), channels[(number + 1) % 4].0.clone());
                let check = check.clone();
                sim::go(move || {
                    for _ in 0..5 {
                        let _ = receiver.recv();
                        check();
                        let _ = sender.send(());
                        sim::work(Duration::from_millis(12));
                    }
                })
            })
            .collect();
        // During this sleep, all Gs come to wait. Then one of them gets the only value, and another G is in the ring.
        sim::sleep(Duration::from_millis(1));
        let hog = sim::go(|| sim::work(Duration::from_millis(100)));
        let _ = channels[0].0.send(());
        all.into_iter().chain([hog]).for_each(|handle| handle.join().expect("no G panics"));
    });
}

/// Locked Gs go to no queue of a P and not to the global queue.
#[test]
fn locked_gs_are_replayed_into_their_own_list() {
    assert_ring_is_replayed(1, 200, EventKind::LockThread, |check| {
        let all: Vec<_> = (0..10_u64)
            .map(|number| {
                let check = check.clone();
                sim::go(move || {
                    let _locked = (number < 3).then(sim::lock_thread);
                    for round in 0..20 {
                        match (number + round) % 3 {
                            0 => sim::yield_now(),
                            1 => sim::sleep(Duration::from_micros(10 * number)),
                            _ => sim::work(Duration::from_millis(2)),
                        }
                        check();
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|handle| handle.join().expect("no G panics"));
    });
}

#[test]
fn gs_of_a_p_that_goes_out_of_use_are_replayed_into_the_global_queue() {
    assert_ring_is_replayed(2, 46, EventKind::Retire, |check| {
        let all: Vec<_> = (0..22)
            .map(|number| {
                let check = check.clone();
                sim::go(move || {
                    check();
                    sim::work(Duration::from_millis(number % 3));
                    check();
                })
            })
            .collect();
        sim::work(Duration::from_millis(5));
        check();
        sim::set_procs(1).expect("memory");
        check();
        all.into_iter().for_each(|handle| handle.join().expect("no G panics"));
    });
}
