//! What a G that computes does to the others on its P.

use std::time::Duration;

use gmp_sched::platform::Pinned;
use gmp_sched::sim::{self, Sim};

use super::{Experiment, Log, Paper, in_ms, machine, ms};

pub(super) const ALL: &[Experiment] = &[
    Experiment {
        name: "hog",
        shows: "a G computes for 100 ms, and another one, on the same P, sleeps 2 ms at a time",
        body: hog,
    },
    Experiment { name: "slices", shows: "three Gs compute on one P", body: slices },
];

/// Sleeps `count` times for 2 ms. Returns the largest time by which a sleep was too long.
fn latest(count: u32) -> Duration {
    let late = (0..count).map(|_| {
        let begin = sim::elapsed();
        sim::sleep(ms(2));
        (sim::elapsed() - begin).saturating_sub(ms(2))
    });
    late.max().unwrap_or_default()
}

/// Runs `compute` in one G, and 20 sleeps of 2 ms in another. Returns the largest time by which a sleep was too long.
fn beside(compute: fn()) -> Duration {
    let hog = sim::Builder::new().name("hog").go(compute);
    let sleeper = sim::Builder::new().name("sleeper").go(|| latest(20));
    let late = sleeper.join().expect("no G panics");
    hog.join().expect("no G panics");
    late
}

fn hog(paper: &mut Paper) {
    let log = Log::new();
    let late = log.clone();
    paper.simulate(machine(1), move || {
        late.add(beside(|| {
            let pinned = Pinned::<Sim>::new();
            sim::work(ms(100));
            drop(pinned);
        }));
    });
    paper.line(format!("preemption off: a sleep of 2 ms is late by up to {}", in_ms(log.take()[0])));
    let late = log.clone();
    let report = paper.trace(machine(1), move || late.add(beside(|| sim::work(ms(100)))));
    let late = log.take()[0].as_nanos() as f64 / 1e3;
    paper.line(format!("preemption on:  a sleep of 2 ms is late by up to {late:.1} us"));
    paper.line(format!("the G that computes was displaced {} times", report.counts.displacements));
}

fn slices(paper: &mut Paper) {
    let log = Log::new();
    let ends = log.clone();
    let report = paper.trace(machine(1), move || {
        let gs = ["A", "B", "C"].map(|name| {
            let log = ends.clone();
            sim::Builder::new().name(name).go(move || {
                sim::work(ms(40));
                log.add(format!("{name} after {}", in_ms(sim::elapsed())));
            })
        });
        gs.into_iter().for_each(|g| g.join().expect("no G panics"));
    });
    log.take().into_iter().for_each(|end| paper.line(end));
    paper.line(format!("slices that ended: {}", report.counts.preemptions));
}
