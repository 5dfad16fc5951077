//! Boots programs that are compiled for `x86_64-unknown-none`, the target that `boot` uses on hosts other than Linux on
//! x86_64. If this target is not installed, each test is reported as ignored, with the reason.
//!
//! The code of this target uses no SSE registers, and Rust's own linker links it. The tests in the kernel take minutes
//! to compile once more, so they run only with `cargo test -p qemu-tests --test bare_target -- --include-ignored`.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Arc;

use boot::build::{Options, Profile, Target, build};
use boot::program::Program;
use boot_protocol::report::Report;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// The crate of the tests in the kernel.
const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");

/// The guest tests that `tests_in_the_kernel_pass` runs. They test CPUs, clocks, memory, context switches, timer
/// interrupts and blocking calls.
const TESTS: [&str; 6] = [
    "machine::all_cpus_are_up",
    "machine::clock_is_the_same_on_all_cpus",
    "memory::allocations_of_many_gs_keep_their_contents",
    "scheduler::blocked_ms_hand_off_their_ps",
    "scheduler::hogs_are_preempted",
    "scheduler::stealing_spreads_gs_to_all_cpus",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let reason = (!is_installed()).then(|| format!("skipped: run rustup target add {}", Target::Bare.triple()));
    let reason = Arc::new(reason);
    let trial = |name: &str, run: fn() -> Result<(), Failed>| {
        let reason = Arc::clone(&reason);
        Trial::ignorable_test(name, move || match reason.as_ref() {
            Some(reason) => Ok(Completion::ignored_with(reason.clone())),
            None => run().map(|()| Completion::Completed),
        })
    };
    let trials = vec![
        trial("tests_in_the_kernel_pass", tests_in_the_kernel_pass).with_ignored_flag(true),
        trial("program_with_floating_point_numbers_runs", program_with_floating_point_numbers_runs),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Whether Rust has the standard library for the target.
fn is_installed() -> bool {
    let arguments = ["--print", "target-libdir", "--target", Target::Bare.triple()];
    let output = Command::new("rustc").args(arguments).stderr(Stdio::null()).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim_end()).is_dir())
}

/// Compiles a program for the target. Returns the path of its ELF file.
fn compile(program: &str) -> Result<PathBuf, Failed> {
    let elf =
        build(&Program::find(program.as_ref(), None)?, Options { profile: Profile::Quick, target: Target::Bare })?;
    let is_for_target = elf.iter().any(|part| part == Target::Bare.triple());
    if is_for_target { Ok(elf) } else { Err(format!("{} is for another target", elf.display()).into()) }
}

/// Runs a program with `boot`.
fn run(elf: &Path, arguments: &[&str]) -> Result<Output, Failed> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.args(["--timeout", "120", "--kernel-option=program.smp=8"]).arg(elf).args(arguments);
    Ok(command.output()?)
}

fn failed(what: impl Display, output: &Output) -> Failed {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{what}: {}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr)).into()
}

fn tests_in_the_kernel_pass() -> Result<(), Failed> {
    let output = run(&compile(GUEST)?, &TESTS)?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let has_passed = |test: &str| stdout.lines().any(|line| Report::parse(line) == Some(Report::Passed(test)));
    match TESTS.into_iter().find(|test| !has_passed(test)) {
        Some(test) => Err(failed(test, &output)),
        None if output.status.success() => Ok(()),
        None => Err(failed("all tests have passed", &output)),
    }
}

/// The program `bench` computes with floating-point numbers. For this target, the compiler emits no floating-point
/// instructions, and calls functions instead.
fn program_with_floating_point_numbers_runs() -> Result<(), Failed> {
    let output = run(&compile("bench")?, &["yield"])?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let number_before_unit =
        |line: &str| line.split_whitespace().rev().nth(1).and_then(|word| word.parse::<f64>().ok());
    let is_result = |line: &str| line.ends_with("ns/op") && number_before_unit(line).is_some_and(|number| number > 0.0);
    let has_result = stdout.lines().any(is_result);
    if output.status.success() && has_result { Ok(()) } else { Err(failed("bench", &output)) }
}
