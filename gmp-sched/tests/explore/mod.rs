//! Programs on the simulated machine, one for each seed. A failure names the seed, and the seed repeats it:
//! `GMP_SIM_SEED=17 cargo test -p gmp-sched --test simulation`. `GMP_SIM_SEEDS=100000` runs more of them.

use std::env;

use gmp_sched::sim::{self, Config};

/// Seeds of an ordinary run of each program.
const SEEDS: u64 = 2000;

/// The seeds to run: all, or the one to be repeated.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| env::var(name).ok().map(|value| value.parse().expect("a number"));
    match number("GMP_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("GMP_SIM_SEEDS").unwrap_or(SEEDS),
    }
}

/// Runs `program` with every seed on machines of all sizes, and shows what went wrong first.
pub(crate) fn explore(program: fn(u64)) {
    explore_with(0, program);
}

/// [`explore`] with a program that may choose up to `procs_limit` Ps.
pub(crate) fn explore_with(procs_limit: usize, program: fn(u64)) {
    for seed in seeds() {
        let cpus = [1, 2, 3, 4, 8, 16][seed as usize % 6];
        // With more Ps than CPUs threads have to take turns.
        let processors = [cpus, cpus, 1.max(cpus / 2), 1, 2 * cpus][seed as usize / 6 % 5];
        let config = Config { cpus, processors, procs_limit, seed, ..Config::default() };
        if let Err(failure) = sim::run(config, move || program(seed)) {
            panic!("{failure}\nrepeat it with GMP_SIM_SEED={seed}");
        }
    }
}

/// Random numbers of a program: xorshift.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The same numbers for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number less than `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}
