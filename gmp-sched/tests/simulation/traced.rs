//! Traces of simulated runs. A traced run takes the same steps as the run without a trace. A trace ends with the failure
//! of its run, and includes Ps that are in use for only a part of it. Other tests start traces that are too large, or
//! while the number of Ps changes.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gmp_sched::platform::Pinned;
use gmp_sched::sim::{self, Config, Sim};
use gmp_sched::trace::{EventKind, Track, TrackTrace};

use crate::anything::anything;
use crate::explore::Random;
use crate::several::{go_each, join_all, spawn_each};

/// Spawns Gs that perform random operations and pass values through a channel. Stops the world once while they run.
fn program(seed: u64) {
    let (sender, receiver) = sim::channel(2);
    let gs = spawn_each(0..6, |number| {
        let (sender, receiver) = (sender.clone(), receiver.clone());
        move || {
            let mut random = Random::new(seed * 8 + number);
            for step in 0..10 {
                anything(&mut random);
                if number % 2 == 0 {
                    sender.send(step).unwrap();
                } else {
                    receiver.recv().unwrap();
                }
            }
        }
    });
    sim::work(Duration::from_micros(20));
    drop(sim::stop_the_world());
    join_all(gs);
}

fn config(seed: u64) -> Config {
    let cpus = [1, 2, 3, 4][seed as usize % 4];
    Config { cpus, processors: [cpus, 1, 2 * cpus][seed as usize / 4 % 3], seed, ..Config::default() }
}

#[test]
fn traced_run_takes_the_same_steps_as_an_untraced_run() {
    for seed in 0..120 {
        let plain = sim::run(config(seed), move || program(seed)).unwrap();
        let (traced, traces) = sim::run_traced(config(seed), 100_000, move || program(seed));
        let traced = traced.unwrap();
        assert_eq!((plain.steps, plain.elapsed), (traced.steps, traced.elapsed), "seed {seed}");
        assert_eq!(format!("{:?}", plain.counts), format!("{:?}", traced.counts), "seed {seed}");
        let count =
            |kind| traces.iter().flat_map(|trace| &trace.events).filter(|event| event.kind == kind).count() as u64;
        assert_eq!(count(EventKind::Spawn), 7, "seed {seed}: the six Gs, and main");
        // The number of parks differs from seed to seed, so the number of events is compared with the counter of parks.
        assert_eq!(count(EventKind::Park), traced.counts.parks, "seed {seed}");
        assert!(traces.iter().any(|trace| trace.track == Track::Cpu(0) && !trace.events.is_empty()));
    }
}

#[test]
fn failure_is_the_last_event_of_the_trace() {
    for seed in 0..40 {
        let broken = move || {
            let others = go_each(0..3, move |_| sim::work(Duration::from_micros(100)));
            sim::yield_now();
            sim::go(move || {
                sim::work(Duration::from_micros(30));
                sim::mark("about to fail");
                assert_eq!(seed, u64::MAX, "a rule of the program");
            })
            .join()
            .unwrap();
            join_all(others);
        };
        let plain = sim::run(config(seed), broken).unwrap_err();
        let (traced, traces) = sim::run_traced(config(seed), 100_000, broken);
        let traced = traced.unwrap_err();
        assert_eq!((plain.step, &plain.message), (traced.step, &traced.message), "seed {seed}");
        assert!(traced.message.ends_with(&format!("a rule of the program\n  left: {seed}\n right: {}", u64::MAX)));
        let last = |kind| traces.iter().flat_map(|trace| &trace.events).rfind(|event| event.kind == kind);
        let (mark, violation) = (last(EventKind::Mark).unwrap(), last(EventKind::Violation).unwrap());
        assert_eq!(violation.goroutine, mark.goroutine, "seed {seed}");
        let latest = traces.iter().flat_map(|trace| &trace.events).map(|event| event.when).max();
        assert_eq!(latest, Some(violation.when), "seed {seed}");
    }
}

/// Runs Gs on all Ps.
fn compute_on_all() {
    join_all(go_each(0..12, move |_| sim::work(Duration::from_millis(1))));
}

