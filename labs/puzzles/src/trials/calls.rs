//! The tests of system calls that a student has written: sequences of steps.

use crate::calls::Step;

// ANCHOR: trials
use Step::{Block, BlockAndWork, Call, Check, CheckAndReturn, End, Return, Work};

/// Each flaw of a system call (`calls.rs`) shows in one of these sequences. None has more than seven steps.
pub const TRIALS: &[&[Step]] = &[
    // Whom does the handoff wake, and with which M? The third G waits for the P.
    &[Work, Work, Work, Block(0)],
    &[Work, Block(0)],
    &[Work, Work, BlockAndWork(0)],
    // One M is enough for two calls, one after the other.
    &[Work, Block(0), Return, Block(0)],
    // Does a call lose its P to the G that waits, and when?
    &[Work, Work, Work, Call(0), Check, Check],
    &[Work, Call(0), Check, Check],
    // The M is faster than sysmon.
    &[Work, Work, Work, Call(0), Check, CheckAndReturn, Block(0)],
    // On which P does the G go on after its call?
    &[Work, Work, Work, Block(0), Return],
    &[Work, Work, Block(1), End(0), Return],
];
// ANCHOR_END: trials
