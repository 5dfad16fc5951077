//! Half of one G is none: a ring with a single G is never stolen from. Of three Gs, it takes one, which is less than half.
//! fails: spread, specification

// ANCHOR: share
    length / 2
// ANCHOR_END: share
