//! Half of one G is none: a ring with a single G is never stolen from.
//! fails: spread

// ANCHOR: share
    length / 2
// ANCHOR_END: share
