//! The tests push and pop, and nothing else.
//! fails: finds-limits, finds-halves

// ANCHOR: trials
use Step::{Pop, PushBack, PushNext};

/// Two elements, and two that go to `runnext`.
pub const TRIALS: &[&[Step]] = &[&[PushBack, PushBack, PushNext, PushNext, Pop, Pop]];
// ANCHOR_END: trials
