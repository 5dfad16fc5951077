//! Channels, beside what they replace: a lock and a loop.

use std::sync::Arc;

use gmp_sched::sim::{self, Mutex};

use super::{Experiment, Log, Paper, in_ms, joined, machine, ms, us};

pub(super) const ALL: &[Experiment] = &[
    Experiment { name: "channel", shows: "a G sends a value each 1 ms to a G that waits for them", body: channel },
    Experiment { name: "close-order", shows: "in which order Gs run that waited for one channel", body: close_order },
    Experiment { name: "select", shows: "a select with two ready channels, 1,000 times", body: select },
];

/// The number of values.
const VALUES: u64 = 10;

fn channel(paper: &mut Paper) {
    let polled = paper.simulate(machine(1), || {
        let slot = Arc::new(Mutex::new(None));
        let sender = slot.clone();
        let sending = sim::go(move || {
            for value in 0..VALUES {
                sim::sleep(ms(1));
                while sender.lock().replace(value).is_some() {
                    sim::yield_now();
                }
            }
        });
        for _ in 0..VALUES {
            while slot.lock().take().is_none() {
                sim::work(us(1));
                sim::yield_now();
            }
        }
        sending.join().expect("no G panics");
    });
    let looked = polled.counts.yields;
    paper.line(format!("a loop that looks:  {:>5} yields, {}", looked, in_ms(polled.elapsed)));
    let waited = paper.trace(machine(1), || {
        let (sender, receiver) = sim::channel(0);
        let sending = sim::Builder::new().name("sender").go(move || {
            for value in 0..VALUES {
                sim::sleep(ms(1));
                sender.send(value).expect("the receiver is there");
            }
        });
        assert_eq!(receiver.iter().count() as u64, VALUES);
        sending.join().expect("no G panics");
    });
    let (parks, yields) = (waited.counts.parks, waited.counts.yields);
    paper.line(format!("a channel:          {yields:>5} yields, {parks} parks, {}", in_ms(waited.elapsed)));
}

fn close_order(paper: &mut Paper) {
    let log = Log::new();
    let ran = log.clone();
    paper.simulate(machine(1), move || {
        let (sender, receiver) = sim::channel::<u32>(0);
        let gs: Vec<_> = (0..5)
            .map(|number| {
                let (receiver, log) = (receiver.clone(), ran.clone());
                sim::go(move || {
                    log.add(format!("wait {number}"));
                    let _ = receiver.recv();
                    log.add(format!("end {number}"));
                })
            })
            .collect();
        sim::yield_now();
        sender.close();
        gs.into_iter().for_each(|g| g.join().expect("no G panics"));
    });
    let log = log.take();
    paper.line(joined(&log[..5]));
    paper.line(joined(&log[5..]));
}

fn select(paper: &mut Paper) {
    let log = Log::new();
    let chosen = log.clone();
    paper.simulate(machine(1), move || {
        let (left, from_left) = sim::channel(1);
        let (right, from_right) = sim::channel(1);
        let (mut random, mut ordered) = (0, 0);
        for _ in 0..1_000 {
            let _ = (left.try_send(()), right.try_send(()));
            sim::select! {
                recv(from_left) => random += 1,
                recv(from_right) => {}
            }
            let _ = (left.try_send(()), right.try_send(()));
            sim::select! {
                ordered;
                recv(from_left) => ordered += 1,
                recv(from_right) => {}
            }
        }
        chosen.add([random, ordered]);
    });
    let [random, ordered] = log.take()[0];
    paper.line(format!("at random: left {random}, right {}", 1_000 - random));
    paper.line(format!("in order:  left {ordered}, right {}", 1_000 - ordered));
}
