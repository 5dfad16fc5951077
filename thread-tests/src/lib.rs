//! Tests of the scheduler on operating-system threads. Some of them also run in the simulator, to compare the two.
//!
//! They are not in the package `gmp-sched`, because that package's tests are optimised, for the simulator. These tests run
//! for seconds, and are compiled in a third of the time without optimisation.

use gmp_sched::native::{Threads, enter};

/// The entry to the platform of threads.
#[expect(unsafe_code, reason = "enters the platform")]
// SAFETY: `enter` requires that no G relies on being on the same thread before and after a call that may wait or yield.
// The Gs of the tests use thread-local variables only within single calls of the standard library, or while they are
// locked to a thread. They keep no value that belongs to a thread, such as a guard of a lock of `std`, across a call
// that may wait or yield.
pub const THREADS: Threads = unsafe { enter() };
