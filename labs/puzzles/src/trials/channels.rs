//! The tests of a channel that a student has written: sequences of steps.

use crate::channels::Step;

// ANCHOR: trials
use Step::{Close, Recv, Send};

/// Each flaw of a channel (`channels.rs`) shows in one of these sequences. None has more than six steps. The number is
/// the capacity of the channel, from 0 to 2.
pub const TRIALS: &[(usize, &[Step])] = &[
    // Whose value comes next?
    (2, &[Send, Send, Send, Recv]),
    (0, &[Send, Send, Recv]),
    (0, &[Recv, Recv, Send]),
    (1, &[Recv, Send]),
    // What does a close leave behind?
    (1, &[Send, Send, Close, Recv]),
    (1, &[Close, Send]),
];
// ANCHOR_END: trials
