//! The tests use one P, so nobody can steal.
//! fails: finds-thieves

// ANCHOR: trials
use Step::{Pick, Preempted, Urgent, Yields};

/// What one P picks.
pub const TRIALS: &[&[Step]] = &[
    &[Yields(0), Urgent(0), Pick(0)],
    &[Yields(0), Preempted, Pick(0)],
    &[Yields(0), Yields(0), Yields(0), Preempted, Pick(0), Pick(0), Pick(0)],
    &[Yields(0), Yields(0), Yields(0), Preempted, Pick(0), Pick(0), Urgent(0), Pick(0), Pick(0)],
    &[Yields(0), Yields(0), Yields(0), Pick(0), Pick(0), Pick(0)],
];
// ANCHOR_END: trials
