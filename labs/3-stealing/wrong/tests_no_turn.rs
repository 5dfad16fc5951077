//! The tests are too short for a turn of the global queue, and the thieves of short rings cannot be told apart.
//! fails: finds-orders, finds-thieves

// ANCHOR: trials
use Step::{Pick, Preempted, Ready, Urgent, Yields};

/// A pick from each queue.
pub const TRIALS: &[&[Step]] = &[
    &[Yields(0), Urgent(0), Pick(0)],
    &[Yields(0), Preempted, Pick(0), Pick(0)],
    &[Ready(0), Yields(0), Pick(0), Pick(0)],
    &[Yields(1), Pick(0)],
    &[Yields(2), Pick(0)],
    &[Ready(1), Pick(0)],
];
// ANCHOR_END: trials
