//! The tests of a pick and of a thief that a student has written: sequences of steps.

use crate::picks::Step;

// ANCHOR: trials
use Step::{Pick, Preempted, Ready, Urgent, Yields};

/// Each flaw of a pick or of a thief (`picks.rs`) shows in one of these sequences. None has more than nine steps.
pub const TRIALS: &[&[Step]] = &[
    // Who comes first?
    &[Yields(0), Urgent(0), Pick(0)],
    &[Yields(0), Preempted, Pick(0)],
    // What does the turn of the global queue change?
    &[Yields(0), Yields(0), Yields(0), Preempted, Pick(0), Pick(0), Pick(0)],
    &[Yields(0), Yields(0), Yields(0), Preempted, Pick(0), Pick(0), Urgent(0), Pick(0), Pick(0)],
    &[Yields(0), Yields(0), Yields(0), Pick(0), Pick(0), Pick(0)],
    // How many does a thief take?
    &[Yields(1), Yields(1), Yields(1), Pick(0)],
    // Whom does it visit, and in which round?
    &[Ready(1), Pick(0)],
    &[Ready(2), Pick(0)],
    &[Ready(1), Yields(2), Yields(2), Yields(2), Pick(0)],
];
// ANCHOR_END: trials
