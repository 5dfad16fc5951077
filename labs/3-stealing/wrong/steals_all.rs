//! A thief takes the whole ring, so that the victim is the next thief.
//! fails: specification

// ANCHOR: share
    length
// ANCHOR_END: share
