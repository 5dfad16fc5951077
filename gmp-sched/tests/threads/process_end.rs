//! How a process on threads ends, and what it prints. Each test runs itself again as a child process, chosen by an
//! environment variable, and reads the child's output.

use std::env;
use std::hint::black_box;
use std::process::{Command, Output};
use std::time::Duration;

use crate::entered::THREADS;
use gmp_sched::native;

const IS_CHILD: &str = "GMP_IS_CHILD";

/// Runs `body` in a child process of the test named `test`; returns its output and status.
fn in_child(test: &str, body: fn()) -> Option<(Output, String)> {
    if env::var_os(IS_CHILD).is_some() {
        body();
        return None;
    }
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("process_end::{test}"), "--nocapture"])
        .env(IS_CHILD, "1")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&child.stderr).into_owned();
    Some((child, stderr))
}

#[expect(unconditional_recursion, reason = "uses the stack up")]
fn use_the_stack_up(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    use_the_stack_up(depth + 1) + frame[black_box(3)]
}

#[test]
fn stack_overflow_names_goroutine_and_stack_size() {
    let ended = in_child("stack_overflow_names_goroutine_and_stack_size", || {
        THREADS.run(2, || {
            let (go_on, is_known) = native::channel(0);
            let body = move || is_known.recv().map(|()| use_the_stack_up(0));
            let overflowing = native::Builder::new().stack_size(256 * 1024).go(body);
            eprintln!("the test expects goroutine {}", overflowing.id());
            go_on.send(()).unwrap();
            let _ = overflowing.join();
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(2), "{stderr}");
    let id = stderr.lines().find_map(|line| line.strip_prefix("the test expects goroutine ")).unwrap();
    assert!(stderr.contains(&format!("goroutine {id} exceeds its stack of 262144 bytes")), "{stderr}");
    assert!(stderr.ends_with("fatal error: stack overflow\n"), "{stderr}");
}

#[test]
fn segmentation_fault_outside_of_stacks_is_no_overflow() {
    let ended = in_child("segmentation_fault_outside_of_stacks_is_no_overflow", || {
        THREADS.run(1, || {
            // SAFETY: none: this is the intended fault. Nothing is mapped at the first page.
            unsafe { black_box(std::ptr::without_provenance_mut::<u8>(8)).write_volatile(1) }
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), None, "{stderr}");
    assert!(!stderr.contains("stack"), "{stderr}");
}

#[test]
fn others_run_after_main_exits() {
    let ended = in_child("others_run_after_main_exits", || {
        THREADS.run(2, || {
            for n in 0..4 {
                native::go(move || {
                    native::sleep(Duration::from_millis(20));
                    eprintln!("goroutine number {n} is through");
                })
                .detach();
            }
            native::goexit();
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(2), "{stderr}");
    for n in 0..4 {
        assert!(stderr.contains(&format!("goroutine number {n} is through")), "{stderr}");
    }
    assert!(stderr.contains("fatal error: no goroutines (main called runtime.Goexit) - deadlock!"), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}
