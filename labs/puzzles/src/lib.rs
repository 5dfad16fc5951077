//! The puzzles of lab 0: programs with something to find out. In each, a few Gs or functions are the cause of what one sees,
//! and an answer names them. The answer is checked by runs without one of them, in which the effect must be gone.
//!
//! And models with flaws, for the labs in which students write tests. An answer is a [trial], a short sequence of steps that
//! shows a flaw. A lab has a file with the model and its flaws, and one in [trials] with the answers.
//!
//! | lab | model | step |
//! |---|---|---|
//! | 1 | [switches] | an instruction of a context, or a switch |
//! | 2 | [rings] | an operation of the owner, or a theft |
//! | 3 | [picks] | a G that becomes runnable, or a pick |
//! | 4 | [wakes] | the next act of an M |
//! | 5 | [ticks] | an event, an interrupt, or time that passes |
//! | 6 | [calls] | a call, its end, or a check of sysmon |
//! | 7 | [channels] | an operation of a G |
//! | 8 | [signals] | the next act of the G, the device, the limit or an M |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod answers;
pub mod calls;
pub mod channels;
mod crowd;
mod dinner;
pub mod picks;
pub mod rings;
pub mod signals;
mod statistics;
pub mod switches;
pub mod ticks;
pub mod trial;
pub mod trials;
pub mod wakes;

use core::time::Duration;

pub use crowd::{ANIMALS, crowd};
pub use dinner::{PEOPLE, dinner};
pub use statistics::{FUNCTIONS, statistics};

/// How Gs spend time. The functions differ between the machine and the simulator.
#[derive(Clone, Copy, Debug)]
pub struct Acts {
    /// Computes for a time.
    pub work: fn(Duration),
    /// Blocks the M for a time, and hands its P off.
    pub block: fn(Duration),
}
