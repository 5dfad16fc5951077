//! Runs that are as short and as regular as a slide needs. In each, the Gs do the same a few times.

use gmp_sched::device_signals::Signal;
use gmp_sched::sim::{self, Sim};

use super::{Experiment, Paper, machine, ms, us};

pub(super) const ALL: &[Experiment] = &[
    Experiment { name: "wakeup", shows: "main readies three Gs that wait for it, on three Ps", body: wakeup },
    Experiment {
        name: "hand-off",
        shows: "three Gs compute, block their Ms, and compute again, on one P",
        body: hand_off,
    },
    Experiment {
        name: "devices",
        shows: "three Gs wait for devices, and compute with what they get, on one P",
        body: devices,
    },
];

fn wakeup(paper: &mut Paper) {
    let report = paper.trace(machine(3), || {
        let (sender, receiver) = sim::channel(0);
        let consume = |receiver: sim::Receiver<u32>| move || receiver.iter().for_each(|_| sim::work(ms(6)));
        let consumers = [0, 1, 2].map(|_| sim::Builder::new().name("consumer").go(consume(receiver.clone())));
        // All consumers wait, and all Ms are idle.
        sim::sleep(ms(1));
        sim::work(ms(3));
        (0..3).for_each(|value| sender.send(value).expect("the consumers are there"));
        sim::work(ms(9));
        drop(sender);
        consumers.into_iter().for_each(|consumer| consumer.join().expect("no G panics"));
    });
    let counts = report.counts;
    paper.line(format!("parks: {}, Ms woken: {}, steals: {}", counts.parks, counts.wakes, counts.steals));
}

/// Runs three Gs that call `act` with their number, on one P.
fn three(paper: &mut Paper, name: &'static str, act: fn(u64)) {
    let report = paper.trace(machine(1), move || {
        let gs = [0, 1, 2].map(|number| sim::Builder::new().name(name).go(move || act(number)));
        gs.into_iter().for_each(|g| g.join().expect("no G panics"));
    });
    paper.line(format!("Ms: {}, handoffs: {}", report.machines, report.counts.handoffs));
}

fn hand_off(paper: &mut Paper) {
    three(paper, "call", |_| {
        sim::work(us(400));
        sim::block(us(1500));
        sim::work(us(400));
    });
}

fn devices(paper: &mut Paper) {
    three(paper, "wait", |number| {
        let signal: &'static Signal<Sim> = Box::leak(Box::new(Signal::new()));
        for _ in 0..3 {
            sim::work(us(100));
            sim::start_device(signal, us(300 + 100 * number));
            signal.wait();
        }
    });
}
