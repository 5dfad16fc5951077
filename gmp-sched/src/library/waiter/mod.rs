//! Standing in a queue: what channels, locks and all other things that Gs wait for are built on.
//!
//! A [`Waiter`] is one G's place in one queue, a [`WaitQueue`] a FIFO of them, guarded by the lock of whatever is waited
//! for. A G brings one waiter of its own along, which is enough to wait for one thing, and is never freed, only reused, as
//! its G is. Those of a select lie on its stack. (Go takes them from a cache, for its stacks move: `acquireSudog`.)
//!
//! # Who ends a wait
//!
//! A G that stands in one queue without a deadline is woken by whoever takes it out of the queue, under the lock
//! ([`Ticket::SOLE`]). Where several may end the wait (several queues, a deadline), the G opens it with a fresh
//! [`Ticket`], and the one whose [`claim`](Goroutine::claim) succeeds has ended it. A ticket is good for one wait, so that
//! one that is left over ends none. (Go: `selectDone`.)
//!
//! # Order of things
//!
//! The G locks, looks, queues its waiter, and parks with the lock held ([`wait`]); the lock is released on the far side,
//! when the G's context is saved. So whoever finds the waiter may ready its G. With a deadline the timer is armed before
//! the lock is released. If it fires at once the G may run while the far side still holds the lock; it takes the lock
//! itself before it goes on, to leave the queue, so what the lock guards does not go away. A wait with a context arms the
//! timer and queues with the context under the context's lock, which the G takes likewise.

mod queue;

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr;

use crate::base::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::base::reference::AtomicRef;
use crate::engine::caller::Caller;
use crate::engine::park::{park_because, park_with, ready_pinned};
use crate::engine::switch::commit_closure;
use crate::engine::timers::{Action, arm};
use crate::entities::goroutine::{Goroutine, Ticket, WaitReason};
use crate::library::cancel::Limit;
use crate::library::time::Instant;
use crate::platform::{Pinned, Platform, Site};
pub(crate) use queue::{WaitQueue, Woken};

/// One G's place in one queue. Go: `sudog`.
///
/// All fields are atomics with relaxed accesses: while it is queued they belong to the holder of the queue's lock, else
/// to its G.
#[doc(alias = "sudog")]
pub(crate) struct Waiter<P: Platform> {
    /// Its G if whoever takes this out of its queue ends the wait, so that one look tells both; else `None`.
    sole: AtomicRef<Goroutine<P>>,
    /// The one behind it in its queue; nobody looks at that of the last one.
    next: AtomicRef<Self>,
    /// The one before it in its queue; `None` for the first one, and in no queue.
    previous: AtomicRef<Self>,
    /// What the waker tells the G, before it readies it; what it means is between the two.
    pub(crate) outcome: AtomicUsize,
    /// Its G if several may end the wait.
    goroutine: AtomicRef<Goroutine<P>>,
    /// What they claim then.
    ticket: AtomicU64,
    /// Where the waker finds or leaves what is handed over, if anything is: an address on the G's stack.
    pub(crate) place: AtomicPtr<()>,
}

impl<P: Platform> Waiter<P> {
    pub(crate) fn new() -> Self {
        Self::with(None, Ticket::SOLE, ptr::null_mut())
    }

    /// One that is [prepared](Self::prepare) for a wait that several may end.
    #[inline(always)]
    pub(crate) fn of_several(goroutine: &'static Goroutine<P>, ticket: Ticket, place: *mut ()) -> Self {
        debug_assert_ne!(ticket, Ticket::SOLE);
        Self::with(Some(goroutine), ticket, place)
    }

    #[inline(always)]
    fn with(goroutine: Option<&'static Goroutine<P>>, ticket: Ticket, place: *mut ()) -> Self {
        Self {
            sole: AtomicRef::none(),
            next: AtomicRef::none(),
            previous: AtomicRef::none(),
            outcome: AtomicUsize::new(0),
            goroutine: AtomicRef::new(goroutine),
            ticket: AtomicU64::new(ticket.0),
            place: AtomicPtr::new(place),
        }
    }

