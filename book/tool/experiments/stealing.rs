//! How work that one P has made spreads over the others.

use gmp_sched::sim;

use super::{Experiment, Log, Paper, in_ms, joined, machine, ms};

pub(super) const ALL: &[Experiment] = &[Experiment {
    name: "stealing",
    shows: "one G spawns 48 others, and three Ps come and steal them",
    body: stealing,
}];

/// The number of Gs.
const GS: usize = 48;

/// Main spawns Gs of 1 ms each on its own P. Each of them adds the M on which it ended to `log`.
fn spawn_all(log: &Log<String>) {
    let gs: Vec<_> = (0..GS).map(|_| log.clone()).collect();
    let gs: Vec<_> = gs
        .into_iter()
        .map(|log| {
            sim::Builder::new().name("worker").go(move || {
                sim::work(ms(1));
                log.add(format!("{:?}", sim::machine()));
            })
        })
        .collect();
    gs.into_iter().for_each(|g| g.join().expect("no G panics"));
}

fn stealing(paper: &mut Paper) {
    let log = Log::new();
    let gs = log.clone();
    let alone = paper.simulate(machine(1), move || spawn_all(&gs));
    log.take();
    paper.line(format!("1 P:  {}", in_ms(alone.elapsed)));
    let gs = log.clone();
    let report = paper.trace(machine(4), move || spawn_all(&gs));
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    log.take().into_iter().for_each(|m| *counts.entry(m).or_default() += 1);
    paper.line(format!("4 Ps: {}", in_ms(report.elapsed)));
    let counts: Vec<u64> = counts.into_values().collect();
    paper.line(format!("Gs that ended on each of {} Ms: {}", counts.len(), joined(&counts)));
    let counts = report.counts;
    paper.line(format!(
        "steals: {}, rounds that found nothing: {}, Ms woken: {}",
        counts.steals, counts.steal_misses, counts.wakes
    ));
}
