//! Programs on the simulated machine, one for each seed. A failure names the seed, and the seed repeats it:
//! `GMP_SIM_SEED=17 cargo test -p gmp-sched --test simulation`. `GMP_SIM_SEEDS=1000000` runs more of them,
//! `GMP_SIM_SEEDS=2000..4000` others.

use std::env;
use std::ops::Range;
use std::process::Command;
use std::thread;

use gmp_sched::sim::{self, Config};

/// Seeds of an ordinary run of each program. A scheduler is never freed, so more of them are run by one process after the
/// other.
const SEEDS: u64 = 2000;

/// Seeds with which something went wrong once that the others do not show, and with which program. Part of an ordinary run.
///
/// - 39235, readers and writers: an M that had just stopped spinning was given a P for other work, and did not look any more
///   for what others had left to it.
const KNOWN: [u64; 1] = [39235];

/// The seeds to run: all, or the one to be repeated.
fn seeds() -> Range<u64> {
    let number = |text: &str| text.parse().expect("a number, or two as in 0..1000");
    if let Ok(seed) = env::var("GMP_SIM_SEED") {
        return number(&seed)..number(&seed) + 1;
    }
    match env::var("GMP_SIM_SEEDS") {
        Err(_) => 0..SEEDS,
        Ok(seeds) => match seeds.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => 0..number(&seeds),
        },
    }
}

/// Has the calling test run with those seeds in another process, whose memory goes with it.
fn run_apart(test: &str, seeds: Range<u64>) {
    let mut command = Command::new(env::current_exe().expect("this program is somewhere"));
    command
        .args(["--exact", test, "--include-ignored"])
        .env("GMP_SIM_SEEDS", format!("{}..{}", seeds.start, seeds.end));
    let ran = command.output().expect("it can be started again");
    let said = [String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr)].concat();
    assert!(
        ran.status.success() && said.contains("test result: ok. 1 passed"),
        "{} with seeds {seeds:?}: {said}",
        ran.status
    );
}

/// Runs `program` with every seed on machines of all sizes, and shows what went wrong first.
pub(crate) fn explore(program: fn(u64)) {
    explore_with(0, program);
}

/// [`explore`] with a program that may choose up to `procs_limit` Ps.
pub(crate) fn explore_with(procs_limit: usize, program: fn(u64)) {
    let mut seeds = seeds();
    // The harness calls the thread of a test so, unless it runs them on its own.
    if let Some(test) = thread::current().name().filter(|&name| name != "main") {
        while seeds.end - seeds.start > SEEDS {
            run_apart(test, seeds.start..seeds.start + SEEDS);
            seeds.start += SEEDS;
        }
    }
    let is_ordinary = seeds == (0..SEEDS);
    for seed in seeds.chain(KNOWN.into_iter().filter(|_| is_ordinary)) {
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
