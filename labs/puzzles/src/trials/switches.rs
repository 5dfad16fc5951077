//! The tests of a switch that a student has written: sequences of steps.

use crate::switches::{Register, Step};

// ANCHOR: trials
use Register::{Rbp, Rbx};
use Step::{Look, Pop, Push, Set, Switch};

/// Each flaw of a switch (`switches.rs`) shows in one of these sequences. None has more than six steps.
pub const TRIALS: &[&[Step]] = &[
    // Each context has a stack of its own.
    &[Push, Switch, Push, Switch, Pop],
    // And two registers.
    &[Set(Rbx), Switch, Set(Rbx), Switch, Look(Rbx)],
    &[Set(Rbp), Switch, Set(Rbp), Switch, Look(Rbp)],
];
// ANCHOR_END: trials
