//! Runs each test in the kernel as one test of `cargo test`, or as several if the test runs with several numbers of
//! CPUs. Tests that are marked as hidden are left out.
//!
//! For example, a test `heap::grows` for 1, 2 and 8 CPUs becomes the three tests `smp1::heap::grows`,
//! `smp2::heap::grows` and `smp8::heap::grows`. All of them run if `GMP_TESTS` is `all`, or if there is a filter.
//! Otherwise, only the one with the most CPUs runs: `smp8::heap::grows`. `--exact`, `--ignored` and `--list` work
//! as usual. `--nocapture` shows the consoles while the tests run.

use std::env;
use std::process::ExitCode;
use std::sync::Arc;

use boot::qemu::Firmware;
use libtest_mimic::{Arguments, Trial};
use qemu_tests::{Guest, Runner, Test};

/// A test that keeps the CPUs of the host busy for at least five seconds with each of its numbers of CPUs. It is
/// ignored unless `GMP_TESTS` is `all`.
const LONG: &str = "soak::a_while";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // At most two machines run at a time, so more threads would only wait.
    arguments.test_threads = Some(arguments.test_threads.unwrap_or(2).min(2));
    let (guest, tests) = match Guest::prepare() {
        Ok(prepared) => prepared,
        // Without the list of tests, the run would have no tests and would pass. So it must fail here.
        Err(error) => {
            eprintln!("error: the tests inside the machine cannot run: {error}");
            return ExitCode::FAILURE;
        }
    };
    let runner = Arc::new(Runner::new(guest, arguments.nocapture));
    let is_all = env::var("GMP_TESTS").is_ok_and(|which| which == "all");
    let conclusion = libtest_mimic::run(&arguments, trials(&tests, &runner, is_all, arguments.filter.is_some()));
    // Dropping the runner ends the machines that still wait for tests.
    drop(runner);
    conclusion.exit_code()
}

/// Returns a trial for each test that is not hidden and each of its numbers of CPUs, or only the largest number if neither
/// `is_all` nor `has_filter` is set. Tests that can share a machine follow each other.
fn trials(tests: &[Test], runner: &Arc<Runner>, is_all: bool, has_filter: bool) -> Vec<Trial> {
    let mut planned: Vec<(u32, &Test)> = tests
        .iter()
        .filter(|test| !test.hidden)
        .flat_map(|test| test.cpus.iter().map(move |&cpus| (cpus, test)))
        .filter(|&(cpus, test)| is_all || has_filter || test.cpus.iter().max() == Some(&cpus))
        .collect();
    planned.sort_by_key(|&(cpus, test)| (cpus, test.isolated, test.icount, test.memory, test.options.clone()));
    let trial = |(cpus, test): (u32, &Test)| {
        let ignored = test.ignored || (test.name == LONG && !is_all);
        let (runner, test) = (Arc::clone(runner), test.clone());
        let name = test.trial_name(cpus);
        Trial::test(name, move || runner.run(&test, Firmware::Pvh, cpus).map_err(Into::into)).with_ignored_flag(ignored)
    };
    planned.into_iter().map(trial).collect()
}
