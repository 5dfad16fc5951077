//! Runs the tests in the kernel: [`Guest`] builds the test program and asks it for a list, [`Runner`] runs one test and
//! returns the result.
//!
//! Tests that may share a boot do: a machine of their configuration waits for names on its console. A test that ends the
//! machine, or does not end, has failed, and the next test gets a new machine. `tests/machine.rs` makes each test a result
//! of `cargo test`; `tests/harness.rs` checks all this with tests that must fail.
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
