//! Builds and boots the kernel in `examples/blog_os` as a reader of the example does: with `cargo run` in that folder.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a build and a boot may take. Only a kernel that hangs takes so long.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs a program of the kernel. Returns what the program printed, and whether QEMU ended with status 0.
fn run(program: &str) -> (String, bool) {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--locked", "--bin", program]);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/blog_os"));
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_TARGET_DIR"] {
        command.env_remove(variable);
    }
    // The command gets a process group of its own, so that QEMU can be killed together with cargo.
    let child = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("cargo runs");
    let group = child.id();
    let (done, is_done) = mpsc::channel::<()>();
    let guard = thread::spawn(move || {
        if is_done.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status().expect("`kill` runs");
        }
    });
    let output = child.wait_with_output().expect("cargo ends");
    drop(done);
    guard.join().expect("the guard does not panic");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

#[track_caller]
fn assert_prints(program: &str, lines: &str) {
    let (printed, is_success) = run(program);
    assert!(is_success && printed.contains(lines), "{program} printed:\n{printed}");
}

#[test]
fn cooperative_kernel_runs_gs_until_they_wait() {
    assert_prints("cooperative", "primes: [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\ncooperative: ok\n");
}

#[test]
fn preemptive_kernel_runs_two_gs_that_never_wait() {
    assert_prints("preemptive", "main has slept\npreemptive: ok\n");
}
