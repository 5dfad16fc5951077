//! The library's operations with an allocator that fails at the n-th call, for each n. See `shared/without_memory`.
//!
//! Each call is made in a process of its own, because the standard library ends the process if it has no memory. The
//! process makes the scheduler, so no slot, stack or timer is reused. If the process does not end, it checks afterwards
//! that the scheduler still works, and that no G is left.
//!
//! These tests need a binary of their own, because they replace the allocator.
#![no_std]

extern crate alloc;
extern crate std;

use alloc::format;
use alloc::string::{String, ToString};
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, Output, exit};
use std::{env, eprintln, println, thread, thread_local};

use thread_tests::THREADS;

use crate::without_memory::{OPERATIONS, Operation, Shortage, check_that_the_scheduler_works};

/// The platform under test, with the names that the shared file uses.
mod platform {
    pub(crate) use gmp_sched::native::*;

    /// Whether a G can panic without ending the program.
    pub(crate) const PANICS_UNWIND: bool = true;

    /// Calls `operation` while no M is idle. The process of an operation has one M at first.
    pub(crate) fn without_idle_machines<R>(operation: impl FnOnce() -> R) -> R {
        operation()
    }
}

#[path = "../../gmp-sched/tests/shared/without_memory/mod.rs"]
mod without_memory;

/// The system's allocator, except that chosen allocations fail.
struct Failing;

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// How many of the counted allocations succeed before one fails.
static SUCCESSES: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Whether the counted allocations after the one that fails also fail.
static LATER_FAIL: AtomicBool = AtomicBool::new(false);
/// Whether the allocations of all threads are counted during a call of [`counted`].
static ALL_THREADS: AtomicBool = AtomicBool::new(false);
static IS_COUNTING: AtomicBool = AtomicBool::new(false);
/// Whether an allocation has failed.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is in a call of [`counted`].
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Counts an allocation, and returns whether it fails.
fn fails() -> bool {
    if !IS_COUNTING.load(Ordering::Relaxed) || !IS_HERE.get() && !ALL_THREADS.load(Ordering::Relaxed) {
        return false;
    }
    let fails = match SUCCESSES.fetch_sub(1, Ordering::Relaxed) {
        0 => true,
        left if left > usize::MAX / 2 => LATER_FAIL.load(Ordering::Relaxed),
        _ => false,
    };
    HAS_FAILED.fetch_or(fails, Ordering::Relaxed);
    fails
}

// SAFETY: every call is forwarded to the system's allocator, which fulfils the contract of `GlobalAlloc`, or allocates
// nothing and returns a null pointer, as the contract permits.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return ptr::null_mut();
        }
        // SAFETY: `System.alloc` has the same contract, which our caller fulfils.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: `System.dealloc` has the same contract, which our caller fulfils: `address` came from `System.alloc`.
        unsafe { System.dealloc(address, layout) }
    }
}

/// Calls `operation`, and counts its allocations. Only these may fail.
fn counted<R>(operation: impl FnOnce() -> R) -> R {
    struct Counting;
    impl Counting {
        #[inline(never)]
        fn set(is_on: bool) {
            IS_HERE.set(is_on);
            IS_COUNTING.store(is_on, Ordering::Relaxed);
        }
    }
    impl Drop for Counting {
        fn drop(&mut self) {
            Self::set(false);
        }
    }
    Counting::set(true);
    let _counting = Counting;
    operation()
}

/// Operations that only the platform of threads has. Each of them needs a thread.
const OF_THREADS: &[(&str, Shortage, Operation)] = &[
    ("run", Shortage::OfThreads, || {
        assert_eq!(platform::blocking(|| counted(|| THREADS.run(2, || platform::go(|| 7).join()))), Ok(7));
        Ok(())
    }),
    ("blocking_recv", Shortage::OfThreads, || {
        let (sender, receiver) = platform::channel(0);
        let sending = platform::go(move || {
            // The thread probably waits by then.
            platform::sleep(Duration::from_millis(5));
            sender.send(7).is_ok()
        });
        assert_eq!(platform::blocking(|| counted(|| receiver.blocking_recv())), Ok(7));
        assert_eq!(sending.join(), Ok(true));
        Ok(())
    }),
    ("block_on outside of Gs", Shortage::OfThreads, || {
        assert_eq!(platform::blocking(|| counted(|| platform::block_on(async { 7 }))), 7);
        Ok(())
    }),
];

/// In a child process, this variable has the index of the operation, the number of allocations that succeed, and whether
/// the allocations after the one that fails also fail.
const CHILD: &str = "GMP_TEST_NO_MEMORY";

/// A child process that takes longer counts as hanging.
const LIMIT: Duration = Duration::from_secs(60);

