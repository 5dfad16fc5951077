//! What is known of the slice and of the system call that go on on a P, for those who watch how long they last.

use crate::base::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::base::instant::Instant;
use crate::base::reference::AtomicRef;
use crate::entities::goroutine::Goroutine;
use crate::platform::Platform;

/// What is known of the slice that goes on on a P.
#[derive(Debug)]
pub(crate) struct SliceWatch<P: Platform> {
    /// The P's tick when the tick handler looked last.
    pub(crate) seen: AtomicU32,
    /// When that tick was seen first, or the slice was prolonged.
    pub(crate) since: AtomicU64,
    /// Whether the slice has been prolonged.
    pub(crate) is_prolonged: AtomicBool,
    /// When a G was last displaced on the P.
    pub(crate) displaced_at: AtomicU64,
    /// The G whose slice this is, if another runs in it because a timer displaced the G.
    pub(crate) displaced: AtomicRef<Goroutine<P>>,
    /// The last tick that began with a G whose timer was due, [`NONE`] before the first.
    pub(crate) of_due: AtomicU64,
    /// The tick whose slice is to end, [`NONE`] if none is: a G that takes its turn in between is not meant.
    pub(crate) ends: AtomicU64,
}

/// No tick, which has 32 bits.
pub(crate) const NONE: u64 = u64::MAX;

impl<P: Platform> SliceWatch<P> {
    pub(crate) fn new() -> Self {
        Self {
            seen: AtomicU32::new(0),
            since: AtomicU64::new(0),
            is_prolonged: AtomicBool::new(false),
            displaced_at: AtomicU64::new(0),
            displaced: AtomicRef::none(),
            of_due: AtomicU64::new(NONE),
            ends: AtomicU64::new(NONE),
        }
    }

    /// A slice begins.
    pub(crate) fn begin(&self, tick: u32, now: Instant) {
        self.seen.store(tick, Ordering::Relaxed);
        self.since.store(now.as_nanos(), Ordering::Relaxed);
        self.is_prolonged.store(false, Ordering::Relaxed);
        self.displaced.store(None, Ordering::Relaxed);
    }

    /// Lets the slice of `tick` go on as if it had begun at `since`. Returns whether it does: it may once.
    pub(crate) fn prolong(&self, tick: u32, since: Instant) -> bool {
        if self.seen.load(Ordering::Relaxed) == tick && self.is_prolonged.load(Ordering::Relaxed) {
            return false;
        }
        self.seen.store(tick, Ordering::Relaxed);
        self.since.store(since.as_nanos(), Ordering::Relaxed);
        self.is_prolonged.store(true, Ordering::Relaxed);
        true
    }

    /// Whether `running` is there because it displaced the G whose slice this is.
    pub(crate) fn is_of_another(&self, running: &'static Goroutine<P>) -> bool {
        self.displaced.load(Ordering::Relaxed).is_some_and(|owner| !core::ptr::eq(owner, running))
    }

    /// `me` gives way to the G of a timer; tells whether this is its own slice.
    pub(crate) fn displace(&self, me: &'static Goroutine<P>, tick: u32, now: Instant) -> bool {
        if self.seen.load(Ordering::Relaxed) != tick {
            self.begin(tick, now);
        }
        self.displaced_at.store(now.as_nanos(), Ordering::Relaxed);
        if self.is_of_another(me) {
            return false;
        }
        // If its slice is over by now, that is found when it runs again: the other one is not to go instead.
        self.ends.store(NONE, Ordering::Relaxed);
        self.displaced.store(Some(me), Ordering::Relaxed);
        true
    }
}

/// What sysmon, and nobody else, knows of the system calls on a P. Go: `sysmontick`.
#[derive(Debug)]
pub(crate) struct CallWatch {
    /// The P's count of system calls when it last was another than the time before.
    pub(crate) seen: AtomicU32,
    /// When that was.
    pub(crate) since: AtomicU64,
}

impl CallWatch {
    pub(crate) fn new() -> Self {
        Self { seen: AtomicU32::new(0), since: AtomicU64::new(0) }
    }
}
