//! The puzzles of lab 0: programs with something to find out. In each, a few Gs are the cause of what one sees. An
//! answer names them. It is checked by a run without them, in which the effect must be gone. And wrong [rings] and [channels],
//! for labs 2 and 7: an answer is a test that finds what is wrong with them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod answers;
pub mod channel_trials;
pub mod channels;
mod crowd;
mod dinner;
pub mod rings;
mod statistics;
pub mod trials;

use core::time::Duration;

pub use crowd::{ANIMALS, crowd};
pub use dinner::{PEOPLE, dinner};
pub use statistics::{FUNCTIONS, statistics};

/// How Gs use time, on the machine and in the simulator.
#[derive(Clone, Copy, Debug)]
pub struct Acts {
    /// Computes for a time.
    pub work: fn(Duration),
    /// Blocks the M for a time, and hands its P off.
    pub block: fn(Duration),
}
