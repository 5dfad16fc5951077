//! The waits of a G: why it waits, since when, and who may end the wait.

use super::Goroutine;
use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::entities::status::{IN_BUBBLE, LOCKED, ParkedStatus, Status, WATCHED};
use crate::entities::wait_reason::WaitReason;
use crate::platform::Platform;

/// The right to end one wait of a G to which several have a claim; see [`crate::library::waiter`]. Never given twice by one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u64);

impl Ticket {
    /// Of a wait that only one can end.
    pub(crate) const SOLE: Self = Self(0);
}

impl<P: Platform> Goroutine<P> {
    /// Begins a wait of the calling G that several may end: gives the ticket that one of them can claim. The caller
    /// makes it known under locks.
    #[inline]
    pub(crate) fn open_wait(&self) -> Ticket {
        // Even to odd: zero is never given.
        let ticket = self.wait.load(Ordering::Relaxed) + 1;
        self.wait.store(ticket, Ordering::Relaxed);
        Ticket(ticket)
    }

    /// Ends the wait of that ticket; tells whether nobody had before. Who ends it readies the G.
    #[inline]
    pub(crate) fn claim(&self, ticket: Ticket) -> bool {
        ticket == Ticket::SOLE || self.claim_of_several(ticket)
    }

    /// [`claim`](Self::claim) of a ticket that was [given](Self::open_wait).
    #[inline(always)]
    pub(crate) fn claim_of_several(&self, ticket: Ticket) -> bool {
        debug_assert_ne!(ticket, Ticket::SOLE);
        // Ordering: the word only decides who is first; what winner and G tell each other goes through the locks of the
        // queues and of the run queue.
        self.wait.compare_exchange(ticket.0, ticket.0 + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// It is locked and about to be left: if it waits, those who ready it are to know.
    pub(crate) fn note_locked_wait(&self) {
        if self.status() == Status::Waiting {
            self.status.store(self.status.load(Ordering::Relaxed) | LOCKED, Ordering::Relaxed);
        }
    }

    /// Why it waits, [`WaitReason::None`] if it does not.
    #[must_use]
    pub fn wait_reason(&self) -> WaitReason {
        // What it waited for last stays there.
        if self.status() == Status::Waiting {
            WaitReason::from_u8(self.wait_reason.load(Ordering::Relaxed))
        } else {
            WaitReason::None
        }
    }

    /// Since when it waits, to within a slice: read from its P's clock, which ticks when the P looks at the time anyway.
    /// Go: `waitsince`, which the garbage collector sets.
    #[must_use]
    #[doc(alias = "waitsince")]
    pub fn waiting_since(&self) -> Instant {
        Instant::from_nanos(self.waiting_since.load(Ordering::Relaxed))
    }

    /// The status if it is parked as `parked` says.
    #[inline(always)]
    pub(crate) fn is_parked_as(&self, parked: ParkedStatus) -> bool {
        self.status.load(Ordering::Relaxed) == parked.to_bits()
    }

    /// It is about to wait, at about `now`.
    #[inline(always)]
    pub(crate) fn set_waiting(&self, reason: WaitReason, parked: ParkedStatus, now: Instant) {
        self.waiting_since.store(now.as_nanos(), Ordering::Relaxed);
        self.wait_reason.store(reason as u8, Ordering::Relaxed);
        self.status.store(parked.to_bits(), Ordering::Relaxed);
    }

    /// It has been said to be waiting, and does so in a bubble, for this reason.
    pub(crate) fn set_waiting_in_bubble(&self, reason: WaitReason, is_durable: bool) {
        self.wait_reason.store(reason as u8, Ordering::Relaxed);
        if is_durable {
            self.status.store(self.status.load(Ordering::Relaxed) | IN_BUBBLE, Ordering::Relaxed);
        }
    }

    /// Whether it waits durably in a bubble.
    pub(crate) fn is_waiting_in_bubble(&self) -> bool {
        self.status() == Status::Waiting && self.status.load(Ordering::Relaxed) & IN_BUBBLE != 0
    }

    /// Whether it waits, and only its own M may run it.
    pub(crate) fn is_waiting_locked(&self) -> bool {
        self.status() == Status::Waiting && self.status.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// Whether it waits, and somebody wants to know when that is over.
    pub(crate) fn is_waiting_watched(&self) -> bool {
        self.status() == Status::Waiting && self.status.load(Ordering::Relaxed) & WATCHED != 0
    }
}
