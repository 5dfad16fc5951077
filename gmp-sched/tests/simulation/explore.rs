//! Runs programs in the simulator, each with many seeds. A failure shows its seed. `GMP_SIM_SEED=17 cargo test -p
//! gmp-sched --test simulation TEST` repeats the run with seed 17. `GMP_SIM_SEEDS=1000000` runs that many seeds, and
//! `GMP_SIM_SEEDS=2000..4000` runs the seeds of this range. With `GMP_TESTS=all`, there are five times as many seeds as
//! without it.
//!
//! `GMP_SIM_SEED=17 GMP_SIM_TRACE=FILE cargo test -p gmp-sched --test simulation TEST` also writes the timeline of the
//! run, as `FILE.html` for a browser and `FILE.json` for Perfetto. A relative path begins at the root of the
//! repository. If the run fails, `FILE.html` begins with the violated rule.
//!
//! The memory of a scheduler is never freed, so one process cannot run any number of seeds. A test therefore runs its
//! seeds in child processes, one after the other. Each of them runs at most [`SEEDS`] seeds.

use std::env;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use gmp_sched::sim::{self, Config, Failure, Report};
use gmp_sched::trace::memory;

use crate::extent;

/// The largest number of seeds that one process runs. With `GMP_TESTS=all`, this is also the number of seeds of each
/// program.
const SEEDS: u64 = 1000;

/// The number of seeds of each program, unless the environment asks for others.
const FEW: u64 = 200;

/// This variable is set in the environment of a child process that runs seeds.
const IS_CHILD: &str = "GMP_SIM_CHILD";

/// Seeds beyond [`SEEDS`] with which a program once failed. They are run in addition, unless the environment asks for
/// certain seeds.
const KNOWN: [Known; 10] = [
    // An M that had just stopped spinning was assigned a P for other work. Submitters had relied on the M to find
    // their work, but the M did not search for that work.
    Known { seed: 39235, program: "writers_exclude_others_and_no_waiter_is_lost" },
    // The G that started the world put Ps on the idle list before it had woken an M to search. The protocol in
    // `idle.md` requires that the M of this G counts as spinning meanwhile, but it did not.
    Known { seed: 141_629, program: "hogs_do_not_keep_the_world_from_stopping" },
    // The M that ran main waited for a CPU, which the test did not allow for. The test was wrong.
    Known { seed: 13408, program: "ring_runs_beside_sleepers_that_ready_others" },
    // An M waited so long for a CPU that a slice ended later than the test allowed. The test was wrong.
    Known { seed: 160_109, program: "two_gs_that_ready_each_other_share_a_slice" },
    // Ms waited so long for a CPU that a locked G ran later than the test allowed. The test was wrong.
    Known { seed: 67256, program: "timers_that_are_always_due_do_not_starve_the_global_queue" },
    // An M on whose search submitters had relied was assigned a P with one G in its queue. The M did not wake another M
    // for that G. But the M first ran a G whose timer was due, so the G in the queue waited while Ps were idle.
    Known { seed: 137_879, program: "coroutines_yield_all_values_in_order" },
    // A thief had stolen Gs without having reported that yet, when another one stole two of the remaining Gs. The
    // specification allowed only one.
    Known { seed: 1_011_371, program: "trees_of_gs_with_all_operations" },
    // A P was idle between two urgent Gs. The specification counted this time as if urgent Gs had run all the time.
    Known { seed: 1_003_492, program: "preempted_gs_mix_with_locked_gs_calls_timers_and_stops_of_the_world" },
    // An urgent G displaced a G of the ring that was still urgent itself. Its time was not counted to the row of urgent Gs
    // that ran next, so they ran for milliseconds although others waited.
    Known { seed: 5_005_056, program: "trees_of_gs_with_all_operations" },
    Known { seed: 5_008_860, program: "preempted_gs_mix_with_locked_gs_calls_timers_and_stops_of_the_world" },
];

/// A seed of one program.
struct Known {
    seed: u64,
    /// The name of the test, without its module.
    program: &'static str,
}

/// The program of each seed in [`KNOWN`] must exist, because otherwise the seed would never be run.
#[test]
fn every_known_seed_names_a_program() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation");
    let programs: Vec<String> =
        fs::read_dir(tests).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    for Known { seed, program } in KNOWN {
        let test = format!("#[test]\nfn {program}() {{");
        assert!(programs.iter().any(|source| source.contains(&test)), "no program of seed {seed} is called {program}");
    }
}

/// Returns the seeds in [`KNOWN`] of the program that `test` names. If `test` is `None`, returns all seeds in
/// [`KNOWN`].
fn known(test: Option<&str>) -> impl Iterator<Item = u64> {
    let program = test.map(|test| test.rsplit("::").next().expect("there is a last part"));
    KNOWN.iter().filter(move |known| program.is_none_or(|program| program == known.program)).map(|known| known.seed)
}

/// Returns the seeds to run if the environment does not ask for certain seeds.
fn ordinary_seeds() -> Range<u64> {
    0..if extent::is_all() { SEEDS } else { FEW }
}

