//! The tests send and receive, and never close.
//! fails: finds-closes

// ANCHOR: trials
use Step::{Recv, Send};

/// The capacities and the steps.
pub const TRIALS: &[(usize, &[Step])] = &[
    (2, &[Send, Send, Send, Recv]),
    (0, &[Send, Send, Recv]),
    (0, &[Recv, Recv, Send]),
    (1, &[Recv, Send]),
];
// ANCHOR_END: trials
