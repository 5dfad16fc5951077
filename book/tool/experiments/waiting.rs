//! What waiting for a device costs: a P, an M, or only a G.

use gmp_sched::device_signals::Signal;
use gmp_sched::sim::{self, Report, Sim};

use super::{Experiment, Paper, in_ms, machine, ms};

pub(super) const ALL: &[Experiment] = &[
    Experiment {
        name: "system-calls",
        shows: "four Gs block for 5 ms each, and a fifth one computes, on one P",
        body: system_calls,
    },
    Experiment { name: "poller", shows: "a hundred Gs wait for devices on two Ps", body: poller },
];

/// Returns a program with four Gs that call `wait`, and one that computes for 5 ms. The computing G begins when the
/// others wait, because the G that is spawned last runs first, and the others in the order of their spawns.
fn beside(wait: fn()) -> impl FnOnce() + Send {
    move || {
        let go = |name, body: fn()| sim::Builder::new().name(name).go(body);
        let compute = || sim::work(ms(5));
        let gs = [go("wait", wait), go("wait", wait), go("wait", wait), go("compute", compute), go("wait", wait)];
        gs.into_iter().for_each(|g| g.join().expect("no G panics"));
    }
}

fn said(way: &str, report: &Report) -> String {
    let handoffs = report.counts.handoffs;
    format!("{way:<36} {:>8}   Ms: {:>3}   handoffs: {handoffs:>3}", in_ms(report.elapsed), report.machines)
}

fn system_calls(paper: &mut Paper) {
    let kept = paper.simulate(machine(1), beside(|| sim::work(ms(5))));
    paper.line(said("the M waits and keeps its P", &kept));
    let handed = paper.trace(machine(1), beside(|| sim::block(ms(5))));
    paper.line(said("the P is handed off", &handed));
}

/// Runs a hundred Gs that call `wait`.
fn hundred(wait: fn()) {
    let gs: Vec<_> = (0..100).map(|_| sim::go(wait)).collect();
    gs.into_iter().for_each(|g| g.join().expect("no G panics"));
}

fn poller(paper: &mut Paper) {
    let blocked = paper.simulate(machine(2), || hundred(|| sim::block(ms(1))));
    paper.line(said("each blocks its M", &blocked));
    let parked = paper.trace(machine(2), || {
        hundred(|| {
            let signal: &'static Signal<Sim> = Box::leak(Box::new(Signal::new()));
            sim::start_device(signal, ms(1));
            signal.wait();
        });
    });
    paper.line(said("each parks, and a signal readies it", &parked));
}
