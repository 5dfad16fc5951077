//! The workloads that run both on the machine (`programs/src/bin/bench.rs`) and on threads of the host
//! (`benches/workloads.rs`). Each of these two programs includes this file as a module. Names and parameters are those
//! of the Go program with which the results are compared.
//!
//! The including program provides two things. Its module `platform` contains the library's types for one platform, and
//! [`REPETITIONS`](crate::platform::REPETITIONS), by which the numbers of repetitions are multiplied. Its function
//! [`measure`](crate::measure) runs a closure and prints the time of one operation. Each workload is called by a G.

mod channels;
pub(crate) mod locks;
mod spawning;

use channels::{many_to_many, ping_pong, ring, select_of_four, skynet};
use locks::{mutex_8g, semaphore_8g, uncontended};
use spawning::{spawn_batch, spawn_join, spawn_wait, yields};

/// The workloads, with their names.
pub(crate) const SHARED: &[(&str, fn())] = &[
    ("yield", yields),
    ("chan_pingpong", ping_pong),
    ("spawn_join", spawn_wait),
    ("spawn_join_handle", spawn_join),
    ("spawn_batch", spawn_batch),
    ("chan_mpmc_4x4_cap128", many_to_many),
    ("select_4", select_of_four),
    ("ring_1000", ring),
    ("skynet_100k", skynet),
    ("mutex_8g", mutex_8g),
    ("uncontended", uncontended),
    ("semaphore_8g", semaphore_8g),
];
