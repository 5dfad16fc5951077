//! In the tests nothing is urgent.
//! fails: finds-displacements

// ANCHOR: trials
use Step::{HalfSlice, Ready, Stop, Wait};

/// Gs that compute.
pub const TRIALS: &[&[Step]] = &[
    &[Ready, Ready, HalfSlice, HalfSlice, HalfSlice, HalfSlice],
    &[Ready, Ready, Ready, HalfSlice, HalfSlice, Wait, HalfSlice, HalfSlice],
    &[Ready, Stop],
];
// ANCHOR_END: trials
