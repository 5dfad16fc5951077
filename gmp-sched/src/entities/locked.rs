//! The G that is locked to an M; see [`crate::refinements::lock_os_thread`].

use crate::base::atomic::{AtomicBool, AtomicU64};
use crate::base::reference::AtomicRef;

/// The G of type `T` that is locked to an M, if there is one.
#[derive(Debug)]
pub(crate) struct Locked<T: 'static> {
    /// The locked G. Go: `m.lockedg`.
    pub(crate) goroutine: AtomicRef<T>,
    /// How many times the G has locked itself to the M without unlocking. Go: `lockedExt`, which has 32 bits, so
    /// `LockOSThread` checks for overflow. 64 bits do not overflow even if locks are leaked: at one lock per
    /// nanosecond, an overflow would take 584 years.
    pub(crate) depth: AtomicU64,
    /// Whether one of the locks in `depth` was taken because the G unwinds its stack. See `stay_to_unwind` in
    /// `refinements::lock_os_thread`.
    pub(crate) unwinds: AtomicBool,
    /// Whether the G is locked only because it is preempted in place. Guarded by the scheduler lock while it is `true`.
    #[cfg(all(any(feature = "std", gmp_loom), feature = "refinements"))]
    pub(crate) is_preempted: AtomicBool,
    /// While the G is displaced in place: for how long its slice had lasted before, in ns, and at least 1. Otherwise
    /// zero. Written only by the M.
    pub(crate) used: AtomicU64,
    /// Whether the M waits for a P and is counted in `Shared::idle_locked`. Guarded by the scheduler lock.
    pub(crate) waits: AtomicBool,
}

impl<T> Locked<T> {
    pub(crate) fn new() -> Self {
        Self {
            goroutine: AtomicRef::none(),
            depth: AtomicU64::new(0),
            unwinds: AtomicBool::new(false),
            #[cfg(all(any(feature = "std", gmp_loom), feature = "refinements"))]
            is_preempted: AtomicBool::new(false),
            used: AtomicU64::new(0),
            waits: AtomicBool::new(false),
        }
    }
}
