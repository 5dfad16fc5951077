//! The runs that the chapters show. Each of them is a small program. Most of them run in the simulator, where a seed
//! determines everything. So each time they print the same text and have the same timeline.

mod channels;
mod going_idle;
mod order;
mod policies;
mod preemption;
mod slides;
mod stealing;
mod waiting;

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::sim::{self, Config, Report};
use timeline::Trace;

use crate::error::{Error, Result};

/// A run of the book.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    /// What the run shows, as a part of a sentence.
    pub(crate) shows: &'static str,
    body: fn(&mut Paper),
}

/// What a run leaves: lines of text, and the trace of one of its parts.
#[derive(Debug, Default)]
pub(crate) struct Paper {
    text: String,
    trace: Option<Trace>,
}

impl Experiment {
    pub(crate) fn all() -> Vec<Self> {
        let lists = [
            order::ALL,
            going_idle::ALL,
            stealing::ALL,
            preemption::ALL,
            waiting::ALL,
            channels::ALL,
            policies::ALL,
            slides::ALL,
        ];
        lists.concat()
    }

    pub(crate) fn find(name: &str) -> Result<Self> {
        let found = Self::all().into_iter().find(|one| one.name == name);
        found.ok_or_else(|| Error::new(format!("there is no run `{name}`; `cargo book list` lists them")))
    }

    /// Performs the run. Returns what it prints, and its trace if it has one.
    pub(crate) fn perform(&self) -> (String, Option<Trace>) {
        let mut paper = Paper::default();
        (self.body)(&mut paper);
        (paper.text, paper.trace)
    }
}

impl Paper {
    /// Adds a line.
    fn line(&mut self, line: impl fmt::Display) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Runs `main` on a simulated machine.
    fn simulate(&self, config: Config, main: impl FnOnce() + Send + 'static) -> Report {
        sim::run(config, main).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Runs `main` on a simulated machine, and keeps the trace of that run.
    fn trace(&mut self, config: Config, main: impl FnOnce() + Send + 'static) -> Report {
        let (report, traces) = sim::run_traced(config, 100_000, main);
        self.trace = Some(Trace::new(traces));
        report.unwrap_or_else(|failure| panic!("{failure}"))
    }
}

/// A machine with `count` CPUs and Ps.
fn machine(count: usize) -> Config {
    Config { cpus: count, processors: count, seed: 7, ..Config::default() }
}

/// A list to which all Gs of a run can add entries.
#[derive(Clone, Debug, Default)]
struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Log<T> {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }

    fn add(&self, entry: T) {
        self.0.lock().expect("no G panics while it adds").push(entry);
    }

    fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().expect("no G panics while it adds"))
    }
}

/// The entries in one line.
fn joined<T: fmt::Display>(entries: &[T]) -> String {
    entries.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

fn in_ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
