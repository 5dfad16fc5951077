//! The contest of lab 9: workloads, each with the number that is compared. Each test prints its number, and lower is better. A
//! teacher may change the workloads, and the weights in `lab.toml`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gmp_sched::sim::{self, Builder};
use lab_policy::ANSWERS;

use crate::machine::run;
use crate::policy::{MILLISECOND, STEP, delay, machine, waits};
use crate::predictions::answer;

fn print(time: Duration) {
    answer(&time.as_micros().to_string());
}

#[test]
fn median_delay() {
    print(delay(2, 50));
}

#[test]
fn late_delay() {
    print(delay(4, 99));
}

#[test]
fn longest_wait() {
    print((0..5).map(|seed| waits(2, seed)).max().expect("there are seeds"));
}

/// How long 16 Gs that compute for 10 ms each take on 4 CPUs, while 4 others answer.
#[test]
fn work_beside_answers() {
    let times = (0..5).map(|seed| {
        let report = run(machine(4, seed), || {
            let is_over = Arc::new(AtomicBool::new(false));
            let answers = |_| {
                let is_over = is_over.clone();
                Builder::new().parameter(ANSWERS).go(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        sim::sleep(MILLISECOND);
                        sim::work(STEP);
                    }
                })
            };
            let answers: Vec<_> = (0..4).map(answers).collect();
            let compute = |_| sim::go(|| (0..200).for_each(|_| sim::work(STEP)));
            let computes: Vec<_> = (0..16).map(compute).collect();
            computes.into_iter().for_each(|g| g.join().expect("no panic"));
            is_over.store(true, Ordering::Relaxed);
            answers.into_iter().for_each(|g| g.join().expect("no panic"));
        });
        report.elapsed
    });
    print(times.sum::<Duration>() / 5);
}
