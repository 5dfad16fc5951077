//! Simulated machines.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::sim::{self, Builder, Config, Failure, Report, Semaphore};
use gmp_sched::trace::memory;

/// A run that takes more steps fails, because its Gs seem to make no progress.
const STEPS: u64 = 500_000;

/// The largest number of events of each track of a trace. If a run has more, the last ones are kept.
const EVENTS: usize = 65_536;

/// A machine that is not compared with the specification, so that one wrong decision does not hide all other properties.
pub(crate) fn of_cpus(cpus: usize, seed: u64) -> Config {
    Config { cpus, processors: cpus, seed, step_limit: STEPS, is_specified: false, ..Config::default() }
}

/// Runs `main`, and panics if the run fails.
pub(crate) fn run(machine: Config, main: impl FnOnce() + Send + 'static) -> Report {
    try_run(machine, main)
        .unwrap_or_else(|failure| panic!("on {} CPUs, seed {}: {}", machine.cpus, machine.seed, failure.message))
}

/// Runs `main`. If the environment names a file in `GMP_LAB_TRACE`, the trace of the last run
/// is in that file.
pub(crate) fn try_run(machine: Config, main: impl FnOnce() + Send + 'static) -> Result<Report, Failure> {
    match env::var_os("GMP_LAB_TRACE").map(PathBuf::from) {
        Some(file) => {
            let (result, traces) = sim::run_traced(machine, EVENTS, main);
            fs::write(&file, memory::image(&traces)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            result
        }
        None => sim::run(machine, main),
    }
}

/// A G that performs its task each time it is asked to. A question readies this G, and its answer readies the G that
/// has asked. Both use semaphores, because another lab is about channels.
pub(crate) struct Partner {
    asked: Arc<Semaphore>,
    answered: Arc<Semaphore>,
}

impl Partner {
    /// Spawns a partner that ends after `count` answers.
    pub(crate) fn new(count: u32, task: impl Fn() + Send + 'static) -> Self {
        let empty = || {
            let semaphore = Semaphore::new(1);
            semaphore.acquire(1).forget();
            Arc::new(semaphore)
        };
        let partner = Self { asked: empty(), answered: empty() };
        let (asked, answered) = (partner.asked.clone(), partner.answered.clone());
        let body = move || {
            for _ in 0..count {
                asked.acquire(1).forget();
                task();
                answered.release(1);
            }
        };
        sim::go(body).detach();
        partner
    }

    pub(crate) fn ask(&self) {
        self.asked.release(1);
    }

    pub(crate) fn wait_for_answer(&self) {
        self.answered.acquire(1).forget();
    }
}

/// Spawns `count` Gs on one P, and waits for them. Returns the numbers of the Gs in the order in which they ran.
pub(crate) fn order(count: usize) -> Vec<usize> {
    let order: Arc<Mutex<Vec<usize>>> = Arc::default();
    let recorded = order.clone();
    run(of_cpus(1, 0), move || {
        let spawn = |number| {
            let order = recorded.clone();
            sim::go(move || order.lock().expect("no panic").push(number))
        };
        let gs: Vec<_> = (0..count).map(spawn).collect();
        gs.into_iter().for_each(|g| g.join().expect("no panic"));
    });
    order.lock().expect("no panic").clone()
}

/// Spawns `count` Gs, each of which computes for `each`, and waits for them.
pub(crate) fn compute(count: usize, each: Duration) {
    let gs: Vec<_> = (0..count).map(|_| sim::go(move || sim::work(each))).collect();
    gs.into_iter().for_each(|g| g.join().expect("no panic"));
}

/// A tree of Gs that compute, sleep, yield, and call `waits`. The bits of `path` choose what each of them does. About half of
/// them have the parameter 1, which only a policy sees.
pub(crate) fn tree(path: u64, depth: u32, waits: fn(Duration)) {
    let mut children = Vec::new();
    for child in 0..if depth > 0 { 3 } else { 0 } {
        let path = path.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) + child;
        children.push(Builder::new().parameter(path >> 20 & 1).go(move || tree(path, depth - 1, waits)));
        let time = Duration::from_micros(path >> 8 & 0x3FF);
        match path & 7 {
            0 | 1 => sim::sleep(time),
            2 => waits(time),
            3 => sim::work(time * 30),
            4 => sim::work(time),
            _ => sim::yield_now(),
        }
    }
    children.into_iter().for_each(|child| child.join().expect("no panic"));
}
