//! The entry to the platform of threads. All tests of a binary share this one entry.

use gmp_sched::native::{Threads, enter};

#[expect(unsafe_code, reason = "enters the platform")]
// SAFETY: `enter` requires that no G keeps a reference to a thread-local variable while it may move to another thread.
// The Gs of the tests use such variables only within single calls of the standard library.
pub(crate) const THREADS: Threads = unsafe { enter() };
