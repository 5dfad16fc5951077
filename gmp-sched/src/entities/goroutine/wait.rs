//! The waits of a G: the reason, the beginning, and the right to end them.

use super::Goroutine;
use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::entities::status::{IN_BUBBLE, LOCKED, ParkedStatus, Status, WATCHED};
use crate::entities::wait_reason::WaitReason;
use crate::platform::Platform;

/// A wait generation, which identifies one wait with several wakers; see [`crate::library::waiter`]. A slot never uses
/// the same one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitGeneration(pub(crate) u64);

impl WaitGeneration {
    /// Stands for a wait with one waker.
    pub(crate) const SOLE: Self = Self(0);
}

impl<P: Platform> Goroutine<P> {
    /// Begins a wait of the calling G with several wakers; returns its generation, which one of the wakers can claim.
    /// The caller publishes it under locks.
    #[inline]
    pub(crate) fn open_wait(&self) -> WaitGeneration {
        // Even to odd, so it is never zero.
        let generation = self.wait.load(Ordering::Relaxed) + 1;
        self.wait.store(generation, Ordering::Relaxed);
        WaitGeneration(generation)
    }

    /// Claims the right to end the wait of that generation; returns whether the caller has got it. The waker that has
    /// it readies the G.
    #[inline]
    pub(crate) fn claim(&self, generation: WaitGeneration) -> bool {
        generation == WaitGeneration::SOLE || self.claim_of_several(generation)
    }

    /// [`claim`](Self::claim) for a wait with [several wakers](Self::open_wait).
    #[inline(always)]
    pub(crate) fn claim_of_several(&self, generation: WaitGeneration) -> bool {
        debug_assert_ne!(generation, WaitGeneration::SOLE);
        // Ordering: the word only decides which waker is first. What waker and G exchange is ordered by the locks of
        // the wait queues and by the run queue.
        self.wait.compare_exchange(generation.0, generation.0 + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Called when the locked G is about to leave its M: if it waits, records for its wakers that it is locked.
    pub(crate) fn note_locked_wait(&self) {
        if self.status() == Status::Waiting {
            self.status.store(self.status.load(Ordering::Relaxed) | LOCKED, Ordering::Relaxed);
        }
    }

    /// Why it waits; [`WaitReason::None`] if it does not.
    #[must_use]
    pub fn wait_reason(&self) -> WaitReason {
        // The field keeps the reason of the last wait.
        if self.status() == Status::Waiting {
            WaitReason::from_u8(self.wait_reason.load(Ordering::Relaxed))
        } else {
            WaitReason::None
        }
    }

    /// When it began to wait, to within a slice: read from its P's clock, which is only set when the P reads the time
    /// for another purpose. Go: `waitsince`, which the garbage collector sets.
    #[must_use]
    #[doc(alias = "waitsince")]
    pub fn waiting_since(&self) -> Instant {
        Instant::from_nanos(self.waiting_since.load(Ordering::Relaxed))
    }

    /// Whether the G is parked and its status word equals `parked`.
    #[inline(always)]
    pub(crate) fn is_parked_as(&self, parked: ParkedStatus) -> bool {
        self.status.load(Ordering::Relaxed) == parked.to_bits()
    }

    /// Records that it is about to wait, at about `now`.
    #[inline(always)]
    pub(crate) fn set_waiting(&self, reason: WaitReason, parked: ParkedStatus, now: Instant) {
        self.waiting_since.store(now.as_nanos(), Ordering::Relaxed);
        self.wait_reason.store(reason as u8, Ordering::Relaxed);
        self.status.store(parked.to_bits(), Ordering::Relaxed);
    }

    /// Records the reason of its wait in a bubble; returns whether the wait is durable. Its status is already
    /// "waiting".
    #[cold]
    pub(crate) fn set_waiting_in_bubble(&self, reason: WaitReason) -> bool {
        self.wait_reason.store(reason as u8, Ordering::Relaxed);
        if reason.is_durable() {
            self.status.store(self.status.load(Ordering::Relaxed) | IN_BUBBLE, Ordering::Relaxed);
        }
        reason.is_durable()
    }

    /// Whether it waits durably in a bubble.
    pub(crate) fn is_waiting_in_bubble(&self) -> bool {
        self.status() == Status::Waiting && self.status.load(Ordering::Relaxed) & IN_BUBBLE != 0
    }

    /// Whether it waits, and is locked to its M.
    pub(crate) fn is_waiting_locked(&self) -> bool {
        self.status() == Status::Waiting && self.status.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// Whether it waits, and is sampled.
    pub(crate) fn is_waiting_sampled(&self) -> bool {
        self.status() == Status::Waiting && self.status.load(Ordering::Relaxed) & WATCHED != 0
    }
}
