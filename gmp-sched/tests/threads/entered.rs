//! The platform of threads, entered once for all tests.

use gmp_sched::native::{Threads, enter};

#[expect(unsafe_code, reason = "enters the platform")]
// SAFETY: the Gs of the tests use thread-local variables only within single calls of the standard library.
pub(crate) const THREADS: Threads = unsafe { enter() };