    /// Prepares it for a wait of `goroutine`, to which it belongs.
    #[inline(always)]
    pub(crate) fn prepare(&self, goroutine: &'static Goroutine<P>, ticket: Ticket, place: *mut ()) {
        if ticket == Ticket::SOLE {
            self.sole.store(Some(goroutine), Ordering::Relaxed);
        } else {
            self.sole.store(None, Ordering::Relaxed);
            self.goroutine.store(Some(goroutine), Ordering::Relaxed);
            self.ticket.store(ticket.0, Ordering::Relaxed);
        }
        self.place.store(place, Ordering::Relaxed);
    }

    /// The G that waits.
    ///
    /// # Panics
    ///
    /// It has never been prepared.
    #[inline]
    pub(crate) fn goroutine(&self) -> &'static Goroutine<P> {
        let sole = self.sole.load(Ordering::Relaxed);
        sole.unwrap_or_else(|| self.goroutine_of_several())
    }

    #[inline(always)]
    fn goroutine_of_several(&self) -> &'static Goroutine<P> {
        self.goroutine.load(Ordering::Relaxed).expect("a waiter is prepared before it is queued")
    }

    /// Ends the wait; gives the G, for the caller to ready, if this was still to be done.
    #[inline(always)]
    fn claim(&'static self) -> Option<&'static Goroutine<P>> {
        match self.sole.load(Ordering::Relaxed) {
            Some(goroutine) => Some(goroutine),
            None => self.claim_of_several(),
        }
    }

    #[inline]
    fn claim_of_several(&'static self) -> Option<&'static Goroutine<P>> {
        P::point(Site::Wait);
        let goroutine = self.goroutine_of_several();
        if !goroutine.claim_of_several(Ticket(self.ticket.load(Ordering::Relaxed))) {
            return None;
        }
        goroutine.woken_by.store(Some(self), Ordering::Relaxed);
        Some(goroutine)
    }

    /// Makes the G runnable whose wait the caller has ended by taking this out of a queue. To be called without the
    /// queue's lock.
    #[inline]
    pub(crate) fn ready(&'static self, pinned: &Pinned<P>) {
        ready_pinned(pinned, self.goroutine());
    }
}

/// Parks the caller, which has put its waiter into one queue, with [`Ticket::SOLE`].
///
/// `unlock` releases the queue's lock; it is run on the far side, when the G may be readied. The caller is pinned once. For
/// a G of a bubble the reason is what `in_bubble` gives.
#[inline(always)]
pub(crate) fn wait<P: Platform>(
    caller: Caller<P>,
    reason: WaitReason,
    in_bubble: impl FnOnce() -> WaitReason,
    unlock: impl FnOnce(),
) -> Pinned<P> {
    let unlock = ManuallyDrop::new(|_: &Pinned<P>, _: &'static Goroutine<P>| unlock());
    park_with(caller, reason, in_bubble, commit_closure(&unlock))
}

/// [`wait`] of a G that has put waiters into several queues, with one ticket. Gives the one it was woken by: whoever takes a
/// waiter from a queue leaves word.
#[inline(always)]
pub(crate) fn wait_for_any<P: Platform>(
    caller: Caller<P>,
    reason: WaitReason,
    in_bubble: impl FnOnce() -> WaitReason,
    unlock: impl FnOnce(),
) -> (Pinned<P>, Option<&'static Waiter<P>>) {
    let me = caller.me;
    let pinned = wait(caller, reason, in_bubble, unlock);
    (pinned, me.woken_by.load(Ordering::Relaxed))
}

/// [`wait`] for as long as `limit` says: gives `None` if that ended the wait. The waiters have the ticket.
/// Those that are still queued are the caller's to remove.
pub(crate) fn wait_until<'a, P: Platform>(
    caller: Caller<P>,
    reason: WaitReason,
    in_bubble: impl FnOnce() -> WaitReason,
    ticket: Ticket,
    limit: impl Into<Limit<'a, P>>,
    unlock: impl FnOnce(),
) -> Option<&'static Waiter<P>> {
    let (limit, me) = (limit.into(), caller.me);
    me.woken_by.store(None, Ordering::Relaxed);
    park_because(caller, reason, in_bubble, |pinned, me| {
        let arm_deadline = || {
            if limit.deadline() != Instant::NEVER {
                arm(pinned, me, limit.deadline(), &me.timer, Action::Wake(me, ticket));
            }
        };
        match limit.node() {
            Some(node) => node.enqueue(pinned, me, ticket, arm_deadline),
            None => arm_deadline(),
        }
        unlock();
        true
    });
    if let Some(node) = limit.node() {
        // Under the lock under which the far side queued and armed: it is through with both, whoever ended the wait.
        node.dequeue(me);
    }
    let waker = me.woken_by.load(Ordering::Relaxed).filter(|&waker| !ptr::eq(waker, &raw const me.context_waiter));
    if waker.is_some() || limit.node().is_some() {
        // If it has fired it lost, and does nothing any more to a ticket that is used.
        me.timer.cancel(&Pinned::new());
    }
    waker
}

