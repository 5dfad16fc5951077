//! The runs that answer the questions of `cargo lab predict`. Each prints its answer; none judges anything.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::device_signals::Signal;
use gmp_sched::sim::{self, Sim, channel};

use crate::machine::{compute, of_cpus, order, run};
use crate::{stealing, waking};

pub(crate) fn answer(text: &str) {
    println!("answer: {text}");
}

/// The one of `choices` that is nearest to `count`, by their ratio.
fn about(count: u64, choices: &[u64]) -> String {
    let distance = |choice: &&u64| (count.max(1) as f64 / (**choice).max(1) as f64).ln().abs();
    let nearest = choices.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    nearest.expect("there are choices").to_string()
}

#[test]
fn order_of_four() {
    let letters: Vec<_> = order(4).into_iter().map(|number| ["A", "B", "C", "D"][number]).collect();
    answer(&letters.join(" "));
}

#[test]
fn first_two_of_three_hundred() {
    let order = order(300);
    answer(&format!("{} {}", order[0], order[1]));
}

#[test]
fn thefts() {
    answer(&about(stealing::thefts(4, 0, 200), &[1, 8, 80, 800]));
}

#[test]
fn wakes_of_a_pair() {
    answer(&about(waking::pair(0).counts.wakes, &[0, 20, 500, 1000]));
}

#[test]
fn wakes_of_a_burst() {
    let report = run(of_cpus(8, 0), || compute(64, Duration::from_micros(500)));
    answer(&about(report.counts.wakes, &[1, 10, 64, 200]));
}

#[test]
fn machines_for_gs_that_block() {
    let report = run(of_cpus(1, 0), || {
        let gs: Vec<_> = (0..20).map(|_| sim::go(|| sim::block(Duration::from_millis(10)))).collect();
        gs.into_iter().for_each(|g| g.join().expect("no panic"));
    });
    answer(&about(report.machines as u64, &[1, 2, 5, 21]));
}

#[test]
fn order_of_three_senders() {
    let letters: Arc<Mutex<Vec<&str>>> = Arc::default();
    let received = letters.clone();
    run(of_cpus(1, 0), move || {
        let (sender, receiver) = channel(0);
        for letter in ["A", "B", "C"] {
            let sender = sender.clone();
            sim::go(move || sender.send(letter).expect("main receives")).detach();
        }
        sim::sleep(Duration::from_millis(1));
        let mut letters = received.lock().expect("no panic");
        letters.extend((0..3).map(|_| receiver.recv().expect("three are sent")));
    });
    answer(&letters.lock().expect("no panic").join(" "));
}

#[test]
fn machines_for_gs_that_wait() {
    let report = run(of_cpus(2, 0), || {
        let wait = |_| {
            sim::go(|| {
                let device = Box::leak(Box::<Signal<Sim>>::default());
                sim::start_device(device, Duration::from_millis(1));
                device.wait();
            })
        };
        let gs: Vec<_> = (0..100).map(wait).collect();
        gs.into_iter().for_each(|g| g.join().expect("no panic"));
    });
    answer(&about(report.machines as u64, &[1, 2, 10, 102]));
}

#[test]
fn waits_after_three_raises() {
    let ended = Arc::new(Mutex::new(0));
    let counted = ended.clone();
    run(of_cpus(1, 0), move || {
        let device = Box::leak(Box::<Signal<Sim>>::default());
        (0..3).for_each(|_| device.raise());
        *counted.lock().expect("no panic") = (0..3).filter(|_| device.wait_timeout(Duration::from_millis(1))).count();
    });
    answer(&ended.lock().expect("no panic").to_string());
}

#[test]
fn machines_for_connections() {
    answer(&about(crate::connections::echoes(2, 0, 20).machines as u64, &[2, 20, 22, 42]));
}
