//! Tests the harness itself with guest tests that must fail. The harness must report each failure correctly, and the
//! failure must not affect later tests.

use std::process::Command;
use std::sync::LazyLock;

use boot::qemu::Firmware;
use boot::session::Ending;
use qemu_tests::{Cause, Failure, Guest, Runner, Test};

struct Prepared {
    runner: Runner,
    tests: Vec<Test>,
}

static PREPARED: LazyLock<Prepared> = LazyLock::new(|| {
    let guest = Guest::build().unwrap_or_else(|error| panic!("{error}"));
    let tests = guest.tests().unwrap_or_else(|error| panic!("{error}"));
    Prepared { runner: Runner::new(guest, false), tests }
});

fn test(function: &str) -> &'static Test {
    let name = format!("failing::{function}");
    PREPARED.tests.iter().find(|test| test.name == name).expect("there is such a test")
}

/// Runs a test that must fail, and then `failing::passes`, which must pass. Both run on 8 CPUs. If the first test may
/// share a boot, the machines have the same configuration. Returns the failure.
fn failure_of(function: &str) -> Failure {
    let failure = PREPARED.runner.run(test(function), Firmware::Pvh, 8).expect_err("it must fail");
    if let Err(failure) = PREPARED.runner.run(test("passes"), Firmware::Pvh, 8) {
        panic!("the test after it failed: {failure}");
    }
    *failure
}

#[test]
fn passing_test_is_reported_as_passed() {
    for cpus in [1, 8] {
        PREPARED.runner.run(test("passes"), Firmware::Pvh, cpus).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn returned_error_is_reported_with_its_text() {
    let failure = failure_of("returns_an_error");
    assert_eq!(failure.cause, Cause::ReturnedError);
    let printed = failure.console.find("about to return an error").expect("what it printed");
    let error = failure.console.find("error: it was meant to fail").expect("the error");
    assert!(printed < error);
}

#[test]
fn panic_is_reported_with_its_location() {
    let failure = failure_of("panics");
    assert_eq!(failure.cause, Cause::MachineEnded(Ending::Status(2)));
    for text in ["it was meant to panic", "panics (qemu-tests/guest/src/failing.rs:"] {
        assert!(failure.console.contains(text), "{failure}");
    }
}

#[test]
fn exception_is_reported_with_its_location() {
    let failure = failure_of("divides_by_zero");
    assert_eq!(failure.cause, Cause::MachineEnded(Ending::Status(2)));
    assert!(failure.console.contains("divide_error (qemu-tests/guest/src/provoke.rs:"), "{failure}");
}

#[test]
fn a_triple_fault_is_told_apart() {
    assert_eq!(failure_of("resets_the_machine").cause, Cause::MachineEnded(Ending::Reset));
}

#[test]
fn hang_is_reported_with_where_the_cpus_are() {
    let failure = failure_of("hangs");
    assert_eq!(failure.cause, Cause::TimedOut(2));
    for text in ["about to hang", "(qemu-tests/guest/src/failing.rs:"] {
        assert!(failure.console.contains(text), "{failure}");
    }
}

#[test]
fn end_of_the_machine_is_a_failure() {
    assert_eq!(failure_of("ends_the_machine_with_status_0").cause, Cause::MachineEnded(Ending::Status(0)));
}

#[test]
fn a_promised_end_must_come() {
    assert_eq!(failure_of("does_not_end_with_the_status_it_promises").cause, Cause::MachineGoesOn);
}

#[test]
fn a_promised_text_must_come() {
    let failure = failure_of("does_not_print_the_text_it_promises");
    assert_eq!(failure.cause, Cause::DidNotPrint("never printed".to_owned()));
}

#[test]
fn missing_test_is_a_failure() {
    let gone = Test { name: "failing::gone".to_owned(), ..test("passes").clone() };
    let failure = PREPARED.runner.run(&gone, Firmware::Pvh, 8).expect_err("there is none");
    assert!(matches!(failure.cause, Cause::NoMachine(_)), "{failure}");
}

#[test]
fn machine_that_cannot_be_started_is_a_failure() {
    let test = Test { memory: 1, options: vec!["x".repeat(5000)], ..test("passes").clone() };
    let failure = PREPARED.runner.run(&test, Firmware::Pvh, 1).expect_err("the command line is too long");
    assert!(matches!(failure.cause, Cause::NoMachine(_)), "{failure}");
}

#[test]
fn failure_shows_the_command_that_repeats_it() {
    let failure = failure_of("returns_an_error");
    let start = "cargo run -- --release '--smp=8' '--memory=1024' '--kernel-option=program.smp=8' qemu-tests/guest ";
    assert_eq!(failure.command, format!("{start}failing::returns_an_error"));
    assert!(failure.to_string().contains(&failure.command));
    if let Some((names, command)) = failure.before {
        assert_eq!(command, format!("{start}{} failing::returns_an_error", names.join(" ")));
    }
}

/// The message of the panic contains the time, which is the number of executed instructions, and a random number. The
/// command that the failure shows must print the same message.
#[test]
fn command_repeats_a_test_with_counted_instructions_to_the_byte() {
    let failure = failure_of("panics_after_counted_instructions");
    assert_eq!(failure.cause, Cause::MachineEnded(Ending::Status(2)));
    assert!(failure.is_exact && failure.before.is_none(), "{failure}");
    assert!(failure.to_string().contains("to repeat it, to the byte, with --gdb up to the first stop:"), "{failure}");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let arguments = failure.command.strip_prefix("cargo run --").expect("it runs the command `boot`");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("\"$0\"{arguments}"), env!("CARGO_BIN_EXE_boot-for-tests")]);
    let output = shell.current_dir(root).output().expect("a shell");
    let repeated = String::from_utf8_lossy(&output.stderr);
    let panic_of = |text: &str| text.lines().find(|line| line.contains("it was meant to panic at ")).map(str::to_owned);
    assert!(panic_of(&failure.console).is_some(), "{failure}");
    assert_eq!(panic_of(&failure.console), panic_of(&repeated), "{repeated}");
}

#[test]
fn hidden_and_ignored_tests_are_marked() {
    assert!(test("passes").hidden);
    assert!(test("is_ignored").ignored);
    assert!(PREPARED.tests.iter().all(|test| test.hidden || !test.name.starts_with("failing::")));
}
