//! Simulated machines.

use std::env;
use std::fs;
use std::path::PathBuf;

use gmp_sched::sim::{self, Config, Failure, Report};
use gmp_sched::trace::memory;

/// Ends a run in which the Gs make no progress.
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
