//! Programs in the simulator, each run from many seeds and checked by the simulator's oracles.
//!
//! `GMP_SIM_SEED=17 cargo test -p gmp-sched --test simulation time::` repeats one seed. `explore` describes more
//! options, among them one that writes the timeline of a run.
#![cfg(not(gmp_loom))]

extern crate alloc;

/// What the module `several` needs.
use gmp_sched::sim as platform;

mod anything;
mod background;
mod cancel;
mod channels;
mod coroutine;
mod device_signals;
mod explore;
#[path = "../extent/mod.rs"]
mod extent;
mod hogs;
mod in_place;
mod locked;
mod policies;
mod preemption;
mod scheduling;
mod scope;
mod select;
mod separation;
#[path = "../shared/several.rs"]
mod several;
mod single_flight;
mod stealing;
mod sync;
mod synctest;
mod time;
mod traced;
mod unread_timers;
mod urgent;
