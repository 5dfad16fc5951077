//! How a process that runs a scheduler on threads ends, and what it prints. Each test runs itself as a child process
//! and reads the child's output. The child recognises its role by an environment variable.

use std::backtrace::Backtrace;
use std::env;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::ToSocketAddrs;
use std::panic;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use gmp_sched::native;
use thread_tests::THREADS;

const IS_CHILD: &str = "GMP_IS_CHILD";

/// In the parent, runs the test named `test` in a child process and returns the child's output and its text on standard
/// error. In the child, calls `body` and returns `None`.
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

/// The test harness captures what a test prints, and prints it only if the test fails. A thread of the standard library
/// passes this on to the threads that it makes.
#[test]
fn test_harness_captures_what_gs_print() {
    if env::var_os(IS_CHILD).is_some() {
        THREADS.run(2, || {
            let gs: Vec<_> = (0..4).map(|n| native::go(move || println!("captured from G {n}"))).collect();
            gs.into_iter().for_each(|g| g.join().unwrap());
        });
        assert!(env::var_os("GMP_CHILD_FAILS").is_none(), "the test is to fail");
        return;
    }
    let printed = |fails: bool| {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "process_end::test_harness_captures_what_gs_print"]).env(IS_CHILD, "1");
        child.env_remove("RUST_TEST_NOCAPTURE");
        if fails {
            child.env("GMP_CHILD_FAILS", "1");
        }
        let child = child.output().unwrap();
        assert_eq!(child.status.success(), !fails);
        String::from_utf8(child.stdout).unwrap().matches("captured from G").count()
    };
    assert_eq!((printed(false), printed(true)), (0, 4));
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
            let overflowing = native::Builder::new().name("diver").stack_size(128 * 1024).go(body);
            eprintln!("the test expects goroutine {}", overflowing.id());
            go_on.send(()).unwrap();
            let _ = overflowing.join();
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(2), "{stderr}");
    let id = stderr.lines().find_map(|line| line.strip_prefix("the test expects goroutine ")).unwrap();
    assert!(stderr.contains(&format!("goroutine {id} (diver) exceeds its 128 KiB stack 0x")), "{stderr}");
    assert!(stderr.contains("\n(`Builder::stack_size` chooses a larger stack)\n"), "{stderr}");
    assert!(stderr.ends_with("fatal error: stack overflow\n"), "{stderr}");
}

/// A function whose frame contains 1 MiB of local variables.
#[inline(never)]
fn use_a_huge_frame(n: u8) {
    black_box(&[n; 1 << 20]);
}