/// The numbers of the Ps on which Gs began to run according to the trace.
fn busy_processors(traces: &[TrackTrace]) -> Vec<u32> {
    let starts = |trace: &&TrackTrace| trace.events.iter().any(|event| event.kind == EventKind::Start);
    let number = |trace: &TrackTrace| if let Track::Processor(number) = trace.track { Some(number) } else { None };
    traces.iter().filter(starts).filter_map(number).collect()
}

fn four_cpus(processors: usize) -> Config {
    Config { cpus: 4, processors, procs_limit: 4, seed: 3, ..Config::default() }
}

#[test]
fn trace_includes_ps_that_were_in_use_for_a_part_of_it() {
    let (result, traces) = sim::run_traced(four_cpus(4), 10_000, || {
        compute_on_all();
        sim::set_procs(1).unwrap();
    });
    result.unwrap();
    assert_eq!(busy_processors(&traces), [0, 1, 2, 3], "P1 to P3 were taken out of use at the end");
    let (result, traces) = sim::run_traced(four_cpus(1), 10_000, || {
        sim::set_procs(4).unwrap();
        compute_on_all();
    });
    result.unwrap();
    assert_eq!(busy_processors(&traces), [0, 1, 2, 3], "P1 to P3 came into use during the trace");
}

#[test]
fn trace_of_a_p_that_is_not_in_use_stops_with_the_others() {
    sim::run(four_cpus(4), || {
        let scheduler = Pinned::<Sim>::new().machine().scheduler();
        scheduler.start_trace(1000).unwrap();
        sim::set_procs(2).unwrap();
        scheduler.stop_trace();
        sim::set_procs(4).unwrap();
        let count = || scheduler.processors().iter().map(|processor| processor.trace().len()).collect::<Vec<_>>();
        let before = count();
        compute_on_all();
        assert_eq!(count(), before);
    })
    .unwrap();
}

#[test]
fn long_message_leaves_room_for_the_events_before_the_failure() {
    let (result, traces) = sim::run_traced(four_cpus(1), 1000, || {
        let (sender, receiver) = sim::channel::<()>(0);
        for _ in 0..300 {
            let receiver = receiver.clone();
            sim::go(move || receiver.recv()).detach();
        }
        // Main waits, too, and keeps the channel open.
        let _ = receiver.recv();
        drop(sender);
    });
    let message = result.unwrap_err().message;
    assert!(message.len() > 5000, "the message lists the Gs: {message}");
    let is_of_text = |kind| matches!(kind, EventKind::TextBegin | EventKind::TextBytes);
    let failing = traces.iter().find(|trace| trace.events.iter().any(|event| event.kind == EventKind::Violation));
    let events = &failing.expect("the trace ends with the failure").events;
    let texts = events.iter().filter(|event| is_of_text(event.kind)).count();
    assert!(events.iter().any(|event| event.kind == EventKind::TextBegin), "the beginning of the text is there");
    assert!(texts <= 300, "{texts} of {} events are text", events.len());
}

#[test]
fn too_large_a_trace_is_an_error() {
    sim::run(four_cpus(1), || {
        let scheduler = Pinned::<Sim>::new().machine().scheduler();
        for capacity in [usize::MAX, usize::MAX / 3, isize::MAX as usize / 24 + 1] {
            assert!(scheduler.start_trace(capacity).is_err(), "{capacity}");
        }
        assert!(!scheduler.is_tracing());
    })
    .unwrap();
}

#[test]
fn every_seed_is_valid() {
    sim::run(Config { seed: u64::MAX, ..four_cpus(2) }, compute_on_all).unwrap();
}

/// The memory has a ring for each P that is in use when the trace starts.
#[test]
fn trace_in_shared_memory_starts_while_the_number_of_ps_changes() {
    let memory: &'static [AtomicU64] = (0..4096).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    for seed in 0..200 {
        let ran = sim::run(Config { procs_limit: 4, seed, ..Config::default() }, move || {
            let scheduler = Pinned::<Sim>::new().machine().scheduler();
            let changes = sim::go(|| {
                for _ in 0..10 {
                    for procs in [1, 4, 2] {
                        sim::set_procs(procs).unwrap();
                    }
                }
            });
            while !changes.is_finished() {
                scheduler.start_trace_in(memory).unwrap();
            }
            changes.join().unwrap();
        });
        assert!(ran.is_ok(), "{}", ran.unwrap_err());
    }
}
