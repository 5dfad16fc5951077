//! The tests end before a slice is over.
//! fails: finds-slices, finds-displacements

// ANCHOR: trials
use Step::{Event, HalfSlice, Moment, Ready, Stop, Wait};

/// What happens in ten milliseconds.
pub const TRIALS: &[&[Step]] = &[
    &[Ready, Ready, HalfSlice, HalfSlice],
    &[Ready, Event, Event, Moment],
    &[Ready, Ready, Event, Wait],
    &[Ready, Ready, Event, HalfSlice, HalfSlice, Wait],
    &[Ready, Stop],
];
// ANCHOR_END: trials
