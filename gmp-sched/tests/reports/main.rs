//! Tests of what the platform of threads reports: exceptions of Gs, the lines of code at which Gs wait, and waits in
//! sections that forbid them.
#![cfg(not(gmp_loom))]

mod exceptions;
mod places;
mod sections;
#[path = "../threads/waits.rs"]
mod waits;

use gmp_sched::native::{Threads, enter};

#[expect(unsafe_code, reason = "enters the platform")]
// SAFETY: `enter` requires that no G keeps a reference to a thread-local variable while it may move to another thread.
// The Gs of the tests use such variables only within single calls of the standard library.
pub(crate) const THREADS: Threads = unsafe { enter() };
