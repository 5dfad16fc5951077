//! The tests have no limit.
//! fails: finds-limits

// ANCHOR: trials
use Party::{Commit, G, Poll, Raise};

/// Raises at each moment.
pub const TRIALS: &[&[Party]] = &[
    &[Raise],
    &[G, G, Raise],
    &[G, G, Raise, Raise, Poll],
    &[G, G, Commit, Raise, Commit],
    &[G, G, Commit, Commit, Raise, Raise],
    &[G, G, Commit, Commit, Raise, Raise, Raise],
];
// ANCHOR_END: trials
