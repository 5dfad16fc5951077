//! A fuzz test of the public interface: random programs of safe calls, many of them misuses. No value may be sent
//! twice, dropped twice or overwritten, and no wait may hang. Lost values are not detected, because the programs leak
//! values.
//!
//! `GMP_FUZZ_SEED=17` runs only the program of seed 17. In the simulator, a program takes the same steps each time; on
//! threads, its steps differ from run to run. `GMP_FUZZ_SECONDS=60` runs programs for 60 seconds. (The simulator does not
//! free the memory of a run, and needs 24 GB for 110 seconds of them. On threads, there may be any number of seconds.)
#![deny(unsafe_code)]

mod on_threads;
mod simulated;
mod value;

use std::time::{Duration, Instant};
use std::{env, panic};

/// Runs the program of the seed `GMP_FUZZ_SEED`. If this is not set, runs the programs of the seeds from 0 on, for
/// `GMP_FUZZ_SECONDS`. If this is not set either, runs the programs of the first `programs` seeds, and those of `known`,
/// which have found faults.
fn for_each_seed(programs: u64, known: &[u64], run: impl Fn(u64)) {
    let seconds = env::var("GMP_FUZZ_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let only = env::var("GMP_FUZZ_SEED").ok().map(|text| text.parse().expect("a number"));
    // Panics are part of the programs, so they are not printed.
    panic::set_hook(Box::new(value::check_panic));
    let start = Instant::now();
    let first = only.unwrap_or(0);
    let is_wanted = |seed: &u64| match (only, seconds) {
        (Some(only), _) => *seed == only,
        (None, Some(seconds)) => start.elapsed() < Duration::from_secs(seconds),
        (None, None) => *seed < programs,
    };
    let known = known.iter().copied().filter(|_| (only, seconds) == (None, None));
    let count = (first..).take_while(is_wanted).chain(known).inspect(|&seed| run(seed)).count();
    println!("{count} programs");
}
