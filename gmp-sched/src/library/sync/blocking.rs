//! What all waits of this library have in common.

use core::ptr;

use crate::base::atomic::Ordering;
use crate::engine::caller::Caller;
use crate::entities::goroutine::{Ticket, WaitReason};
use crate::library::cancel::Limit;
use crate::library::waiter::{WaitQueue, Waiter};
#[cfg(not(all(test, gmp_loom)))]
use crate::library::waiter::{wait, wait_until};
use crate::platform::{Pinned, Platform};
use crate::synctest::{Home, may_be_used};

/// The right to block once: the caller is a G that may.
///
/// Made before the lock of what is waited for is taken, so that nothing panics under that.
#[derive(Debug)]
pub(super) struct Blocking<'a, P: Platform> {
    caller: Caller<P>,
    reason: WaitReason,
    limit: Option<&'a Limit<'a, P>>,
}

impl<'a, P: Platform> Blocking<'a, P> {
    /// # Panics
    ///
    /// The caller is not a G with a P, or has preemption turned off.
    #[inline(always)]
    #[track_caller]
    pub(super) fn new(reason: WaitReason, limit: Option<&'a Limit<'a, P>>) -> Self {
        Self { caller: Caller::new(), reason, limit }
    }

    /// Whether the limit is over already. Reads the clock only if there is a deadline.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| limit.err().is_some())
    }

    /// Queues the calling G by `enqueue`, and waits; `guard`, the lock of the queue, is dropped when the G has been left.
    /// Gives what the waker left as outcome, `None` if the limit came first: then the waiter may still stand in the queue.
    ///
    /// `note` is what the waker finds as outcome before it leaves its own.
    #[inline(always)]
    pub(super) fn wait<G>(
        self,
        guard: G,
        note: usize,
        enqueue: impl FnOnce(&mut G, &'static Waiter<P>),
    ) -> Option<usize> {
        self.wait_within(|| false, guard, note, enqueue)
    }

    /// [`wait`](Self::wait) for what may be of a bubble: a G that is in one asks `is_its_own` whether only that one can end
    /// the wait.
    #[inline(always)]
    pub(super) fn wait_within<G>(
        self,
        is_its_own: impl FnOnce() -> bool,
        mut guard: G,
        note: usize,
        enqueue: impl FnOnce(&mut G, &'static Waiter<P>),
    ) -> Option<usize> {
        let Self { caller, reason, limit } = self;
        let me = caller.me;
        let ticket = if limit.is_some() { me.open_wait() } else { Ticket::SOLE };
        me.waiter.prepare(me, ticket, ptr::null_mut());
        me.waiter.outcome.store(note, Ordering::Relaxed);
        enqueue(&mut guard, &me.waiter);
        #[cfg(all(test, gmp_loom))]
        {
            // Not the whole of a park, which would be more steps than a model of three Gs can have.
            let _ = (caller, reason, is_its_own);
            crate::engine::stand_in::wait(me, || drop(guard));
        }
        #[cfg(not(all(test, gmp_loom)))]
        {
            let in_bubble = || if is_its_own() { reason.within_bubble() } else { reason };
            match limit {
                None => drop(wait(caller, reason, in_bubble, || drop(guard))),
                Some(limit) => {
                    wait_until(caller, reason, in_bubble, ticket, *limit, || drop(guard))?;
                }
            }
        }
        Some(me.waiter.outcome.load(Ordering::Relaxed))
    }
}

/// Makes the G runnable whose wait the caller has ended.
#[inline]
pub(super) fn ready<P: Platform>(waiter: &'static Waiter<P>, pinned: &Pinned<P>) {
    #[cfg(not(all(test, gmp_loom)))]
    waiter.ready(pinned);
    #[cfg(all(test, gmp_loom))]
    {
        let _ = pinned;
        assert!(crate::engine::stand_in::ready(waiter.goroutine()), "readied a G that does not wait");
    }
}

/// The waiter of the calling G, which has waited.
pub(super) fn my_waiter<P: Platform>(pinned: &Pinned<P>) -> &'static Waiter<P> {
    &pinned.goroutine().waiter
}

/// Does something when it is dropped: what has to be undone where a wait ends without success, or panics.
#[derive(Debug)]
pub(super) struct OnDrop<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Waiters whose waits have been ended under a lock, to be readied without it, in the order of the queue.
#[must_use]
pub(super) struct Roused<P: Platform> {
    /// Most often the only one, who needs no list.
    first: Option<&'static Waiter<P>>,
    others: WaitQueue<P>,
}

impl<P: Platform> Roused<P> {
    /// Nobody.
    #[inline]
    pub(super) fn none() -> Self {
        Self { first: None, others: WaitQueue::new() }
    }

    /// All in `queue`.
    #[inline]
    pub(super) fn all_of(queue: &WaitQueue<P>) -> Self {
        let mut roused = Self::none();
        while let Some(waiter) = queue.pop() {
            roused.push(waiter);
        }
        roused
    }

    /// One more, which was popped.
    #[inline]
    pub(super) fn push(&mut self, waiter: &'static Waiter<P>) {
        match self.first {
            None => self.first = Some(waiter),
            Some(_) => self.others.push_back(waiter),
        }
    }

    /// Makes all of them runnable.
    #[inline]
    pub(super) fn ready(self, pinned: &Pinned<P>) {
        self.ready_each(pinned, |_| ());
    }

    /// [`ready`](Self::ready) of those who wait durably if they are in a bubble, wherever it is that they wait; gives how many
    /// they were.
    ///
    /// # Panics
    ///
    /// One of them is in a bubble in which the caller is not. They have been woken all the same: nobody else would.
    #[inline]
    #[track_caller]
    pub(super) fn ready_durable(self, pinned: Pinned<P>) -> usize {
        let (mut count, mut is_foreign) = (0, false);
        self.ready_each(&pinned, |waiter| {
            count += 1;
            is_foreign |= may_be_used() && Home::of(waiter.goroutine()).is_foreign();
        });
        drop(pinned);
        assert!(!is_foreign, "semaphore wake of synctest goroutine from outside bubble");
        count
    }

    /// Makes all of them runnable, after a `look` at each.
    #[inline]
    fn ready_each(self, pinned: &Pinned<P>, mut look: impl FnMut(&'static Waiter<P>)) {
        let Some(first) = self.first else { return };
        look(first);
        ready(first, pinned);
        while let Some(waiter) = self.others.front() {
            // Out of the list first: once its G runs it may stand in another.
            self.others.remove(waiter);
            look(waiter);
            ready(waiter, pinned);
        }
    }
}