/// What the child process does.
fn call(operation: Operation) {
    thread::spawn(|| {
        thread::sleep(LIMIT);
        eprintln!("the process hangs");
        exit(3);
    });
    THREADS.run(1, move || {
        let result = panic::catch_unwind(AssertUnwindSafe(operation));
        SUCCESSES.store(usize::MAX / 2, Ordering::Relaxed);
        LATER_FAIL.store(false, Ordering::Relaxed);
        let outcome = match result {
            Ok(Ok(())) => "success".to_string(),
            Ok(Err(error)) => format!("error: {error}"),
            Err(payload) => match payload.downcast_ref::<String>() {
                Some(message) => format!("panic: {message}"),
                None => format!("panic: {}", payload.downcast_ref::<&str>().unwrap_or(&"of another type")),
            },
        };
        check_that_the_scheduler_works();
        assert_eq!(operation(), Ok(()), "it fails when there is memory again");
        check_that_the_scheduler_works();
        while platform::num_goroutine() > 1 {
            platform::sleep(Duration::from_millis(1));
        }
        println!("{CHILD}: {}: {outcome}", HAS_FAILED.load(Ordering::Relaxed));
    });
}

/// Returns what the child process says about its operation, and whether an allocation failed. Returns the first line
/// of `std`'s message if the process has ended without memory.
fn outcome_of(child: &Output) -> Option<(bool, String)> {
    let (stdout, stderr) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    if !child.status.success() {
        let ended = stderr.lines().find(|line| line.starts_with("memory allocation of "))?;
        return (child.status.code().is_none()).then(|| (true, ended.to_string()));
    }
    let line = stdout.lines().find_map(|line| line.split_once(CHILD))?.1;
    let (has_failed, outcome) = line.strip_prefix(": ")?.split_once(": ")?;
    Some((has_failed == "true", outcome.to_string()))
}

fn operations() -> impl Iterator<Item = &'static (&'static str, Shortage, Operation)> {
    OPERATIONS.iter().chain(OF_THREADS)
}

/// Calls each operation of a kind with each of its allocations failing.
fn check(test: &str, kind: Shortage) {
    if let Ok(chosen) = env::var(CHILD) {
        let mut words = chosen.split(' ').map(|word| word.parse().unwrap());
        let mut next = || words.next().unwrap();
        let operation: usize = next();
        SUCCESSES.store(next(), Ordering::Relaxed);
        LATER_FAIL.store(next() == 1, Ordering::Relaxed);
        ALL_THREADS.store(kind == Shortage::OfThreads, Ordering::Relaxed);
        return call(operations().nth(operation).unwrap().2);
    }
    for (index, (name, ..)) in operations().enumerate().filter(|(_, (_, shortage, _))| *shortage == kind) {
        for later_fail in [0, 1] {
            let failed = (0..).take_while(|&number| {
                let child = Command::new(env::current_exe().unwrap())
                    .args(["--exact", test, "--nocapture"])
                    .env(CHILD, format!("{index} {number} {later_fail}"))
                    .env("RUST_BACKTRACE", "0")
                    .output()
                    .unwrap();
                let case = format!("{name}, allocation {number}, {later_fail}: {child:?}");
                let (has_failed, outcome) = outcome_of(&child).unwrap_or_else(|| panic!("{case}"));
                let is_allowed = match kind {
                    _ if !has_failed => outcome == "success",
                    Shortage::IsAnError => outcome == "error: out of memory or threads",
                    Shortage::Panics => outcome.contains("memory"),
                    // The allocation may be that of another thread.
                    Shortage::OfThreads => outcome.contains("memory") || outcome == "success",
                    Shortage::IsImpossible => false,
                };
                assert!(is_allowed, "{outcome}: {case}");
                has_failed
            });
            let count = failed.count();
            println!("{name}: {count} allocations");
            assert_eq!(count == 0, kind == Shortage::IsImpossible, "{name}");
        }
    }
}

#[test]
fn operations_with_an_error_return_it_if_an_allocation_fails() {
    check("operations_with_an_error_return_it_if_an_allocation_fails", Shortage::IsAnError);
}

#[test]
fn operations_that_need_a_thread_return_an_error_or_end_the_process() {
    check("operations_that_need_a_thread_return_an_error_or_end_the_process", Shortage::OfThreads);
}

#[test]
fn operations_without_an_error_panic_or_end_the_process_if_an_allocation_fails() {
    check("operations_without_an_error_panic_or_end_the_process_if_an_allocation_fails", Shortage::Panics);
}

#[test]
fn operations_that_wait_allocate_nothing() {
    check("operations_that_wait_allocate_nothing", Shortage::IsImpossible);
}
