//! The tests that a student has written, a file for each lab: short sequences of steps, for the models of this crate.

pub mod calls;
pub mod channels;
pub mod picks;
pub mod rings;
pub mod signals;
pub mod switches;
pub mod ticks;
pub mod wakes;