#[test]
fn stack_overflow_by_one_huge_frame_is_reported_as_such() {
    let ended = in_child("stack_overflow_by_one_huge_frame_is_reported_as_such", || {
        THREADS.run(1, || {
            assert!(native::Builder::new().stack_size(2 << 20).go(|| use_a_huge_frame(1)).join().is_ok());
            let _ = native::go(|| use_a_huge_frame(2)).join();
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(2), "{stderr}");
    for part in [
        "exceeds its 512 KiB stack",
        " by one huge frame: a function has 1,02",
        "`Builder::stack_size`",
        "a `Box`",
        "[running]:\n",
        "use_a_huge_frame\n",
        "process_end.rs:",
    ] {
        assert!(stderr.contains(part), "{part} is not in {stderr}");
    }
    assert!(stderr.ends_with("fatal error: stack overflow\n"), "{stderr}");
}

#[test]
fn main_goroutine_has_the_stack_size_of_its_run() {
    let ended = in_child("main_goroutine_has_the_stack_size_of_its_run", || {
        THREADS.stack_size(2 << 20).run(1, || use_a_huge_frame(1));
        eprintln!("with 2 MiB it fits");
        THREADS.run(1, || use_a_huge_frame(2));
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(2), "{stderr}");
    let (_, after) = stderr.split_once("with 2 MiB it fits\n").expect(&stderr);
    assert!(after.contains("goroutine 1 exceeds its 512 KiB stack"), "{stderr}");
    assert!(after.contains("`stack_size` of `kernel::main!` or of `native::Threads` chooses"), "{stderr}");
}

/// Code that was written for threads of the standard library must find enough stack in a G. For example, this test
/// formats a backtrace with symbols, resolves a host name through the C library, and recurses 128 levels deep
/// (serde_json's limit) with frames of more than 1 KiB.
#[test]
fn code_written_for_threads_fits_the_default_stack() {
    fn nested(levels: usize) -> usize {
        let frame = black_box([0u8; 1024]);
        if levels == 0 { frame.len() } else { 1 + nested(levels - 1) }
    }
    let ended = in_child("code_written_for_threads_fits_the_default_stack", || {
        THREADS.run(1, || {
            native::go(|| {
                assert!(Backtrace::force_capture().to_string().contains("process_end"));
                assert!(("localhost", 80).to_socket_addrs().unwrap().next().is_some());
                assert_eq!(nested(128), 128 + 1024);
            })
            .join()
            .unwrap();
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(0), "{stderr}");
}

#[test]
fn panic_message_names_the_goroutine() {
    let ended = in_child("panic_message_names_the_goroutine", || {
        THREADS.run(1, || {
            let worker = native::Builder::new().name("worker").go(|| panic!("no more paper"));
            eprintln!("the test expects goroutine {}", worker.id());
            assert!(worker.join().is_err());
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(0), "{stderr}");
    let id = stderr.lines().find_map(|line| line.strip_prefix("the test expects goroutine ")).unwrap();
    let (before, message) = stderr.split_once(&format!("goroutine {id} (worker) panics:\n")).expect(&stderr);
    assert!(!before.contains("panicked at") && message.contains("no more paper"), "{stderr}");
}

#[cfg(feature = "extras")]
#[inline(never)]
fn run_out_of_paper() {
    panic!("no more paper");
}

#[cfg(feature = "extras")]
#[test]
fn backtrace_of_a_panic_shows_only_the_calls_of_the_program() {
    let name = "backtrace_of_a_panic_shows_only_the_calls_of_the_program";
    if env::var_os(IS_CHILD).is_some() {
        return THREADS.run(1, || {
            assert!(native::go(run_out_of_paper).join().is_err());
            let group = native::ErrorGroup::<()>::new();
            let is_over = group.try_go(|| {
                assert!(panic::catch_unwind(run_out_of_paper).is_err());
                Ok(())
            });
            assert!(is_over.is_ok() && group.wait().is_ok());
            assert!(panic::catch_unwind(run_out_of_paper).is_err());
        });
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", &format!("process_end::{name}"), "--nocapture"]);
    let child = child.envs([(IS_CHILD, "1"), ("RUST_BACKTRACE", "1")]).output().unwrap();
    let stderr = String::from_utf8(child.stderr).unwrap();
    assert!(child.status.success(), "{stderr}");
    assert_eq!(stderr.matches("::run_out_of_paper\n").count(), 3, "{stderr}");
    assert!(!stderr.contains("gmp_sched::"), "{stderr}");
}

#[test]
fn panic_of_a_goroutine_is_survived_when_the_error_output_is_closed_or_full() {
    if env::var_os(IS_CHILD).is_some() {
        THREADS.run(1, || assert!(native::go(|| panic!("to nobody")).join().is_err()));
        println!("the process goes on");
        return;
    }
    let test = "process_end::panic_of_a_goroutine_is_survived_when_the_error_output_is_closed_or_full";
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let full = File::options().write(true).open("/dev/full").unwrap();
    for errors in [Stdio::from(writer), Stdio::from(full)] {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", test, "--nocapture"]).env(IS_CHILD, "1").stderr(errors);
        let child = child.output().unwrap();
        assert_eq!(child.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&child.stdout).contains("the process goes on"));
    }
}

#[test]
fn panic_hooks_of_the_program_stay_in_effect() {
    let ended = in_child("panic_hooks_of_the_program_stay_in_effect", || {
        panic::set_hook(Box::new(|info| eprintln!("the first hook: {}", info.payload_as_str().unwrap())));
        THREADS.run(1, || {
            assert!(native::go(|| panic!("one")).join().is_err());
            panic::set_hook(Box::new(|info| eprintln!("the second hook: {}", info.payload_as_str().unwrap())));
            assert!(native::go(|| panic!("two")).join().is_err());
        });
        // The program's second hook has replaced the scheduler's own hook. This second run does not install the
        // scheduler's hook again.
        THREADS.run(1, || assert!(native::go(|| panic!("three")).join().is_err()));
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(0), "{stderr}");
    let lines: Vec<_> = stderr.lines().filter(|line| line.contains("hook") || line.ends_with("panics:")).collect();
    assert!(lines[0].starts_with("goroutine "), "{stderr}");
    assert_eq!(lines[1..], ["the first hook: one", "the second hook: two", "the second hook: three"], "{stderr}");
}

/// The child prints the note while a G waits for standard input, and the parent closes standard input when it has read
/// the note.
#[test]
fn note_names_the_goroutine_that_blocks_its_thread_and_the_remedy() {
    let name = "note_names_the_goroutine_that_blocks_its_thread_and_the_remedy";
    if env::var_os(IS_CHILD).is_some() {
        // SAFETY: `alarm` only makes the system send a signal later, whose default action ends the process. It ends a
        // child that prints no note.
        unsafe { libc::alarm(600) };
        return THREADS.run(4, || {
            let is_over = Arc::new(AtomicBool::new(false));
            let seen = is_over.clone();
            // Neither of these two is noted: one computes, and the other has announced that it blocks.
            let computes = move || while !seen.load(Ordering::Relaxed) {};
            let computes = native::Builder::new().name("computes").go(computes);
            let (end, ended) = mpsc::channel::<()>();
            let announces = move || native::blocking(|| ended.recv().is_err());
            let announces = native::Builder::new().name("announces").go(announces);
            let reads = || assert_eq!(io::stdin().read(&mut [0]).unwrap(), 0);
            native::Builder::new().name("reads").go(reads).join().unwrap();
            drop(end);
            is_over.store(true, Ordering::Relaxed);
            assert!(announces.join().unwrap());
            computes.join().unwrap();
        });
    }
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("process_end::{name}"), "--nocapture"])
        .env(IS_CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let note = lines.find(|line| line.starts_with("note: ")).expect("a note");
    assert!(note.starts_with("note: goroutine ") && note.contains(" (reads) has blocked its thread"), "{note}");
    assert!(note.contains("`native::blocking("), "{note}");
    drop(child.stdin.take());
    assert_eq!(lines.filter(|line| line.starts_with("note: ")).count(), 0);
    assert!(child.wait().unwrap().success());
}

/// Returns the number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn idle_threads_end_and_new_ones_are_made_again() {
    let ended = in_child("idle_threads_end_and_new_ones_are_made_again", || {
        native::set_idle_limit(Duration::from_millis(50));
        THREADS.run(2, || {
            let before = threads();
            for _ in 0..3 {
                let gate = Arc::new(Barrier::new(31));
                let calls: Vec<_> = (0..30)
                    .map(|_| {
                        let gate = gate.clone();
                        let pass_twice = move || {
                            gate.wait();
                            gate.wait();
                        };
                        native::go(move || native::blocking(pass_twice))
                    })
                    .collect();
                // The threads are counted after all 31 calls have passed the gate once, and before any call can pass
                // the gate for the second time. So no call has ended.
                let during = native::blocking(|| {
                    gate.wait();
                    let during = threads();
                    gate.wait();
                    during
                });
                assert!(during >= before + 30, "each of 31 calls has a thread");
                calls.into_iter().for_each(|call| call.join().unwrap());
                let start = Instant::now();
                // One more thread is allowed, because sysmon's thread may have begun after `before` was counted.
                while threads() > before + 1 {
                    assert!(start.elapsed() < Duration::from_secs(60), "{} threads, at first {before}", threads());
                    // The timer of this sleep wakes an idle thread, which then ends if it is not needed.
                    native::sleep(Duration::from_millis(1));
                }
            }
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(0), "{stderr}");
}

#[test]
fn blocking_calls_beyond_the_limit_wait_in_order() {
    let ended = in_child("blocking_calls_beyond_the_limit_wait_in_order", || {
        native::set_blocking_limit(1);
        // With one P, a G that has pushed its number makes its call before another G runs.
        THREADS.run(1, || {
            let (arrived, called) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
            let at_once = Arc::new(AtomicUsize::new(0));
            let calls: Vec<_> = (0..200)
                .map(|number| {
                    let (arrived, called, at_once) = (arrived.clone(), called.clone(), at_once.clone());
                    native::go(move || {
                        arrived.lock().unwrap().push(number);
                        native::blocking(|| {
                            assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0, "two calls at once");
                            called.lock().unwrap().push(number);
                            thread::sleep(Duration::from_micros(50));
                            at_once.fetch_sub(1, Ordering::SeqCst);
                        });
                    })
                })
                .collect();
            calls.into_iter().for_each(|call| call.join().unwrap());
            assert_eq!(*called.lock().unwrap(), *arrived.lock().unwrap());
            assert_eq!(called.lock().unwrap().len(), 200);
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(0), "{stderr}");
}

/// A G of a bubble waits until it may make a blocking call. This wait is not durable, because a call outside of the bubble
/// ends it. So the end of that call does not panic, and no deadlock of the bubble is reported.
#[cfg(feature = "synctest")]
#[test]
fn bubble_waits_for_a_blocking_call_outside_of_it() {
    let ended = in_child("bubble_waits_for_a_blocking_call_outside_of_it", || {
        native::set_blocking_limit(1);
        THREADS.run(2, || {
            let has_begun = Arc::new(AtomicBool::new(false));
            let begins = has_begun.clone();
            let outside = native::go(move || {
                native::blocking(|| {
                    begins.store(true, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(50));
                });
            });
            while !has_begun.load(Ordering::Relaxed) {
                native::yield_now();
            }
            assert_eq!(native::synctest::test(|| native::blocking(|| 7)), 7);
            outside.join().unwrap();
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert_eq!(child.status.code(), Some(0), "{stderr}");
}

/// A process may have been started so that it ignores a signal, for example by a shell with `trap`. If the signal is
/// then sent to the process, the signal has no effect, although the scheduler has installed a handler for it.
#[test]
fn signal_of_an_exception_that_was_ignored_and_is_sent_stays_ignored() {
    let ended = in_child("signal_of_an_exception_that_was_ignored_and_is_sent_stays_ignored", || {
        const SIGNALS: [libc::c_int; 2] = [libc::SIGFPE, libc::SIGSEGV];
        for signal in SIGNALS {
            // SAFETY: ignoring a signal runs no code.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        THREADS.run(1, || {
            for signal in SIGNALS {
                // SAFETY: `raise` only sends the signal to this thread.
                unsafe { libc::raise(signal) };
            }
            eprintln!("it goes on");
            // SAFETY: this instruction raises an exception, which ends the process.
            unsafe { core::arch::asm!("ud2") };
        });
    });
    let Some((child, stderr)) = ended else { return };
    assert!(stderr.starts_with("it goes on\n") || stderr.contains("\nit goes on\n"), "{stderr}");
    assert_eq!(child.status.code(), Some(2), "{stderr}");
}
