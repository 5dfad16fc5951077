//! The tests take each store for visible at once, so they are the schedules that lose a wakeup on such a processor.
//! fails: finds-fences

// ANCHOR: trials
use M::{M1, M2, M3};
use Scene::{Assigns, Finds, GivesUp, Idles, Parks, Wakes};

/// M1 publishes after M2 has looked, and so on.
pub const TRIALS: &[(Scene, &[M])] = &[
    (Idles, &[M2, M1, M1, M1]),
    (GivesUp, &[M2, M2, M2, M1]),
    (Assigns, &[M1, M1, M1, M2, M2, M3]),
    (Finds, &[M1, M1, M1]),
    (Wakes, &[M1, M2, M1, M3, M3, M3, M2, M2, M2]),
    (Parks, &[M1]),
    (Parks, &[M2, M1]),
    (Parks, &[M2, M2, M1]),
];
// ANCHOR_END: trials
