//! Exact traces: a traced run takes the same steps as the run without a trace.

use std::time::Duration;

use gmp_sched::sim::{self, Config};
use gmp_sched::trace::{EventKind, Track};

use crate::anything::anything;
use crate::explore::Random;

/// Spawns Gs that perform random operations and pass values through a channel. Stops the world once while they run.
fn program(seed: u64) {
    let (sender, receiver) = sim::channel(2);
    let gs: Vec<_> = (0..6)
        .map(|number| {
            let (sender, receiver) = (sender.clone(), receiver.clone());
            sim::go(move || {
                let mut random = Random::new(seed * 8 + number);
                for step in 0..10 {
                    anything(&mut random);
                    if number % 2 == 0 {
                        sender.send(step).unwrap();
                    } else {
                        receiver.recv().unwrap();
                    }
                }
            })
        })
        .collect();
    sim::work(Duration::from_micros(20));
    drop(sim::stop_the_world());
    gs.into_iter().for_each(|g| g.join().unwrap());
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
            let others: Vec<_> = (0..3).map(|_| sim::go(|| sim::work(Duration::from_micros(100)))).collect();
            sim::yield_now();
            sim::go(move || {
                sim::work(Duration::from_micros(30));
                sim::mark("about to fail");
                assert_eq!(seed, u64::MAX, "a rule of the program");
            })
            .join()
            .unwrap();
            others.into_iter().for_each(|other| other.join().unwrap());
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
