//! The order in which the Gs of one P run.

use gmp_sched::sim;

use super::{Experiment, Log, Paper, joined, machine};

pub(super) const ALL: &[Experiment] = &[
    Experiment { name: "turns", shows: "three Gs take turns on one P", body: turns },
    Experiment { name: "spawn-order", shows: "ten Gs that one G has spawned", body: spawn_order },
];

/// Three Gs that yield after each step.
fn turns(paper: &mut Paper) {
    let log = Log::new();
    let steps = log.clone();
    let report = paper.trace(machine(1), move || {
        let gs = ["A", "B", "C"].map(|name| {
            let log = steps.clone();
            sim::Builder::new().name(name).go(move || {
                for step in 1..=3 {
                    log.add(format!("{name}{step}"));
                    sim::yield_now();
                }
            })
        });
        gs.into_iter().for_each(|g| g.join().expect("no G panics"));
    });
    paper.line(joined(&log.take()));
    paper.line(format!("Ps: 1, Gs: 4, yields: {}", report.counts.yields));
}

/// A G spawns ten others, and then waits for them.
fn spawn_order(paper: &mut Paper) {
    let log = Log::new();
    let ran = log.clone();
    paper.simulate(machine(1), move || {
        let gs: Vec<_> = (0..10).map(|number| (number, ran.clone())).collect();
        let gs: Vec<_> = gs.into_iter().map(|(number, log)| sim::go(move || log.add(number))).collect();
        gs.into_iter().for_each(|g| g.join().expect("no G panics"));
    });
    paper.line(format!("spawned: {}", joined(&(0..10).collect::<Vec<_>>())));
    paper.line(format!("ran:     {}", joined(&log.take())));
}
