//! The tests go there, and do not come back.
//! fails: finds-switches

// ANCHOR: trials
use Register::{Rbp, Rbx};
use Step::{Look, Pop, Push, Set, Switch};

/// What arrives in a new context.
pub const TRIALS: &[&[Step]] =
    &[&[Set(Rbx), Set(Rbp), Switch, Look(Rbx), Look(Rbp)], &[Push, Switch, Pop], &[Switch, Push, Pop]];
// ANCHOR_END: trials
