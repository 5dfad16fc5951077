//! The waits of a G: why and since when it waits, and the right to end the wait.

use super::Goroutine;
use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::entities::status::{IN_BUBBLE, LOCKED, ParkedStatus, SAMPLED, Status};
use crate::entities::wait_reason::WaitReason;
use crate::platform::Platform;

/// A wait generation, which identifies one wait with several wakers; see [`crate::library::waiter`]. A slot never uses
/// the same generation twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitGeneration(pub(crate) u64);

impl WaitGeneration {
    /// The generation of every wait with a sole waker. Such a wait needs no claim.
    pub(crate) const SOLE: Self = Self(0);
}

impl<Plat: Platform> Goroutine<Plat> {
    /// Begins a wait of the calling G with several wakers. Returns the generation of this wait, which exactly one of
    /// the wakers can claim. The caller passes the generation to the wakers under the locks of the objects that it
    /// waits for.
    #[inline]
    pub(crate) fn open_wait(&self) -> WaitGeneration {
        // `self.wait` is even between waits and odd during a wait, so a generation is never zero.
        let generation = self.wait.load(Ordering::Relaxed) + 1;
        self.wait.store(generation, Ordering::Relaxed);
        WaitGeneration(generation)
    }

    /// Claims the right to end the wait that has this generation; returns whether the claim succeeded. A claim
    /// of [`SOLE`](WaitGeneration::SOLE) always succeeds. The waker whose claim succeeds readies the G.
    #[inline]
    pub(crate) fn claim(&self, generation: WaitGeneration) -> bool {
        generation == WaitGeneration::SOLE || self.claim_of_several(generation)
    }

    /// Like [`claim`](Self::claim), for a wait with [several wakers](Self::open_wait).
    #[inline(always)]
    pub(crate) fn claim_of_several(&self, generation: WaitGeneration) -> bool {
        debug_assert_ne!(generation, WaitGeneration::SOLE);
        // Ordering: Relaxed, because the word only decides which waker is first. What the waker and the G pass to each
        // other is ordered by the locks of the wait queues, and by the operations of the run queue.
        self.wait.compare_exchange(generation.0, generation.0 + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Called when this G, which is locked to its M, is about to leave the M. If the G leaves because it waits, sets
    /// [`LOCKED`] in the status word of the G, so that a waker sees that the G is locked.
    pub(crate) fn note_locked_wait(&self) {
        if self.status() == Status::Waiting {
            self.status.store(self.status.load(Ordering::Relaxed) | LOCKED, Ordering::Relaxed);
        }
    }

    /// Returns why the G waits; [`WaitReason::None`] if it does not wait.
    #[must_use]
    pub fn wait_reason(&self) -> WaitReason {
        // The field still contains the reason of the last wait when that wait is over.
        if self.status() == Status::Waiting {
            WaitReason::of_number(self.wait_reason.load(Ordering::Relaxed))
        } else {
            WaitReason::None
        }
    }

    /// Returns when the last wait of the G began, exact to about a slice. The time comes from the clock of the G's P,
    /// which is only set when the P reads the time for another purpose. Go: `waitsince`, which the garbage collector
    /// sets.
    #[must_use]
    #[doc(alias = "waitsince")]
    pub fn waiting_since(&self) -> Instant {
        Instant::from_nanos(self.waits_since_or_urgent_until.load(Ordering::Relaxed))
    }

    /// Makes the G, whose wait an event has ended at `now`, urgent for one slice.
    #[inline(always)]
    pub(crate) fn make_urgent(&self, now: Instant) {
        self.waits_since_or_urgent_until.store((now + Plat::slice()).as_nanos(), Ordering::Relaxed);
    }

    /// Whether an event has readied the G less than a slice ago. The G runs or is runnable.
    #[inline(always)]
    pub(crate) fn is_urgent(&self, now: Instant) -> bool {
        now.as_nanos() < self.waits_since_or_urgent_until.load(Ordering::Relaxed)
    }

    /// Whether the G is parked and its status word equals `parked`.
    #[inline(always)]
    pub(crate) fn is_parked_as(&self, parked: ParkedStatus) -> bool {
        self.status.load(Ordering::Relaxed) == parked.to_bits()
    }

    /// Records that the G is about to wait. `now` is the approximate time.
    #[inline(always)]
    pub(crate) fn set_waiting(&self, reason: WaitReason, parked: ParkedStatus, now: Instant) {
        self.waits_since_or_urgent_until.store(now.as_nanos(), Ordering::Relaxed);
        self.wait_reason.store(reason as u8, Ordering::Relaxed);
        self.status.store(parked.to_bits(), Ordering::Relaxed);
    }

    /// Records the reason of a wait in a bubble; returns whether the wait is durable. The status of the G is already
    /// "waiting".
    #[cold]
    pub(crate) fn set_waiting_in_bubble(&self, reason: WaitReason) -> bool {
        self.wait_reason.store(reason as u8, Ordering::Relaxed);
        if reason.is_durable() {
            self.status.store(self.status.load(Ordering::Relaxed) | IN_BUBBLE, Ordering::Relaxed);
        }
        reason.is_durable()
    }

    /// Whether the G waits durably in a bubble.
    pub(crate) fn is_waiting_in_bubble(&self) -> bool {
        self.status() == Status::Waiting && self.status.load(Ordering::Relaxed) & IN_BUBBLE != 0
    }

    /// Whether the G waits and is locked to its M.
    pub(crate) fn is_waiting_locked(&self) -> bool {
        self.status() == Status::Waiting && self.status.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// Whether the G waits and is sampled.
    pub(crate) fn is_waiting_sampled(&self) -> bool {
        self.status() == Status::Waiting && self.status.load(Ordering::Relaxed) & SAMPLED != 0
    }
}
