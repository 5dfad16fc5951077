//! The tests take each store for visible at once, so they are the schedules that lose a wakeup on such a processor.
//! fails: finds-fences

// ANCHOR: trials
use M::{M1, M2, M3};
use Scene::{Assigns, Finds, GivesUp, Idles, Parks, Wakes};

/// M1 publishes after M2 has looked, and so on.
pub const TRIALS: &[(Scene, &[M])] = &[
    // M2 looks, M1 publishes, M2 puts its P on the list. And M2 counts, but has looked.
    (Idles, &[M2, M1, M1, M1]),
    (GivesUp, &[M2, M2, M2, M1]),
    // M2 is assigned a P before it looks again.
    (Assigns, &[M1, M1, M1, M2, M2, M3]),
    (Finds, &[M1, M1, M1]),
    // The P that M1 saw is gone, and another one becomes idle before M1 stops counting.
    (Wakes, &[M1, M2, M1, M3, M3, M3, M2, M2, M2]),
    // The answer comes before the park, during it, and after it.
    (Parks, &[M1]),
    (Parks, &[M2, M1]),
    (Parks, &[M2, M2, M1]),
];
// ANCHOR_END: trials
