//! The tests of a signal that a student has written: schedules, which say who acts next.

use crate::signals::Party;

// ANCHOR: trials
use Party::{Commit, G, Limit, Raise};

/// Each flaw of a signal (`signals.rs`) does harm in one of these schedules. None has more than nine steps.
pub const TRIALS: &[&[Party]] = &[
    // The raise comes before the wait, while the G parks, and while it waits.
    &[Raise],
    &[G, G, Raise],
    &[G, G, Raise, Raise, Party::Poll],
    &[G, G, Commit, Commit, Raise, Raise],
    &[G, G, Commit, Commit, Raise, Raise, Raise],
    // The limit ends the wait: before the commit, with a raise that comes too late; during the commit; after the commit.
    &[G, G, Commit, Raise, Limit, Commit],
    &[G, G, Commit, Limit, Raise, G],
    &[G, G, Commit, Commit, Limit],
    // The next wait begins during the commit of the last one.
    &[G, G, Commit, Limit, G, G, G, Commit],
];
// ANCHOR_END: trials
