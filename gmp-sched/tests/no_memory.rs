//! Spawning and contexts when an allocation fails: the operation returns an error or panics, and what it was called for
//! stays usable.
//!
//! These tests need a binary of their own, because they replace the allocator.
#![cfg(not(gmp_loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use gmp_sched::cancel::ContextError;
use gmp_sched::chan::RecvError;
use gmp_sched::native::{self, Context};
use gmp_sched::platform::OutOfResources;

use crate::entered::THREADS;

#[path = "threads/entered.rs"]
mod entered;

/// The system's allocator, except that a thread can choose one of its next allocations to fail.
struct Failing;

thread_local! {
    /// How many allocations of this thread succeed before one fails; [`NEVER`] if none fails.
    static SUCCESSES: Cell<usize> = const { Cell::new(NEVER) };
}

const NEVER: usize = usize::MAX;

#[global_allocator]
static ALLOCATOR: Failing = Failing;

// SAFETY: every call is forwarded to the system's allocator, which fulfils the contract of `GlobalAlloc`, or allocates
// nothing and returns a null pointer, as the contract permits.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let left = SUCCESSES.get();
        if left != NEVER {
            SUCCESSES.set(left.wrapping_sub(1));
        }
        if left == 0 {
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

/// Calls `operation` with its first allocation failing, then with its second, and so on, until no allocation fails.
/// Returns the result and the number of calls that failed.
fn with_each_failure<T>(operation: impl Fn() -> Result<T, OutOfResources>) -> (T, usize) {
    let mut failures = 0;
    loop {
        SUCCESSES.set(failures);
        let result = operation();
        let has_failed = SUCCESSES.replace(NEVER) == NEVER;
        match result {
            Ok(result) => {
                assert!(!has_failed, "succeeded although allocation {failures} failed");
                return (result, failures);
            }
            Err(OutOfResources) => failures += 1,
        }
    }
}

#[test]
fn channel_of_a_context_is_an_error_without_memory() {
    THREADS.run(1, || {
        let (context, cancel) = Context::background().with_cancel();
        let (done, failures) = with_each_failure(|| context.try_done());
        assert!(failures >= 2, "the channel and the hook that closes it");
        cancel.cancel();
        assert_eq!(done.recv(), Err(RecvError));
    });
}

#[test]
fn function_of_a_context_is_an_error_without_memory() {
    THREADS.run(1, || {
        let (context, cancel) = Context::background().with_cancel();
        // The stack of a G and a timer are reused, so that only the memory of the hook is missing.
        assert!(context.after_func(|| ()).stop());
        let mut functions = Vec::with_capacity(8);
        let (sender, receiver) = native::channel(8);
        let mut failures = 0;
        for number in 0..8 {
            let (function, failed) = with_each_failure(|| {
                let sender = sender.clone();
                context.try_after_func(move || sender.send(number).unwrap())
            });
            functions.push(function);
            failures += failed;
        }
        assert!(failures > 8, "a hook for each function, and the table of hooks");
        drop(sender);
        cancel.cancel();
        assert_eq!(receiver.iter().sum::<u32>(), 28, "each function has run once");
    });
}

#[test]
fn deriving_a_context_without_memory_in_its_parent_panics_and_leaves_the_parent_usable() {
    THREADS.run(1, || {
        let (parent, cancel) = Context::background().with_cancel();
        // The first allocation is the child itself, the second one the parent's table.
        SUCCESSES.set(1);
        let derived = panic::catch_unwind(AssertUnwindSafe(|| drop(parent.with_cancel())));
        SUCCESSES.set(NEVER);
        assert!(derived.is_err());
        let (child, _cancel_child) = parent.with_cancel();
        cancel.cancel();
        assert_eq!(child.err(), Some(ContextError::Canceled));
    });
}

#[test]
fn spawn_without_memory_is_an_error_and_succeeds_later() {
    // The global queue has room for 64 Gs at first. Each later array is twice as large, so some of these Gs need a larger
    // array in addition to their slots.
    const COUNT: usize = 200;
    THREADS.run(1, || {
        let (sender, receiver) = native::channel::<()>(0);
        let (gs, failures): (Vec<_>, Vec<_>) = (0..COUNT)
            .map(|_| {
                with_each_failure(|| {
                    let receiver = receiver.clone();
                    native::try_go(move || receiver.recv())
                })
            })
            .unzip();
        assert!(
            failures.contains(&1) && failures.contains(&2),
            "a slot for each G, and for some an array of the queue"
        );
        drop(sender);
        for g in gs {
            assert_eq!(g.join().unwrap(), Err(RecvError));
        }
    });
}
