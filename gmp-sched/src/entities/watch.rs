//! Which Gs of a P are sampled as they become runnable and run; see [`crate::engine::observe`].

use crate::base::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::entities::status::ParkedStatus;

/// Which Gs of a P are sampled.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The status of Gs that park here: a [`ParkedStatus`].
    parked: AtomicU32,
    all: AtomicBool,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { parked: AtomicU32::new(0), all: AtomicBool::new(false) }
    }

    /// Sets the number of the P's scheduler. Called once, before the P is used.
    pub(crate) fn set_scheduler(&self, number: u32) {
        self.set_parked_status(ParkedStatus::unwatched(number));
    }

    /// The status of a G that parks here.
    #[inline(always)]
    pub(crate) fn parked_status(&self) -> ParkedStatus {
        ParkedStatus::from_bits(self.parked.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn set_parked_status(&self, status: ParkedStatus) {
        self.parked.store(status.to_bits(), Ordering::Relaxed);
    }

    /// The status of a parked G of this P's scheduler that is not sampled.
    #[inline(always)]
    pub(crate) fn unwatched(&self) -> ParkedStatus {
        self.parked_status().without_watch()
    }

    /// Whether a G that is spawned here is sampled.
    #[inline(always)]
    pub(crate) fn wants_next(&self) -> bool {
        self.parked_status().is_watched()
    }

    /// Whether every G is sampled.
    #[inline(always)]
    pub(crate) fn wants_all(&self) -> bool {
        self.all.load(Ordering::Relaxed)
    }

    /// Called from time to time: begins to sample the next G, or ends it if that G became runnable on another P, which this
    /// P does not learn. Inlined: a call here would make every yield save registers.
    #[inline(always)]
    pub(crate) fn take_turn(&self) {
        let next =
            if self.wants_all() || !self.wants_next() { self.parked_status().watched() } else { self.unwatched() };
        self.set_parked_status(next);
    }

    /// A G to sample has been found.
    pub(crate) fn found(&self) {
        if !self.wants_all() {
            self.set_parked_status(self.unwatched());
        }
    }

    pub(crate) fn set_all(&self, all: bool) {
        self.all.store(all, Ordering::Relaxed);
        self.set_parked_status(if all { self.parked_status().watched() } else { self.unwatched() });
    }
}
