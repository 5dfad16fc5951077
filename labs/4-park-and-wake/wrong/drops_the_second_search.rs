//! An M that is given a P goes to work, and forgets the search that others relied on.
//! fails: assigned

// ANCHOR: assigned
                let _ = (must_recheck, Self::wake_if_work_is_visible);
// ANCHOR_END: assigned
