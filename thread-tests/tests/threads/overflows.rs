//! The reports of stack overflows. Each test runs itself as a child process. An environment variable names the case to
//! the child.

use std::env;
use std::hint::black_box;
use std::process::{Command, ExitStatus};

use gmp_sched::goroutine::Status;
use gmp_sched::native;
use thread_tests::THREADS;

const CASE: &str = "GMP_CASE";

/// In the parent, runs the test named `test` in a child process with the case `case`. Returns how the child has ended
/// and its text on standard error.
fn child(test: &str, case: &str) -> (ExitStatus, String) {
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("overflows::{test}"), "--nocapture"])
        .envs([(CASE, case), ("RUST_BACKTRACE", "1")])
        .output()
        .unwrap();
    (child.status, String::from_utf8_lossy(&child.stderr).into_owned())
}

/// In the child, ends the process if it hangs.
fn watch() {
    // SAFETY: `alarm` only makes the system send a signal later, whose default action ends the process.
    unsafe { libc::alarm(600) };
}

/// Calls itself until no more than `left` bytes of the stack are left above `bottom`, and panics.
fn panic_above(bottom: usize, left: usize) {
    let frame = black_box([0u8; 64]);
    let here = frame.as_ptr().addr();
    if here > bottom + left {
        panic_above(bottom, left);
        black_box(frame);
    } else {
        panic!("little stack is left");
    }
}

/// While a panic prints its backtrace, the standard library holds a lock. If the stack overflows there, the report must
/// not wait for that lock.
#[test]
fn overflow_by_the_message_of_a_panic_is_reported() {
    if let Ok(left) = env::var(CASE) {
        watch();
        return THREADS.run_with(1, move |scheduler| {
            let panics = native::go(move || {
                let me = scheduler.goroutines().find(|goroutine| goroutine.status() == Status::Running).unwrap();
                panic_above(me.stack().start, left.parse().unwrap());
            });
            assert!(panics.join().is_err());
        });
    }
    let mut overflows = 0;
    for left in (0..=16 * 1024).step_by(1024) {
        let (status, stderr) = child("overflow_by_the_message_of_a_panic_is_reported", &left.to_string());
        if status.code() == Some(0) {
            assert!(stderr.contains("little stack is left") && !stderr.contains("exceeds"), "{left}: {stderr}");
            continue;
        }
        overflows += 1;
        assert_eq!(status.code(), Some(2), "{left}: {stderr}");
        assert!(stderr.ends_with("\nfatal error: stack overflow\n"), "{left}: {stderr}");
        let report = stderr.split_once(" exceeds its 512 KiB stack 0x").expect(&stderr).1;
        let calls = report.split_once(" [running]:\n").expect(&stderr).1;
        // If `std` cannot look up the names, because the G holds its lock, the addresses are shown.
        let has_names = calls.starts_with("   0: ") && calls.contains("::panic_above\n");
        let has_addresses = calls.starts_with("  at 0x") && calls.contains(" of the program\n");
        assert!(has_names || has_addresses, "{left}: {stderr}");
        assert!(calls.lines().count() < 100, "{left}: {stderr}");
    }
    assert!(overflows >= 4, "{overflows}");
}

#[expect(unconditional_recursion, reason = "uses the stack up")]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 8]);
    recurse(depth + 1) + frame[black_box(3)]
}

#[inline(never)]
fn ping(depth: u64) -> u64 {
    let frame = black_box([depth; 20]);
    pong(depth + 1) + frame[black_box(3)]
}

#[inline(never)]
fn pong(depth: u64) -> u64 {
    let frame = black_box([depth; 30]);
    ping(depth + 1) + frame[black_box(3)]
}

#[test]
fn infinite_recursion_names_the_functions_that_repeat() {
    if let Ok(case) = env::var(CASE) {
        watch();
        let recursion = if case == "one" { recurse } else { ping };
        return THREADS.run(1, move || drop(native::go(move || recursion(0)).join()));
    }
    for (case, functions, repeat) in [
        ("one", &["overflows::recurse"][..], "... this call occurs "),
        ("two", &["overflows::ping", "overflows::pong"], "... these 2 calls occur "),
    ] {
        let (status, stderr) = child("infinite_recursion_names_the_functions_that_repeat", case);
        assert_eq!(status.code(), Some(2), "{case}: {stderr}");
        let (report, after) = stderr.split_once(repeat).expect(&stderr);
        assert!(after.contains(" times in succession ...\n"), "{case}: {stderr}");
        for function in functions {
            assert!(report.contains(function), "{case}, {function}: {stderr}");
        }
        let calls = stderr.split_once(" [running]:\n").expect(&stderr).1;
        assert!(!calls.contains("gmp_sched::") && calls.lines().count() < 20, "{case}: {stderr}");
        assert!(stderr.ends_with("\nfatal error: stack overflow\n"), "{case}: {stderr}");
    }
}
