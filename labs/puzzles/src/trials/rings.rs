//! The tests of a run queue that a student has written: sequences of steps.

use crate::rings::Step;

// ANCHOR: trials
use Step::{DrainHalf, Pop, PushBack, PushBackAll, PushNext, Steal};

/// Each flaw of a ring (`rings.rs`) shows in one of these sequences. None has more than seven steps.
pub const TRIALS: &[&[Step]] = &[
    // Who is next?
    &[PushBack, PushBack, PushNext, PushNext, Pop, Pop],
    // When is the ring full, and what happens then?
    &[PushBackAll, PushBackAll, PushBack, Pop],
    // Which half is given away, and when?
    &[PushBackAll, DrainHalf, PushBack, DrainHalf],
    // What does a thief take, and what not?
    &[PushBackAll, Steal],
    &[PushNext, Steal],
];
// ANCHOR_END: trials
