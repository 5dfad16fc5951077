//! Tests of the kernel for the host, for what `new.rs` does not compare with the machine.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::child::{Running, run};
use crate::new::{cargo, succeed};
use crate::outside::{status, text, write_crate};

/// The crate of the program that these tests run on the host.
static CRATE: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = write_crate("on-host", include_str!("on_host_program.rs"));
    succeed(&["build"], folder.path());
    folder
});

/// Returns the name of the program's file.
fn built() -> &'static str {
    LazyLock::force(&CRATE);
    concat!(env!("CARGO_TARGET_TMPDIR"), "/new/debug/on-host")
}

/// Returns a command without input, whose output goes to pipes.
fn piped(name: &str) -> Command {
    let mut command = Command::new(name);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the command that runs the program with these arguments.
fn program(arguments: &[&str]) -> Command {
    cargo(&[&["run", "--quiet", "--"], arguments].concat(), CRATE.path())
}

#[test]
fn input_that_the_program_does_not_read_waits_in_the_pipe() {
    const MORE_THAN_ANY_BUFFER: usize = 16 << 20;
    let mut command = program(&["read-one-line"]);
    command.stdin(Stdio::piped());
    let mut child = Running::start(command);
    let mut input = child.take_input();
    let written = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&written);
    // When the child has ended, nothing can read from the pipe. The write then fails, and this thread ends.
    let writer = thread::spawn(move || {
        while let Ok(count) = input.write(&[b'\n'; 4096]) {
            if counter.fetch_add(count, Ordering::Relaxed) > MORE_THAN_ANY_BUFFER {
                break;
            }
        }
    });
    // The program prints this after a second, in which it could receive much more than the test allows.
    child.read_until("has worked\n");
    let taken = written.load(Ordering::Relaxed);
    assert!(taken < 1 << 20, "{taken} bytes were taken from the pipe");
    drop(child);
    writer.join().expect("it does not panic");
}

#[test]
fn input_that_had_to_wait_arrives_completely() {
    let mut command = program(&["count-input"]);
    command.stdin(Stdio::piped());
    let mut child = Running::start(command);
    let mut input = child.take_input();
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    input.write_all(&bytes).expect("taken");
    drop(input);
    let output = child.finish();
    let sum: u64 = bytes.iter().copied().map(u64::from).sum();
    assert_eq!(text(&output.stdout), format!("1000000 bytes, sum {sum}\n"), "{}", text(&output.stderr));
    assert_eq!(status(&output), Some(0));
}

/// Runs the tests of the program whose names contain `filter`, several at a time. There must be `count`, and all of them
/// must pass.
fn pass(filter: &str, count: usize) {
    let disk = CRATE.path().join("disk");
    fs::write(&disk, [0; 512]).expect("written");
    let mut command = cargo(&["test", "--quiet", "--", "--test-threads=4", filter], CRATE.path());
    command.env("GMP_DISKS", &disk);
    let output = run(command);
    let printed = text(&output.stdout);
    let context = format!("{printed}{}", text(&output.stderr));
    assert!(printed.contains(&format!("test result: ok. {count} passed")), "{context}");
}

#[test]
fn interrupts_of_parallel_runs_are_separate() {
    pass("_run_", 3);
}

#[test]
fn operations_that_may_block_are_refused_where_the_machine_refuses_them() {
    pass("_is_refused", 46);
}

#[test]
fn isolated_panic_ends_the_program_where_it_would_end_the_machine() {
    for (place, ends_with, printed) in [
        ("user-code", 0, "Err(Panicked(Panic(\"as it should\")))\n"),
        ("guard", 2, ""),
        ("interrupt-mutex", 2, ""),
        ("system-call", 2, ""),
        // Only on the host.
        ("overflow", 2, ""),
    ] {
        let mut command = program(&["panic", place]);
        command.env("GMP_KERNEL_OPTIONS", "panic=isolate");
        let output = run(command);
        let report = text(&output.stderr);
        assert_eq!((text(&output.stdout).as_str(), status(&output)), (printed, Some(ends_with)), "{place}: {report}");
        assert!(
            report.contains(if place == "overflow" { "stack overflow" } else { "as it should" }),
            "{place}: {report}"
        );
    }
}

#[test]
fn output_that_cannot_be_written_ends_the_program() {
    // The test does not use `cargo run`, which would report the signal in its own way.
    let start = |stdout: Stdio| {
        let mut command = piped(built());
        command.arg("echo").stdin(Stdio::piped()).stdout(stdout);
        Running::start(command)
    };
    let mut closed = start(Stdio::piped());
    drop(closed.take_output());
    closed.take_input().write_all(b"a line\n").expect("taken");
    assert_eq!(closed.wait().signal(), Some(Signal::PIPE.as_raw()));

    let full = OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let mut full = start(full.into());
    full.take_input().write_all(b"a line\n").expect("taken");
    let output = full.finish();
    let report = text(&output.stderr);
    assert_eq!(status(&output), Some(74), "{report}");
    assert!(report.starts_with("cannot write to standard output: "), "{report}");
}

/// The kernel must occupy the descriptors of missing streams. Otherwise the disk would get one of them, because the disk is
/// the first file that the program opens.
#[test]
fn program_without_standard_streams_neither_reads_nor_changes_its_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    for (closed, printed) in [("<&-", "\"\"\n"), (">&-", ""), ("2>&-", "\"\"\n"), ("<&- >&- 2>&-", "")] {
        fs::write(&disk, "a line\n").expect("written");
        let mut command = piped("sh");
        command.args(["-c", &format!("exec \"$0\" streams {closed}"), built()]);
        command.env("GMP_DISKS", &disk).env("GMP_DISKS_WRITABLE", "1");
        let output = run(command);
        assert_eq!((text(&output.stdout).as_str(), status(&output)), (printed, Some(0)), "{closed}");
        assert_eq!(fs::read_to_string(&disk).expect("text"), "a line\n", "{closed}");
    }
}

#[test]
fn disk_that_is_no_file_and_option_that_is_none_are_refused() {
    let end = |variable, value| {
        let mut command = piped(built());
        command.arg("its argument").env(variable, value);
        let output = run(command);
        (status(&output), text(&output.stdout), text(&output.stderr))
    };
    for (variable, value, mistake) in [
        ("GMP_DISKS", "/", "disk `/`: not a regular file or a block device\n"),
        ("GMP_DISKS", "/dev/zero", "disk `/dev/zero`: not a regular file or a block device\n"),
        ("GMP_KERNEL_OPTIONS", "procs=2 -- streams", "kernel option --: expected the form KEY=VALUE\n"),
    ] {
        assert_eq!(end(variable, value), (Some(64), String::new(), mistake.into()), "{value}");
    }
    let printed = "what is [\"its argument\"]?\n";
    assert_eq!(end("GMP_KERNEL_OPTIONS", "\"procs=2"), (Some(0), printed.into(), String::new()));
}

#[test]
fn process_with_as_many_sockets_as_it_may_have_is_out_of_resources() {
    // A connection takes two sockets. So with one of these limits, `connect` finds no socket left. With the other limit,
    // `accept` finds none, and the connection that it did not return is still in the listener's queue.
    for files in [40, 41] {
        let mut command = piped("sh");
        command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" connect"), built()]);
        let output = run(command);
        assert_eq!(text(&output.stdout), "OutOfResources, then Ok(())\n", "{}", text(&output.stderr));
    }
}
