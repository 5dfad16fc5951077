//! The tests of a wakeup that a student has written: schedules, which say which M acts next.

use crate::wakes::{M, Scene};

// ANCHOR: trials
use M::{M1, M2, M3};
use Scene::{Assigns, Finds, GivesUp, Idles, Parks, Wakes};

/// Each flaw of a wakeup (`wakes.rs`) shows in one of these schedules. None has more than nine steps.
pub const TRIALS: &[(Scene, &[M])] = &[
    // A store that is still in the buffer: of M1, and of M2.
    (Idles, &[M1, M1, M2, M2, M2]),
    (Idles, &[M1, M1, M1, M2, M2, M2]),
    (Idles, &[M2, M2, M1, M1, M1]),
    // M2 looks, M1 publishes, and then M2 puts its P on the list.
    (Idles, &[M2, M1, M1, M1]),
    // M1 publishes when M2 has looked for the last time, but still counts as spinning.
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