impl<P: Platform> fmt::Debug for Waiter<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "std", not(gmp_loom)))]
mod tests {
    use alloc::vec::Vec;
    use core::time::Duration;
    use std::sync::Arc;

    use super::{WaitQueue, wait, wait_until};
    use crate::base::spin_lock::Lock;
    use crate::engine::caller::Caller;
    use crate::entities::goroutine::{Ticket, WaitReason};
    use crate::native::{self, Native, THREADS};
    use crate::platform::{Pinned, Platform};

    type Queue = Arc<Lock<WaitQueue<Native>, Native>>;

    fn stand_in(queue: &Queue) {
        let caller = Caller::<Native>::new();
        let me = caller.me;
        let guard = queue.lock();
        me.waiter.prepare(me, Ticket::SOLE, core::ptr::null_mut());
        guard.push_back(&me.waiter);
        let reason = WaitReason::Parked;
        drop(wait(caller, reason, || reason, || drop(guard)));
    }

    fn stand_in_for(queue: &Queue, time: Duration) -> bool {
        let deadline = Native::now().after(time);
        let caller = Caller::<Native>::new();
        let me = caller.me;
        let guard = queue.lock();
        let ticket = me.open_wait();
        me.waiter.prepare(me, ticket, core::ptr::null_mut());
        guard.push_back(&me.waiter);
        let reason = WaitReason::Parked;
        let woken = wait_until(caller, reason, || reason, ticket, deadline, || drop(guard)).is_some();
        queue.lock().remove(&me.waiter);
        woken
    }

    fn wake_one(queue: &Queue) -> bool {
        let pinned = Pinned::<Native>::new();
        let first = queue.lock().pop();
        first.map(|waiter| waiter.ready(&pinned)).is_some()
    }

    #[test]
    fn waiters_are_woken_in_order() {
        THREADS.run(1, || {
            let queue = Queue::new(Lock::new(WaitQueue::new()));
            let order = Arc::new(std::sync::Mutex::new(Vec::new()));
            let waiting: Vec<_> = (0..5)
                .map(|number| {
                    let (queue, order) = (queue.clone(), order.clone());
                    let handle = native::go(move || {
                        stand_in(&queue);
                        order.lock().unwrap().push(number);
                    });
                    native::yield_now();
                    handle
                })
                .collect();
            while wake_one(&queue) {
                native::yield_now();
            }
            for handle in waiting {
                handle.join().unwrap();
            }
            assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
        });
    }

    #[test]
    fn a_deadline_and_a_waker_end_a_wait_once() {
        THREADS.run(4, || {
            let queue = Queue::new(Lock::new(WaitQueue::new()));
            let waiting: Vec<_> = (0..64u64)
                .map(|number| {
                    let queue = queue.clone();
                    native::go(move || {
                        let tries = 0..100u64;
                        tries.filter(|n| stand_in_for(&queue, Duration::from_micros((number * 7 + n) % 50))).count()
                    })
                })
                .collect();
            let mut woken = 0;
            while !waiting.iter().all(|handle| handle.is_finished()) {
                woken += usize::from(wake_one(&queue));
                native::yield_now();
            }
            let told: usize = waiting.into_iter().map(|handle| handle.join().unwrap()).sum();
            assert_eq!(told, woken);
            assert!(queue.lock().is_empty());
        });
    }
}
