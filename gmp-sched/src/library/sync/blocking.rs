//! What the waits of all primitives of `sync` have in common.

use core::ptr;

use crate::base::atomic::Ordering;
use crate::engine::hooks::Window;
use crate::entities::bubble::BubbleRef;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{WaitGeneration, WaitReason};
use crate::entities::wait_reason::{Awaited, WaitFor};
use crate::entities::waiter::Waiter;
use crate::entities::window::At;
use crate::library::limit::Limit;
use crate::library::waiter::WaitQueue;
#[cfg(not(gmp_loom))]
use crate::library::waiter::wait;
use crate::platform::{Pinned, Platform};

/// Proof that the caller is a G that may block. It permits one wait.
///
/// The proof is made before the lock of the queue is taken. Making it may panic, and a panic must not happen with the
/// lock held.
pub(super) struct Blocking<'a, Plat: Platform> {
    caller: CurrentGoroutine<Plat>,
    wait_for: WaitFor<'a>,
    limit: Option<&'a Limit<'a, Plat>>,
}

impl<'a, Plat: Platform> Blocking<'a, Plat> {
    /// Makes the proof for one wait with the wait reason `reason`. The wait ends when `limit`, if any, is over.
    ///
    /// # Panics
    ///
    /// The caller is pinned or is not a G with a P.
    #[inline(always)]
    #[track_caller]
    pub(super) fn new(reason: WaitReason, limit: Option<&'a Limit<'a, Plat>>) -> Self {
        Self { caller: CurrentGoroutine::new(), wait_for: reason.into(), limit }
    }

    /// Makes this the proof for a wait for `object`. The wait of a G in a bubble is durable if `object` is in that bubble.
    #[inline(always)]
    pub(super) fn on<'b>(self, object: &'b dyn Awaited) -> Blocking<'b, Plat>
    where
        'a: 'b,
    {
        let Self { caller, wait_for, limit } = self;
        Blocking { caller, wait_for: WaitFor::new(wait_for.reason(), object), limit }
    }

    /// Whether the limit is over already. Reads the clock only if there is a deadline.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| limit.err().is_some())
    }

    /// Queues the calling G by `enqueue`, and waits. `guard`, the lock of the queue, is dropped on the far side.
    /// Returns the outcome that the waker stored, or `None` if the limit ended the wait. After `None` the waiter may
    /// still be in the queue.
    ///
    /// At first the waiter's outcome is `note`, which the waker may read before it stores the outcome of the wait. If
    /// the waker stores no outcome, this function returns `note`.
    #[inline(always)]
    #[cfg_attr(feature = "std", track_caller)]
    pub(super) fn wait<G>(
        self,
        mut guard: G,
        note: usize,
        enqueue: impl FnOnce(&mut G, &'static Waiter<Plat>),
    ) -> Option<usize> {
        let Self { caller, wait_for, limit } = self;
        let me = caller.me;
        let window = Window::<Plat>::open(At::WaitQueue);
        let generation = if limit.is_some() { me.open_wait() } else { WaitGeneration::SOLE };
        me.waiter.prepare(me, generation, ptr::null_mut());
        me.waiter.outcome.store(note, Ordering::Relaxed);
        enqueue(&mut guard, &me.waiter);
        #[cfg(gmp_loom)]
        {
            // Under loom, only a part of a park is modelled, because a whole park has too many steps for models of
            // three Gs.
            let _ = (caller, wait_for);
            crate::entities::loom_wait::wait(me, || drop(guard));
        }
        #[cfg(not(gmp_loom))]
        let ended_by = wait(caller, wait_for, generation, limit.copied(), || drop(guard));
        window.close();
        #[cfg(not(gmp_loom))]
        if ended_by.is_some() {
            return None;
        }
        Some(me.waiter.outcome.load(Ordering::Relaxed))
    }
}

/// Readies the G of `waiter`. The caller has ended the wait of that G.
#[inline]
pub(super) fn ready<Plat: Platform>(waiter: &'static Waiter<Plat>, pinned: &Pinned<Plat>) {
    let window = Window::<Plat>::open(At::Wakeup);
    #[cfg(not(gmp_loom))]
    waiter.ready(pinned);
    #[cfg(gmp_loom)]
    {
        let _ = pinned;
        assert!(crate::entities::loom_wait::ready(waiter.goroutine()), "readied a G that does not wait");
    }
    window.close();
}

/// The waiter of the calling G.
pub(super) fn my_waiter<Plat: Platform>(pinned: &Pinned<Plat>) -> &'static Waiter<Plat> {
    &pinned.goroutine().waiter
}

/// A guard whose drop calls the contained function, to clean up after a wait that fails or panics.
#[derive(Debug)]
pub(super) struct OnDrop<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Waiters whose waits were ended under a lock. Their Gs are readied after the lock is released, in queue order. Linux:
/// `wake_q`.
#[must_use]
pub(super) struct WakeList<Plat: Platform> {
    /// The first waiter. In most cases it is the only one, and the list `others` is not used.
    first: Option<&'static Waiter<Plat>>,
    others: WaitQueue<Plat>,
}

impl<Plat: Platform> WakeList<Plat> {
    /// Makes an empty list.
    #[inline]
    pub(super) fn none() -> Self {
        Self { first: None, others: WaitQueue::new() }
    }

    /// Removes all waiters from `queue`, ends their waits, and returns a list of them.
    #[inline]
    pub(super) fn all_of(queue: &WaitQueue<Plat>) -> Self {
        let mut to_wake = Self::none();
        while let Some(waiter) = queue.pop() {
            to_wake.push(waiter);
        }
        to_wake
    }

    /// Adds a waiter that was popped from its queue.
    #[inline]
    pub(super) fn push(&mut self, waiter: &'static Waiter<Plat>) {
        match self.first {
            None => self.first = Some(waiter),
            Some(_) => self.others.push_back(waiter),
        }
    }

    /// Readies the Gs of all waiters.
    #[inline]
    pub(super) fn ready(self, pinned: &Pinned<Plat>) {
        self.ready_each(pinned, |_| ());
    }

    /// Readies the Gs like [`ready`](Self::ready), and returns the number of waiters. Used for objects on which a G of
    /// a bubble always waits durably, even if the object was made outside of the bubble.
    ///
    /// # Panics
    ///
    /// A waiter waits durably in a bubble, and the caller is outside of it. All Gs are readied before the panic,
    /// because no other waker would ready them.
    #[inline]
    #[track_caller]
    pub(super) fn ready_durable(self, pinned: Pinned<Plat>) -> usize {
        let (mut count, mut is_foreign) = (0, false);
        self.ready_each(&pinned, |waiter| {
            count += 1;
            let goroutine = waiter.goroutine();
            is_foreign |= goroutine.wait_reason().is_durable() && BubbleRef::of(goroutine).is_foreign();
        });
        drop(pinned);
        assert!(!is_foreign, "semaphore wake of synctest goroutine from outside bubble");
        count
    }

    /// For each waiter, calls `inspect` and then readies its G.
    #[inline]
    fn ready_each(self, pinned: &Pinned<Plat>, mut inspect: impl FnMut(&'static Waiter<Plat>)) {
        let Some(first) = self.first else { return };
        let window = Window::<Plat>::open(At::Wakeup);
        inspect(first);
        ready(first, pinned);
        while let Some(waiter) = self.others.front() {
            // The waiter is removed first, because its G may put it into another queue as soon as the G runs.
            self.others.remove(waiter);
            inspect(waiter);
            ready(waiter, pinned);
        }
        window.close();
    }
}
