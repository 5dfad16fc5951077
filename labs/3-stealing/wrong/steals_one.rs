//! A thief takes one G at a time, so it comes back for each.
//! fails: few-steals, specification

// ANCHOR: share
    length.min(1)
// ANCHOR_END: share
