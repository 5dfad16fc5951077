//! Tests of what the platform of threads reports: exceptions of Gs, the lines of code at which Gs wait, and waits in
//! sections that forbid them.

mod exceptions;
mod places;
mod sections;
#[path = "../threads/waits.rs"]
mod waits;

use gmp_sched::native::{Threads, enter};

#[expect(unsafe_code, reason = "enters the platform")]
// SAFETY: `enter` requires that no G relies on being on the same thread before and after a call that may wait or yield.
// The Gs of the tests use thread-local variables only within single calls of the standard library. They keep no value
// that belongs to a thread, such as a guard of a lock of `std`, across a call that may wait or yield.
pub(crate) const THREADS: Threads = unsafe { enter() };
