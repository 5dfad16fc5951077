//! The workloads that run both in the kernel (`programs/src/bin/bench/main.rs`) and on threads of the host
//! (`benches/workloads.rs`), and what these two programs print. Each of them includes this file as a module. Most
//! workloads are also in a Go program (`boot/peers/go/main.go`), with which the results are compared. There they have
//! the same names and, except for `PARKED`, the same parameters.
//!
//! The including program provides the module `platform`: the library's types for one platform, and
//!
//! - `println`, `now_ns`, `procs`: the console, the clock in nanoseconds, and the current number of Ps;
//! - `REPETITIONS`: the factor of the numbers of repetitions, which is five times the `scale` of the Go program;
//! - `place`: the M and the CPU on which the caller runs;
//! - `memory_in_use`: the memory in use in bytes, if it is known;
//! - `PARKED`: the number of Gs with which the memory of a waiting G is measured, 100,000 in the Go program.
//!
//! Each workload is called by a G.

mod arguments;
mod channels;
pub(crate) mod late;
pub(crate) mod locks;
mod parallel;
pub(crate) mod report;
mod skynet;
mod spawning;
mod threads;

pub(crate) use arguments::Arguments;

use crate::platform;
use channels::{many_to_many, ping_pong, ring, select_of_four, skynet};
use late::{hogs, ping_pong_beside_hogs, sleepers};
use locks::{mutex_8g, semaphore_8g, uncontended};
use parallel::{fib_parallel, global_queue, split_primes};
use spawning::{spawn_batch, spawn_join, spawn_wait, yields};
use threads::{parked, ping_pong_places, thread_spawn};

/// A workload with its name.
pub(crate) type Workload = (&'static str, fn());

/// The workloads that run first.
const FIRST: &[Workload] = &[
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
    ("fib27_cut12", fib_parallel),
    ("sleep_overshoot", sleepers),
    ("hog_wakeup", hogs),
    ("pingpong_beside_hogs", ping_pong_beside_hogs),
];

/// The workloads that run last. `bytes_per_parked_g` is the very last, because it leaves the slots of many Gs on the
/// free lists.
const LAST: &[Workload] = &[
    ("global_queue", global_queue),
    ("split_primes_64g", split_primes),
    ("pingpong_one", ping_pong_places),
    ("thread_spawn", thread_spawn),
    ("bytes_per_parked_g", parked),
];

/// Returns all workloads of a program; `own` are those that only this program has.
pub(crate) fn workloads(own: &'static [Workload]) -> impl Iterator<Item = &'static Workload> + Clone {
    FIRST.iter().chain(own).chain(LAST)
}
