//! In the tests, nothing happens before the commit is through.
//! fails: finds-lost-raises, finds-limits

// ANCHOR: trials
use Party::{Commit, G, Limit, Poll, Raise};

/// A raise, a limit, and both.
pub const TRIALS: &[&[Party]] = &[
    &[Raise],
    &[G, G, Commit, Commit, Raise, Raise],
    &[G, G, Commit, Commit, Raise, Raise, Raise],
    &[G, G, Commit, Commit, Limit, G, G],
    &[G, G, Commit, Commit, Raise, Raise, Poll, Limit],
    &[G, G, Commit, Commit, Raise, Limit, G, Raise, Poll],
];
// ANCHOR_END: trials
