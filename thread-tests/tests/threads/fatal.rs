//! Mistakes of a program that end the process with status 2 and a message: what a commit of `park` must not do, a section
//! or a stopped world that a G leaves behind when it ends, and a deadlock, which is reported only once. Each case runs in
//! a child process of the test.

use std::env;
use std::hint::black_box;
use std::mem;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gmp_sched::goroutine::WaitReason;
use gmp_sched::native::{self, Condvar, Mutex, Native, Ticker, Timer, forbid_waits, go, sleep};
use gmp_sched::park::park;
use thread_tests::THREADS;

/// A name, a program that makes a mistake, and texts that its message must contain.
type Case = (&'static str, fn(), &'static [&'static str]);

/// This variable of a child's environment has the name of the case that the child runs.
const CASE: &str = "GMP_TEST_FATAL";

const HOUR: Duration = Duration::from_secs(3600);
const COMMIT: &str = "fatal error: the commit of a park panicked: goroutine 1 parks";
const BY_COMMIT: &str = "called by the commit of a park: only a G may do this";
const LEFT: &str = "the commit of a park left a pin, a lock or a section behind in which no G may wait";

/// Parks the main G with a commit that calls `mistake`. The commit runs on the stack of another G if a G is runnable
/// (`with_next`), and otherwise on g0.
fn commit(with_next: bool, mistake: fn()) {
    THREADS.run(1, move || {
        if with_next {
            go(|| sleep(HOUR)).detach();
        }
        park::<Native>(WaitReason::Parked, |_, _| {
            mistake();
            true
        });
    });
}

fn panics() {
    panic!("a commit that is wrong");
}

fn leaves_a_section() {
    mem::forget(forbid_waits("with a lock held"));
}

fn locks_the_thread() {
    mem::forget(native::lock_thread());
}

#[expect(unconditional_recursion, reason = "uses the stack up")]
fn overflow(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    overflow(depth + 1) + frame[black_box(3)]
}

fn overflows() {
    black_box(overflow(0));
}

const CASES: &[Case] = &[
    ("panic on a G", || commit(true, panics), &["the commit of the park of goroutine 1 panics:", COMMIT]),
    ("panic on g0", || commit(false, panics), &["the commit of the park of goroutine 1 panics:", COMMIT]),
    ("yield on a G", || commit(true, native::yield_now), &[BY_COMMIT, COMMIT]),
    ("yield on g0", || commit(false, native::yield_now), &[BY_COMMIT, COMMIT]),
    ("sleep on a G", || commit(true, || sleep(HOUR)), &[BY_COMMIT, COMMIT]),
    ("park on a G", || commit(true, || park::<Native>(WaitReason::Parked, |_, _| true)), &[BY_COMMIT, COMMIT]),
    ("spawn on a G", || commit(true, || go(|| ()).detach()), &[BY_COMMIT, COMMIT]),
    ("spawn on g0", || commit(false, || go(|| ()).detach()), &[BY_COMMIT, COMMIT]),
    ("lock of the thread on a G", || commit(true, locks_the_thread), &[BY_COMMIT, COMMIT]),
    ("section on a G", || commit(true, leaves_a_section), &[LEFT, COMMIT]),
    ("section on g0", || commit(false, leaves_a_section), &[LEFT, COMMIT]),
    ("overflow on a G", || commit(true, overflows), &["stack overflow", "in the commit of a park: goroutine 1 parks"]),
    ("overflow on g0", || commit(false, overflows), &["stack overflow", "in the commit of a park: goroutine 1 parks"]),
    ("section while another G waits for a Condvar", section_for_another_g, &[LEFT]),
    ("section of a G", || goroutine(leaves_a_section), &["with a lock held since", " has ended where it may not end"]),
    (
        "section of main",
        || THREADS.run(1, leaves_a_section),
        &["with a lock held since", "goroutine 1 has ended where"],
    ),
    (
        "stopped world of a G",
        || goroutine(|| mem::forget(native::stop_the_world())),
        &["the world is stopped, by the caller itself", " has ended where it may not end"],
    ),
    (
        "stopped world of main",
        || THREADS.run(2, || mem::forget(native::stop_the_world())),
        &["goroutine 1 has ended where"],
    ),
    (
        "section and goexit",
        || {
            goroutine(|| {
                leaves_a_section();
                native::goexit()
            });
        },
        &[" has ended where it may not end"],
    ),
    (
        "section and a panic",
        || {
            goroutine(|| {
                leaves_a_section();
                panic!("on purpose")
            });
        },
        &[" has ended where it may not end"],
    ),
    (
        "section in the drop of a result",
        || {
            THREADS.run(1, || {
                go(|| Leaves).detach();
                sleep(HOUR);
            });
        },
        &[" has ended where it may not end"],
    ),
];

/// Runs `body` in a G that is not main.
fn goroutine(body: fn()) {
    THREADS.run(2, move || {
        let _ = go(body).join();
        // The end of the other G ends the process.
        sleep(HOUR);
    });
}

/// A value whose drop leaves a section behind.
struct Leaves;

impl Drop for Leaves {
    fn drop(&mut self) {
        leaves_a_section();
    }
}

/// The G that is notified is next, so the section that the commit leaves would count for that G. It would panic while it
/// locks the mutex again, and its guard would unlock a mutex that another G has locked.
fn section_for_another_g() {
    static LOCK: Mutex<u8> = Mutex::new(0);
    static CHANGED: Condvar = Condvar::new();
    static WAITS: AtomicBool = AtomicBool::new(false);
    THREADS.run(1, || {
        go(|| {
            let mut guard = LOCK.lock();
            WAITS.store(true, Ordering::Relaxed);
            CHANGED.wait(&mut guard);
        })
        .detach();
        while !WAITS.load(Ordering::Relaxed) {
            native::yield_now();
        }
        // The lock is free only while the other G waits.
        let held = LOCK.lock();
        assert!(CHANGED.notify_one());
        park::<Native>(WaitReason::Parked, |_, _| {
            leaves_a_section();
            true
        });
        drop(held);
    });
}

/// All Gs wait, beside timers for which nobody waits. Each M checks for a deadlock when it goes idle.
fn deadlock() {
    THREADS.run(4, || {
        let timer = Timer::new(HOUR);
        native::select! { recv(timer) => {}, timeout(Duration::from_millis(1)) => {} }
        let _unread = Ticker::new(Duration::from_millis(10));
        (0..8).for_each(|_| go(|| native::select! {}).detach());
        native::select! {}
    });
}

/// The report begins and ends with the message. Several Ms may find the deadlock, but only one of them reports it.
#[test]
fn deadlock_is_reported_once() {
    if env::var(CASE).is_ok() {
        return deadlock();
    }
    for _ in 0..20 {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "fatal::deadlock_is_reported_once", "--nocapture", "--test-threads=1"])
            .env(CASE, "deadlock")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&child.stderr);
        assert_eq!(stderr.matches("fatal error: all goroutines are asleep - deadlock!").count(), 2, "{stderr}");
        assert_eq!(child.status.code(), Some(2), "{stderr}");
    }
}

#[test]
fn mistake_ends_the_process_with_a_message_and_status_2() {
    if let Ok(name) = env::var(CASE) {
        let (_, body, _) = CASES.iter().find(|(other, ..)| *other == name).expect("the parent knows the cases");
        body();
        return;
    }
    let test = "fatal::mistake_ends_the_process_with_a_message_and_status_2";
    for (name, _, texts) in CASES {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CASE, name)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&child.stderr);
        for text in *texts {
            assert!(stderr.contains(text), "{name}: `{text}` is not in:\n{stderr}");
        }
        assert_eq!(child.status.code(), Some(2), "{name}: {}\n{stderr}", child.status);
    }
}
