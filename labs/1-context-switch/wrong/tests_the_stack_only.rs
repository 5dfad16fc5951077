//! The tests look at the stack only.
//! fails: finds-switches, finds-starts

// ANCHOR: trials
use Step::{Pop, Push, Switch};

/// There and back.
pub const TRIALS: &[&[Step]] = &[&[Switch, Switch], &[Push, Switch, Push, Switch, Pop]];
// ANCHOR_END: trials
