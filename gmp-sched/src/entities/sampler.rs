//! Which Gs of a P are sampled, that is, record how long they were runnable; see [`crate::refinements::sampling`].

use crate::base::atomic::{AtomicU8, AtomicU32, Ordering};
use crate::entities::status::ParkedStatus;

/// How many of the Gs of a P are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Extent {
    /// About one G in 122. No trace is taken.
    Some,
    /// Every G, for a trace. Every pick is slow, because a slow pick records how a G leaves.
    All,
    /// Every G, for an [exact trace](crate::platform::Platform::EXACT_TRACES). Picks are slow only where they are slow
    /// without a trace. So a G may leave by a fast path, and then the fast path records how the G leaves.
    Exact,
}

/// Decides which Gs of a P are sampled.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// The bits of the [`ParkedStatus`] that a G of this P stores when it parks. One of these bits says whether the G
    /// is sampled.
    parked: AtomicU32,
    /// An [`Extent`].
    extent: AtomicU8,
}

impl Sampler {
    pub(crate) fn new() -> Self {
        Self { parked: AtomicU32::new(0), extent: AtomicU8::new(Extent::Some as u8) }
    }

    /// Sets the number of the P's scheduler. Called once, before the P is used.
    pub(crate) fn set_scheduler(&self, number: u32) {
        self.set_parked_status(ParkedStatus::unsampled(number));
    }

    /// The status with which a G of this P parks.
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
    pub(crate) fn unsampled(&self) -> ParkedStatus {
        self.parked_status().without_sampling()
    }

    /// Whether the next G that is spawned on this P is sampled.
    #[inline(always)]
    pub(crate) fn samples_next(&self) -> bool {
        self.parked_status().is_sampled()
    }

    /// Whether every G is sampled.
    #[inline(always)]
    pub(crate) fn samples_all(&self) -> bool {
        self.extent.load(Ordering::Relaxed) != Extent::Some as u8
    }

    /// How many of the Gs of the P are sampled.
    pub(crate) fn extent(&self) -> Extent {
        match self.extent.load(Ordering::Relaxed) {
            all if all == Extent::All as u8 => Extent::All,
            exact if exact == Extent::Exact as u8 => Extent::Exact,
            _ => Extent::Some,
        }
    }

    /// Whether every pick is to be slow.
    #[inline]
    pub(crate) fn wants_slow_picks(&self) -> bool {
        self.extent.load(Ordering::Relaxed) == Extent::All as u8
    }

    /// Whether the fast paths record how a G leaves.
    #[inline(always)]
    pub(crate) fn is_exact(&self) -> bool {
        self.extent.load(Ordering::Relaxed) == Extent::Exact as u8
    }

    /// Called at each check of the global queue and at each check of the slice. If sampling is off, turns it on, so
    /// that the next G of this P is sampled. Sampling is turned off when a sampled G becomes runnable on this P. If
    /// this has not happened since the last call, this call turns sampling off, because the sampled G may have become
    /// runnable on another P. (While every G is sampled, sampling stays on.)
    ///
    /// Always inlined, because a call would force every yield to save registers.
    #[inline(always)]
    pub(crate) fn advance(&self) {
        if cfg!(not(feature = "refinements")) {
            return;
        }
        let next =
            if self.samples_all() || !self.samples_next() { self.parked_status().sampled() } else { self.unsampled() };
        self.set_parked_status(next);
    }

    /// Called when a G has been sampled. Turns sampling off until [`advance`](Self::advance) turns it on again. While
    /// every G is sampled, does nothing.
    pub(crate) fn found(&self) {
        if !self.samples_all() {
            self.set_parked_status(self.unsampled());
        }
    }

    pub(crate) fn set(&self, extent: Extent) {
        self.extent.store(extent as u8, Ordering::Relaxed);
        self.set_parked_status(if extent != Extent::Some { self.parked_status().sampled() } else { self.unsampled() });
    }
}
