//! Tests with an unoptimised kernel: a guest test that depends on how much stack the kernel uses; a check that only
//! this kernel makes; allocations that fail, which only this kernel allows; a program that reads a disk; and a program
//! whose mistakes only an unoptimised build detects.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use boot::build::{Options, Profile, build};
use boot::program::Program;
use sha2::{Digest as _, Sha256};

/// The ELF file of the tests in the kernel. It is built once, and `boot` gets its path. If `boot` got the path of the
/// crate, it would ask cargo each time whether the file is up to date.
static GUEST: LazyLock<PathBuf> = LazyLock::new(|| {
    let guest = Program::find(concat!(env!("CARGO_MANIFEST_DIR"), "/guest").as_ref(), None).expect("a crate");
    build(&guest, Options { profile: Profile::Debug, ..Options::default() }).expect("it compiles")
});

fn guest() -> &'static str {
    GUEST.to_str().expect("a path in UTF-8")
}

/// Returns the command that runs `boot` with these arguments.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.args(["--timeout", "300"]).args(arguments);
    command
}

/// Runs `boot` with these arguments.
fn boot(arguments: &[&str]) -> Output {
    command(arguments).output().expect("boot runs")
}

fn run(cpus: u32, test: &str) -> String {
    let output = boot(&["--smp", &cpus.to_string(), guest(), test]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn preemption_stays_within_its_reserve_on_one_cpu() {
    println!("{}", run(1, "preemption::reserve::preemption_stays_within_its_reserve"));
}

#[test]
fn preemption_stays_within_its_reserve_on_two_cpus() {
    println!("{}", run(2, "preemption::reserve::preemption_stays_within_its_reserve"));
}

/// Handlers must not take a lock of the scheduler, and neither must code that holds an `InterruptMutex`. Only a debug
/// build checks this.
#[test]
fn locks_of_the_scheduler_are_refused_where_they_are_forbidden() {
    for (test, context, status) in [
        ("in_a_handler", "in the handler of an interrupt or exception", 101),
        ("in_an_nmi", "in the handler of a non-maskable interrupt", 101),
        ("under_an_interrupt_mutex", "with an `InterruptMutex` held since qemu-tests/guest/src/contexts.rs:", 2),
    ] {
        let output = boot(&["--smp=1", guest(), &format!("contexts::scheduler_locks::{test}")]);
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(report.contains(&format!("a lock of the scheduler is taken {context}")), "{test}: {report}");
        assert_eq!(output.status.code(), Some(status), "{test}: {report}");
    }
}

/// Each operation is called with each of its allocations failing. See `guest/src/without_memory.rs`.
fn check_without_memory(cpus: &str) {
    let disk = tempfile::NamedTempFile::new().expect("a file");
    disk.as_file().set_len(1 << 20).expect("room for a disk");
    let disk = disk.path().to_str().expect("a path in UTF-8");
    let options = ["--icount", "--smp", cpus, "--disk", disk, "--disk-rw", "--kernel-option", "panic=isolate"];
    let mut command = command(&options);
    // With counted instructions, the frames of a network must be recorded.
    let recording = tempfile::NamedTempFile::new().expect("a file");
    command.args(["--net=user", "--record-input"]).arg(recording.path());
    command.args([guest(), "without_memory::each_allocation_fails_once"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("boot runs");
    // The test reads a line in two modes: either one allocation fails, or all later ones fail, too. In each mode it
    // tries again until a read succeeds. A read that fails leaves its line to the next read, so two lines are enough.
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all("a line of input\n".repeat(2).as_bytes())
        .expect("the machine reads its input");
    let output = child.wait_with_output().expect("it ends");
    let (text, report) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}\n{report}");
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("a line of ")).collect();
    assert!(lines.len() > 2 && lines.iter().all(|line| line.len() == 1021), "{lines:?}");
}

/// Runs this operation on a machine, with this allocation of the operation failing, and checks how the machine ends.
/// Returns `None` if there is no such operation, and otherwise whether there is such an allocation.
fn end_without_memory(operation: usize, allocation: usize) -> Option<bool> {
    let mut command = command(&["--smp", "1", guest(), "without_memory::one_allocation_fails"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("boot runs");
    let input = format!("{operation} {allocation}\n");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("the machine reads its input");
    let output = child.wait_with_output().expect("it ends");
    let (text, report) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{operation} {allocation}: {text}{report}");
    match output.status.code() {
        Some(0) if text.contains("no such operation") => None,
        Some(0) => Some(!text.contains("no such allocation")),
        status => {
            assert_eq!(status, Some(2), "{operation}, {allocation}: {text}\n{report}");
            assert!(report.contains("memory"), "{operation}, {allocation}: {text}\n{report}");
            Some(true)
        }
    }
}

/// Without `panic=isolate`, the program ends with the status of a panic, and the report speaks of memory.
#[test]
fn each_allocation_that_fails_in_a_call_without_errors_ends_the_program() {
    let (operations, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> Option<()> {
        loop {
            let operation = operations.fetch_add(1, Ordering::Relaxed);
            let mut allocation = 0;
            while end_without_memory(operation, allocation)? {
                allocation += 1;
            }
            failures.fetch_add(allocation, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    assert!(failures.into_inner() > 20, "few allocations failed");
}

#[test]
fn disk_is_read() {
    let disk = tempfile::NamedTempFile::new().expect("a file");
    let content = vec![7; 300_000];
    fs::write(disk.path(), &content).expect("room for a disk");
    let sum: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    let name = disk.path().to_str().expect("a path in UTF-8");
    for mode in ["sync", "async"] {
        let output = boot(&["--debug", "--disk", name, "sha256", "--mode", mode]);
        let report = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{sum}  {name}\n"), "{mode}: {report}");
        assert_eq!(output.status.code(), Some(0), "{mode}: {report}");
    }
}

#[test]
fn each_allocation_that_fails_on_one_cpu_is_an_error_or_ends_its_g() {
    check_without_memory("1");
}

#[test]
fn each_allocation_that_fails_on_two_cpus_is_an_error_or_ends_its_g() {
    check_without_memory("2");
}

/// A program whose first argument chooses the mistake that it makes.
const MISTAKEN: &str = r#"#![no_std]
#![no_main]
use kernel::prelude::*;
kernel::main!(main);
fn main(args: &[&str]) {
    match args {
        ["overflow"] => println!("{}", core::hint::black_box(255u8) + 1),
        ["interrupts"] => {
            unsafe { core::arch::asm!("cli") };
            yield_now();
        }
        _ => debug_assert!(args.is_empty(), "there are arguments"),
    }
}
"#;

#[test]
fn overflow_and_false_debug_assertions_panic_in_a_debug_build() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistaken");
    let kernel = workspace.join("kernel");
    let manifest = format!(
        "[package]\nname = \"mistaken\"\nedition = \"2024\"\n[dependencies]\nkernel = {{ path = {kernel:?} }}\n[workspace]\n"
    );
    fs::create_dir_all(own.join("src")).expect("made");
    fs::write(own.join("Cargo.toml"), manifest).expect("written");
    fs::write(own.join("src/main.rs"), MISTAKEN).expect("written");
    fs::copy(workspace.join("Cargo.lock"), own.join("Cargo.lock")).expect("copied");
    for (mistake, said) in [
        ("overflow", "panic at src/main.rs:7:40:\nattempt to add with overflow\n"),
        ("interrupts", "\na G blocks, yields or ends with interrupts turned off by unsafe code\n"),
        ("assertion", "panic at src/main.rs:12:14:\nthere are arguments\n"),
    ] {
        let output = boot(&["--debug", "--smp=1", &own.display().to_string(), mistake]);
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(report.contains(said), "{mistake}: {report}");
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{report}");
    }
}
