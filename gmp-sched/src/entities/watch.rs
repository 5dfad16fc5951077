//! Which Gs of a P are watched as they become runnable and run; see [`crate::engine::observe`].

use crate::base::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::entities::status::ParkedStatus;

/// Which Gs of a P are watched.
#[derive(Debug)]
pub(crate) struct Watch {
    /// What Gs that park here get as their status: a [`ParkedStatus`].
    parked: AtomicU32,
    all: AtomicBool,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { parked: AtomicU32::new(0), all: AtomicBool::new(false) }
    }

    /// Sets the number of the scheduler to which the P belongs. Called once, before the P is used.
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

    /// The status of a parked G of this P's scheduler of which nothing has to be noted when it becomes runnable.
    #[inline(always)]
    pub(crate) fn unwatched(&self) -> ParkedStatus {
        self.parked_status().without_watch()
    }

    /// Whether a G that is spawned here is watched.
    #[inline(always)]
    pub(crate) fn wants_next(&self) -> bool {
        self.parked_status().is_watched()
    }

    /// Whether every G is.
    #[inline(always)]
    pub(crate) fn wants_all(&self) -> bool {
        self.all.load(Ordering::Relaxed)
    }

    /// Some time has gone by: begins to watch for the next G, or ends it, if that G became runnable on another P and this
    /// one has not heard of it. Inlined: a call here would make every yield save registers.
    #[inline(always)]
    pub(crate) fn take_turn(&self) {
        let next =
            if self.wants_all() || !self.wants_next() { self.parked_status().watched() } else { self.unwatched() };
        self.set_parked_status(next);
    }

    /// One has been found.
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