/// Returns the seeds to run: the seed `GMP_SIM_SEED` if this is set, otherwise the seeds `GMP_SIM_SEEDS`. If neither is
/// set, the [ordinary](ordinary_seeds) ones.
fn seeds() -> Range<u64> {
    let number = |text: &str| text.parse().expect("a number, or two as in 0..1000");
    if let Ok(seed) = env::var("GMP_SIM_SEED") {
        return number(&seed)..number(&seed) + 1;
    }
    match env::var("GMP_SIM_SEEDS") {
        Err(_) => ordinary_seeds(),
        Ok(seeds) => match seeds.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => 0..number(&seeds),
        },
    }
}

/// Runs the test named `test` with these seeds in a child process. When the child ends, its memory is freed.
fn run_apart(test: &str, seeds: Range<u64>) {
    let mut command = Command::new(env::current_exe().expect("the running program has a path"));
    command
        .args(["--exact", test, "--include-ignored"])
        .env(IS_CHILD, "1")
        .env("GMP_SIM_SEEDS", format!("{}..{}", seeds.start, seeds.end));
    let ran = command.output().expect("it can be started again");
    let said = [String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr)].concat();
    assert!(
        ran.status.success() && said.contains("test result: ok. 1 passed"),
        "{} with seeds {seeds:?}: {said}",
        ran.status
    );
}

/// Runs `program` with every seed, and panics at the first failure. The seed also determines the number of CPUs and of
/// Ps.
pub(crate) fn explore(program: fn(u64)) {
    explore_with(0, program);
}

/// Does what [`explore`] does, for a program that may choose up to `procs_limit` Ps.
pub(crate) fn explore_with(procs_limit: usize, program: fn(u64)) {
    explore_on(Config { procs_limit, ..Config::default() }, program);
}

/// Does what [`explore`] does. The seed determines the numbers of CPUs and Ps, and `machine` everything else.
pub(crate) fn explore_on(machine: Config, program: fn(u64)) {
    let seeds = seeds();
    let is_repeated = env::var_os("GMP_SIM_SEED").is_some() || env::var_os(IS_CHILD).is_some();
    // The test harness runs each test on a thread that has the name of the test. With only one thread, it runs all
    // tests on the main thread. The name is then unknown, so this process runs all seeds itself.
    let current = thread::current();
    let test = current.name().filter(|&name| name != "main");
    if let Some(test) = test.filter(|_| !is_repeated) {
        let mut start = seeds.start;
        while start < seeds.end {
            let end = seeds.end.min(start + SEEDS);
            run_apart(test, start..end);
            start = end;
        }
        return;
    }
    let is_ordinary = seeds == ordinary_seeds();
    for seed in seeds.chain(known(test).filter(|_| is_ordinary)) {
        let cpus = [1, 2, 3, 4, 8, 16][seed as usize % 6];
        // Some configurations have more Ps than CPUs, so that threads share CPUs.
        let processors = [cpus, cpus, 1.max(cpus / 2), 1, 2 * cpus][seed as usize / 6 % 5];
        let config = Config { cpus, processors, seed, ..machine };
        let result = match env::var_os("GMP_SIM_TRACE") {
            Some(file) => run_traced(config, program, file.into()),
            None => sim::run(config, move || program(seed)),
        };
        if let (Ok(report), true) = (&result, env::var_os("GMP_SIM_SEED").is_some()) {
            println!("seed {seed}: {} steps in {:?}", report.steps, report.elapsed);
        }
        if let Err(failure) = result {
            let command = format!("cargo test -p gmp-sched --test simulation {}", test.unwrap_or("TEST"));
            panic!(
                "{failure}\nrepeat it: GMP_SIM_SEED={seed} {command}\n\
                 see it in run.html: GMP_SIM_SEED={seed} GMP_SIM_TRACE=run {command}"
            );
        }
    }
}

/// The largest number of events of each track of a timeline. If a run has more, the last ones are kept.
const EVENTS: usize = 65_536;

/// Runs `program` and writes the timeline of the run to the files that begin with the name `file`.
fn run_traced(config: Config, program: fn(u64), file: PathBuf) -> Result<Report, Failure> {
    assert!(env::var_os("GMP_SIM_SEED").is_some(), "GMP_SIM_TRACE also needs GMP_SIM_SEED=N, and the name of one test");
    let (result, traces) = sim::run_traced(config, EVENTS, move || program(config.seed));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a folder of the repository");
    let raw = root.join(&file).with_added_extension("trace");
    fs::write(&raw, memory::image(&traces)).unwrap_or_else(|error| panic!("cannot write {}: {error}", raw.display()));
    // The crate `timeline` depends on `gmp-sched`, so this test cannot call it as a library. The test runs an example
    // of that crate instead.
    let mut convert = Command::new(env!("CARGO"));
    convert.args(["run", "--quiet", "-p", "timeline", "--example", "convert", "--"]).arg(&raw).arg(&file);
    let status = convert.current_dir(root).status().expect("cargo can be started");
    assert!(status.success(), "the trace is in {}, but this failed: {convert:?}", raw.display());
    fs::remove_file(&raw).expect("the file was made above");
    result
}

/// Random numbers of a program, generated by xorshift. This is not a generator of a crate, because its numbers must
/// stay the same: with other numbers, the seeds in [`KNOWN`] and those of earlier reports would lead to other runs.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Makes a generator, which returns the same numbers each time it is made with the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number less than `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}
