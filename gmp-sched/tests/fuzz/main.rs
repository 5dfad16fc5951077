//! A fuzz test of the public interface: random programs of safe calls, many of them misuses. No value may be sent or dropped
//! twice, overwritten or lost, and no wait may hang.
//!
//! `GMP_FUZZ_SEED=17` repeats one program, exactly if it is simulated. `GMP_FUZZ_SECONDS=600` runs programs for so long.
#![cfg(not(gmp_loom))]
#![deny(unsafe_code)]

#[path = "../threads/entered.rs"]
mod entered;
mod on_threads;
mod simulated;
mod value;

use std::time::{Duration, Instant};
use std::{env, panic};

/// Runs the programs of the requested seeds, or else the first `programs`.
fn for_each_seed(programs: u64, run: impl Fn(u64)) {
    let seconds = env::var("GMP_FUZZ_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let only = env::var("GMP_FUZZ_SEED").ok().map(|text| text.parse().expect("a number"));
    // Does not print panics: they are part of the programs.
    panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let first = only.unwrap_or(0);
    let is_wanted = |seed: &u64| match (only, seconds) {
        (Some(only), _) => *seed == only,
        (None, Some(seconds)) => start.elapsed() < Duration::from_secs(seconds),
        (None, None) => *seed < programs,
    };
    let count = (first..).take_while(is_wanted).inspect(|&seed| run(seed)).count();
    println!("{count} programs");
}
