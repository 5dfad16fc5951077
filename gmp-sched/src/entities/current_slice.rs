//! The current slice of a P: what the timer's interrupt handler and sysmon need to measure it, and what a preemption or
//! displacement records.

use crate::base::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::instant::Instant;
use crate::base::reference::AtomicRef;

/// The current slice of a P, for Gs of type `T`.
#[derive(Debug)]
pub(crate) struct CurrentSlice<T: 'static> {
    /// The tick of the P to which `since` belongs.
    pub(crate) seen: AtomicU64,
    /// Start of the slice of the tick in `seen`: when that tick was first seen, or a later time if the slice was
    /// prolonged.
    pub(crate) since: AtomicU64,
    /// Whether the slice has already been prolonged.
    pub(crate) is_prolonged: AtomicBool,
    /// The last time at which a G was displaced on the P or the batch budget of due timers was used up. For a while
    /// after this time, no G is displaced.
    pub(crate) undisturbed_since: AtomicU64,
    /// The owner of the slice, if another G has displaced that G. The displacing G then runs in the slice of the owner.
    /// `None` if no G was displaced.
    pub(crate) owner: AtomicRef<T>,
    /// The last tick that began with a G whose timer was due; [`NONE`] before the first such tick.
    pub(crate) of_due: AtomicU64,
    /// The tick whose slice must end; [`NONE`] if there is none. Slices of other ticks are not affected.
    pub(crate) ends: AtomicU64,
}

/// The value of `of_due` and `ends` while they contain no tick. The tick of a P never reaches this value.
pub(crate) const NONE: u64 = u64::MAX;

impl<T> CurrentSlice<T> {
    pub(crate) fn new() -> Self {
        Self {
            seen: AtomicU64::new(0),
            since: AtomicU64::new(0),
            is_prolonged: AtomicBool::new(false),
            undisturbed_since: AtomicU64::new(0),
            owner: AtomicRef::none(),
            of_due: AtomicU64::new(NONE),
            ends: AtomicU64::new(NONE),
        }
    }

    /// Resets the slice to that of a new P.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn renew(&self) {
        self.begin(0, Instant::from_nanos(0));
        self.undisturbed_since.store(0, Ordering::Relaxed);
        self.of_due.store(NONE, Ordering::Relaxed);
        self.ends.store(NONE, Ordering::Relaxed);
    }

    /// Begins the slice of `tick`.
    pub(crate) fn begin(&self, tick: u64, now: Instant) {
        self.seen.store(tick, Ordering::Relaxed);
        self.since.store(now.as_nanos(), Ordering::Relaxed);
        self.is_prolonged.store(false, Ordering::Relaxed);
        self.owner.store(None, Ordering::Relaxed);
    }

    /// Prolongs the slice of `tick`, so that it counts as begun at `since`. Returns `true`. If the slice of `tick` was
    /// prolonged before, does nothing and returns `false` instead.
    pub(crate) fn prolong(&self, tick: u64, since: Instant) -> bool {
        if self.seen.load(Ordering::Relaxed) == tick && self.is_prolonged.load(Ordering::Relaxed) {
            return false;
        }
        self.seen.store(tick, Ordering::Relaxed);
        self.since.store(since.as_nanos(), Ordering::Relaxed);
        self.is_prolonged.store(true, Ordering::Relaxed);
        true
    }

    /// Whether `running` runs in the slice of another G, which it has displaced.
    pub(crate) fn is_of_another(&self, running: &'static T) -> bool {
        self.owner.load(Ordering::Relaxed).is_some_and(|owner| !core::ptr::eq(owner, running))
    }

    /// Records that another G displaces `me` in the slice of `tick`. Returns whether `me` is the owner of the slice.
    pub(crate) fn displace(&self, me: &'static T, tick: u64, now: Instant) -> bool {
        if self.seen.load(Ordering::Relaxed) != tick {
            self.begin(tick, now);
        }
        self.undisturbed_since.store(now.as_nanos(), Ordering::Relaxed);
        if self.is_of_another(me) {
            return false;
        }
        // The slice may have ended while the caller picked the G that displaces `me`. That G must not be preempted at
        // once, so the slice is prolonged. But if the slice has been prolonged before, it stays ended.
        if self.ends.load(Ordering::Relaxed) == tick && self.prolong(tick, now) {
            self.ends.store(NONE, Ordering::Relaxed);
        }
        self.owner.store(Some(me), Ordering::Relaxed);
        true
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::{CurrentSlice, NONE, Ordering};
    use crate::base::instant::Instant;

    /// If displacements could prolong a slice more than once, the slice might never end, because a displacement could
    /// come just before each end.
    #[test]
    fn displacement_prolongs_a_slice_that_is_over_once() {
        static OWNER: u8 = 0;
        let (slice, tick) = (CurrentSlice::<u8>::new(), 3);
        slice.begin(tick, Instant::from_nanos(10));
        for (time, ends) in [(20, NONE), (30, tick)] {
            slice.ends.store(tick, Ordering::Relaxed);
            assert!(slice.displace(&OWNER, tick, Instant::from_nanos(time)), "the owner is displaced");
            assert_eq!(slice.ends.load(Ordering::Relaxed), ends, "at {time}");
            assert_eq!(slice.since.load(Ordering::Relaxed), 20);
        }
    }
}
