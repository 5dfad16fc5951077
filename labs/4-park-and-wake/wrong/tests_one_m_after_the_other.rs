//! The tests let one M do all it has to do, and then the other.
//! fails: finds-fences, finds-searches, finds-wakers

// ANCHOR: trials
use M::{M1, M2, M3};
use Scene::{Assigns, Finds, GivesUp, Idles, Parks, Wakes};

/// Each scene, in both orders.
pub const TRIALS: &[(Scene, &[M])] = &[
    (Idles, &[M1, M1, M1]),
    (Idles, &[M2, M2, M2]),
    (GivesUp, &[M1, M1, M1]),
    (GivesUp, &[M2, M2, M2, M2]),
    (Finds, &[M1, M1, M1]),
    (Finds, &[M2, M2, M2, M2]),
    (Assigns, &[M2, M2, M2, M2, M3]),
    (Wakes, &[M1, M1, M1]),
    (Wakes, &[M2, M2, M2, M2]),
    (Parks, &[M1]),
    (Parks, &[M2, M2, M1]),
];
// ANCHOR_END: trials
