//! The runs that answer the questions of `cargo lab predict`. Each prints its answer; none judges anything.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::sim::{self, channel};

use crate::machine::{compute, of_cpus, order, run};
use crate::{stealing, waking};

fn answer(text: &str) {
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
