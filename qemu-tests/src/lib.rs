//! Runs the tests in the kernel. [`Guest`] builds the test program and asks it for a list of its tests. [`Runner`] runs
//! one test and returns the result.
//!
//! Tests that may share a boot run on one machine, which reads their names from its console. If such a test ends the
//! machine or exceeds its time limit, it has failed, and the next test gets a new machine. `tests/machine.rs` makes
//! each test in the kernel a test of `cargo test`, except the hidden ones, which other tests of this crate run.
//! `tests/harness.rs` tests the harness with guest tests that must fail.
#![deny(unsafe_code)]

mod guest;
mod outcome;
mod pool;
mod runner;
mod test;
mod transcript;

pub use guest::Guest;
pub use outcome::{Cause, Failure};
pub use runner::Runner;
pub use test::Test;
