//! The benchmark with other Rust libraries: `peers tokio|may|threads|crossbeam|flume [procs=N] [FILTER]...`; and a
//! server on tokio, `peers serve ADDRESS`.
//!
//! The workloads have the same names and parameters as those of `gmp-sched/benches/shared`, and each of them
//! prints the same kind of line, `bench NAME procs=N VALUE UNIT`. Some workloads have fewer repetitions on threads, or
//! fewer waiting coroutines or threads. If a library lacks what a workload needs, the workload is left out for this
//! library. `cargo run -- compare --native` builds and runs this program.

mod channels;
mod coroutines;
mod report;
mod server;
mod tasks;
mod threads;

use std::process::ExitCode;

/// A workload with its name.
type Workload<T> = (&'static str, fn(&T));

/// The command line.
struct Arguments {
    /// The number of workers. For libraries of threads, the number of CPUs that the process may use.
    procs: usize,
    /// Which workloads to run.
    filters: Vec<String>,
}

impl Arguments {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let mut arguments = Self { procs: cpus, filters: Vec::new() };
        for word in words {
            match word.strip_prefix("procs=") {
                Some(number) => {
                    let number = number.parse().ok().filter(|&number| number > 0);
                    arguments.procs = number.ok_or_else(|| format!("{word}: expected a number above zero"))?;
                }
                None => arguments.filters.push(word),
            }
        }
        Ok(arguments)
    }

    /// Runs the workloads whose names contain one of the filters. Runs all workloads if there are no filters.
    fn run<T>(&self, platform: &T, workloads: &[Workload<T>]) {
        let is_selected =
            |name: &str| self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()));
        workloads.iter().filter(|(name, _)| is_selected(name)).for_each(|(_, workload)| workload(platform));
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let peer = words.next().unwrap_or_default();
    if peer == "serve" {
        return match server::run(&words.next().unwrap_or_default()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("peers: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let run = match peer.as_str() {
        "tokio" => tasks::run,
        "may" => coroutines::run,
        "threads" => threads::run,
        "crossbeam" => channels::run_crossbeam,
        "flume" => channels::run_flume,
        _ => {
            eprintln!("usage: peers tokio|may|threads|crossbeam|flume [procs=N] [FILTER]...");
            return ExitCode::from(64);
        }
    };
    match Arguments::parse(words) {
        Ok(arguments) => {
            run(&arguments);
            println!("bench done");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("peers: {message}");
            ExitCode::from(64)
        }
    }
}
