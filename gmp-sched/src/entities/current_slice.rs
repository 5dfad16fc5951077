//! The current slice of a P: what the timer's interrupt handler and sysmon need to measure it, and what a preemption
//! records. [`slice`](crate::engine::slice) measures it, and [`pick`](crate::engine::pick) says which Gs share it.

use crate::base::atomic::{AtomicU64, Ordering};
use crate::base::instant::Instant;

/// The current slice of a P.
#[derive(Debug)]
pub(crate) struct CurrentSlice {
    /// The tick of the P to which `since` belongs.
    pub(crate) seen: AtomicU64,
    /// When the tick in `seen` was first seen.
    pub(crate) since: AtomicU64,
    /// The last time at which a G was displaced on the P, or at which the Gs of the urgent queue had used up their
    /// time. For a while after this time, no G is displaced.
    pub(crate) undisturbed_since: AtomicU64,
    /// The tick whose slice must end; [`NONE`] if there is none. Slices of other ticks are not affected.
    pub(crate) ends: AtomicU64,
}

/// The value of `ends` while it contains no tick. The tick of a P never reaches this value.
pub(crate) const NONE: u64 = u64::MAX;

impl CurrentSlice {
    pub(crate) fn new() -> Self {
        Self {
            seen: AtomicU64::new(0),
            since: AtomicU64::new(0),
            undisturbed_since: AtomicU64::new(0),
            ends: AtomicU64::new(NONE),
        }
    }

    /// Resets the slice to that of a new P.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn renew(&self) {
        self.begin(0, Instant::from_nanos(0));
        self.undisturbed_since.store(0, Ordering::Relaxed);
        self.ends.store(NONE, Ordering::Relaxed);
    }

    /// When the current slice began, or was first seen.
    pub(crate) fn began(&self) -> Instant {
        Instant::from_nanos(self.since.load(Ordering::Relaxed))
    }

    /// Begins the slice of `tick`.
    pub(crate) fn begin(&self, tick: u64, now: Instant) {
        self.since.store(now.as_nanos(), Ordering::Relaxed);
        // Ordering: Release, so that sysmon, if it sees the tick, does not see when an earlier slice began. Partner: the
        // Acquire in `check_slice`.
        self.seen.store(tick, Ordering::Release);
    }
}
