//! The state of the background G, which gives cached memory back: see `refinements::background`.

use core::time::Duration;

use crate::base::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::instant::Instant;
use crate::base::reference::AtomicRef;
use crate::entities::goroutine::Goroutine;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

/// How long after the first growth the background G is due. The growth of a second is given back at once, so a program
/// that takes and frees memory all the time pays for one pass in a second.
const DELAY: Duration = Duration::from_secs(1);

/// The background G of a scheduler, and when it is to run.
#[derive(Debug)]
pub(crate) struct Background<Plat: Platform> {
    /// The G. `None` before the scheduler has started, and on a platform without a
    /// [scavenger](Platform::scavenger).
    pub(crate) goroutine: AtomicRef<Goroutine<Plat>>,
    /// When the G is to run, in nanoseconds. [`Instant::NEVER`] if there is nothing to give back.
    pub(crate) due: AtomicU64,
    /// Whether the G has left its stack, and no M has taken it since. The M that clears this flag runs the G.
    pub(crate) is_parked: AtomicBool,
}

impl<Plat: Platform> Background<Plat> {
    pub(crate) fn new() -> Self {
        Self {
            goroutine: AtomicRef::none(),
            due: AtomicU64::new(Instant::NEVER.as_nanos()),
            is_parked: AtomicBool::new(false),
        }
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Notes that memory was taken, or was put into a cache. The [scavenger](Platform::scavenger) runs a second later,
    /// when a P has nothing else to do. Callable from anywhere. Costs one comparison if growth was noted before.
    #[inline]
    pub fn note_growth(&self) {
        let due = &self.background.due;
        let never = Instant::NEVER.as_nanos();
        if cfg!(feature = "refinements") && Plat::scavenger().is_some() && due.load(Ordering::Relaxed) == never {
            let later = (Plat::now() + DELAY).as_nanos();
            // If this fails, another caller has noted growth. Ordering: Relaxed, because the word publishes nothing.
            let _ = due.compare_exchange(never, later, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns when the background G is to run. Returns [`Instant::NEVER`] if it runs, or if there is nothing to do.
    pub(crate) fn background_due(&self) -> Instant {
        if cfg!(not(feature = "refinements"))
            || Plat::scavenger().is_none()
            || !self.background.is_parked.load(Ordering::Relaxed)
        {
            return Instant::NEVER;
        }
        Instant::from_nanos(self.background.due.load(Ordering::Relaxed))
    }

    /// Whether a P that has nothing else to do is to run the background G.
    pub(crate) fn is_background_due(&self) -> bool {
        let due = self.background_due();
        due != Instant::NEVER && due <= Plat::now()
    }
}
