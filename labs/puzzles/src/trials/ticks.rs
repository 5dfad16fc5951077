//! The tests of a preemption that a student has written: sequences of steps.

use crate::ticks::Step;

// ANCHOR: trials
use Step::{Event, HalfSlice, Moment, Ready, Stop, Wait};

/// Each flaw of a preemption (`ticks.rs`) shows in one of these sequences. None has more than nine steps.
pub const TRIALS: &[&[Step]] = &[
    // Two Gs compute. The timer sees the slice first, and ends it the next time.
    &[Ready, Ready, HalfSlice, HalfSlice, HalfSlice, HalfSlice],
    // Whose slice is that of a G from runnext?
    &[Ready, Ready, Ready, HalfSlice, HalfSlice, Wait, HalfSlice, HalfSlice],
    // The running one has a right to go on, until a timer fires.
    &[Ready, Event, Event, Moment],
    &[Ready, Ready, Event, Wait],
    // The slice of others is over while an urgent G runs.
    &[Ready, Ready, HalfSlice, HalfSlice, HalfSlice, Event, HalfSlice, Wait],
    &[Ready, Stop],
];
// ANCHOR_END: trials
