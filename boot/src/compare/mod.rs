//! Compares this scheduler with others: `cargo run -- compare`.
//!
//! The schedulers that are compared are called *peers*. All peers run the same workloads, and each prints lines `bench
//! NAME procs=N VALUE UNIT`.
//!
//! 1. [`arguments`] parses the user's requests: which peers run, and in which [`Setting`](setting::Setting)s.
//! 2. [`peers`] gets the programs of the peers: it downloads Go's toolchain and a Linux, and builds the programs.
//! 3. `run` runs the peers in turn, as often as requested. [`net`] has the workloads in which a client loads the server
//!    of a peer.
//! 4. [`measurement`] parses what the peers print. [`comparison`] joins the results, computes ratios of medians, and
//!    summarises the ratios of each [`kind`] of workload.
//! 5. [`table`] and [`json`] show the comparison.
//!
//! A peer that is missing is left out, with a message, and the others are compared. A peer that fails does not run
//! again in the same setting. Its results until then are kept.

pub mod arguments;
pub mod comparison;
mod host;
pub mod json;
pub mod kind;
pub mod measurement;
pub mod net;
pub mod peers;
mod run;
pub mod setting;
pub mod table;

pub use run::run;
