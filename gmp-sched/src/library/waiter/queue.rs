//! A FIFO of [waiters](Waiter), linked through fields of the waiters.

use core::fmt;
use core::hint::cold_path;
use core::ptr;

use crate::base::atomic::Ordering;
use crate::base::reference::AtomicRef;
use crate::base::under_loom::const_fn;
use crate::engine::hooks::Window;
use crate::entities::goroutine::Goroutine;
use crate::entities::waiter::Waiter;
use crate::entities::window::At;
use crate::platform::{Pinned, Platform};

/// A FIFO of waiters, changed only under the lock of the object that is waited for. Go: `waitq`.
#[doc(alias = "waitq")]
pub(crate) struct WaitQueue<Plat: Platform> {
    first: AtomicRef<Waiter<Plat>>,
    /// The last waiter. The reference is outdated while `first` is `None`, because the removal of the only waiter
    /// clears only `first`.
    last: AtomicRef<Waiter<Plat>>,
}

impl<Plat: Platform> WaitQueue<Plat> {
    const_fn! {
        /// Makes an empty queue.
        pub(crate) fn new() -> Self {
            Self { first: AtomicRef::none(), last: AtomicRef::none() }
        }
    }

    /// Whether the queue is empty. A waiter stays in the queue until it is removed, even if its wait has ended before
    /// that. Callable without the lock.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: Acquire, so that later loads of a caller without the lock do not see an earlier state. Partner:
        // the Release of each store to `first`.
        self.first.load(Ordering::Acquire).is_none()
    }

    /// The waiter at the front of the queue.
    #[inline]
    pub(crate) fn front(&self) -> Option<&'static Waiter<Plat>> {
        self.first.load(Ordering::Relaxed)
    }

    /// Appends a waiter that is in no queue.
    #[inline]
    pub(crate) fn push_back(&self, waiter: &'static Waiter<Plat>) {
        debug_assert!(waiter.previous.load(Ordering::Relaxed).is_none(), "{waiter:?} is queued already");
        if self.first.load(Ordering::Relaxed).is_none() {
            self.first.store(Some(waiter), Ordering::Release);
            self.last.store(Some(waiter), Ordering::Relaxed);
        } else {
            cold_path();
            self.push_behind_others(waiter);
        }
    }

    /// Does what [`push_back`](Self::push_back) does, for a queue that is not empty.
    #[inline]
    fn push_behind_others(&self, waiter: &'static Waiter<Plat>) {
        let last = self.last.load(Ordering::Relaxed);
        waiter.previous.store(last, Ordering::Relaxed);
        if let Some(last) = last {
            last.next.store(Some(waiter), Ordering::Relaxed);
        }
        self.last.store(Some(waiter), Ordering::Relaxed);
    }

    /// Prepends a waiter that is in no queue.
    pub(crate) fn push_front(&self, waiter: &'static Waiter<Plat>) {
        let first = self.front();
        debug_assert!(waiter.previous.load(Ordering::Relaxed).is_none(), "{waiter:?} is queued already");
        waiter.next.store(first, Ordering::Relaxed);
        match first {
            Some(first) => first.previous.store(Some(waiter), Ordering::Relaxed),
            None => self.last.store(Some(waiter), Ordering::Relaxed),
        }
        self.first.store(Some(waiter), Ordering::Release);
    }

    /// Removes `waiter` if it is in this queue; returns whether it was. The waiter must not be in another queue.
    #[inline(always)]
    pub(crate) fn remove(&self, waiter: &'static Waiter<Plat>) -> bool {
        if self.is_first(waiter) && self.is_last(waiter) {
            self.take_only();
            return true;
        }
        cold_path();
        self.remove_from_others(waiter)
    }

    /// Does the rest of [`remove`](Self::remove) if `waiter` is not the only waiter in the queue. `waiter` may be in no
    /// queue at all.
    #[inline(never)]
    fn remove_from_others(&self, waiter: &'static Waiter<Plat>) -> bool {
        if self.is_first(waiter) {
            self.unlink_first(waiter);
            return true;
        }
        let Some(previous) = waiter.previous.load(Ordering::Relaxed) else { return false };
        waiter.previous.store(None, Ordering::Relaxed);
        if self.is_last(waiter) {
            self.last.store(Some(previous), Ordering::Relaxed);
        } else {
            let next = waiter.next.load(Ordering::Relaxed);
            previous.next.store(next, Ordering::Relaxed);
            if let Some(next) = next {
                next.previous.store(Some(previous), Ordering::Relaxed);
            }
        }
        true
    }

    /// Whether `waiter` is the first one.
    #[inline(always)]
    fn is_first(&self, waiter: &'static Waiter<Plat>) -> bool {
        self.front().is_some_and(|first| ptr::eq(first, waiter))
    }

    /// Whether `waiter`, which is in this queue, is the last one.
    #[inline(always)]
    fn is_last(&self, waiter: &'static Waiter<Plat>) -> bool {
        self.last.load(Ordering::Relaxed).is_some_and(|last| ptr::eq(last, waiter))
    }

    /// Removes the first waiter, whether its wait has been ended or not.
    #[inline]
    fn remove_front(&self) -> Option<&'static Waiter<Plat>> {
        let waiter = self.front()?;
        self.unlink_first(waiter);
        Some(waiter)
    }

    /// Removes `waiter`, which is the first one.
    #[inline(always)]
    fn unlink_first(&self, waiter: &'static Waiter<Plat>) {
        if self.is_last(waiter) {
            self.take_only();
        } else {
            let next = waiter.next.load(Ordering::Relaxed);
            self.first.store(next, Ordering::Release);
            if let Some(next) = next {
                next.previous.store(None, Ordering::Relaxed);
            }
        }
    }

    /// Removes the only waiter.
    #[inline(always)]
    fn take_only(&self) {
        self.first.store(None, Ordering::Release);
    }

    /// Removes waiters from the front, up to and including the first one whose wait has not ended. Ends the wait of
    /// that waiter. The caller must ready the G of the returned waiter, after it has released the lock.
    #[inline]
    pub(crate) fn pop(&self) -> Option<&'static Waiter<Plat>> {
        self.pop_with_goroutine().map(|(waiter, _)| waiter)
    }

    /// Does what [`pop`](Self::pop) does, and also returns the G.
    #[inline(always)]
    pub(crate) fn pop_with_goroutine(&self) -> Option<(&'static Waiter<Plat>, &'static Goroutine<Plat>)> {
        loop {
            let waiter = self.remove_front()?;
            if let Some(goroutine) = waiter.claim() {
                return Some((waiter, goroutine));
            }
        }
    }

    /// Removes all waiters, and ends those of their waits that no other waker has ended. The outcome of these waits is
    /// zero. Returns their waiters.
    pub(crate) fn take_all(&self) -> Woken<Plat> {
        let mut woken = Woken { last: None };
        while let Some(waiter) = self.pop() {
            waiter.outcome.store(0, Ordering::Relaxed);
            waiter.previous.store(woken.last, Ordering::Relaxed);
            woken.last = Some(waiter);
        }
        woken
    }

    /// Pops like [`pop`](Self::pop), but returns `None` if it comes to a waiter that is not `wanted`. `wanted` is also
    /// called for a waiter whose wait has been ended by another waker. If such a waiter is not wanted, it blocks the
    /// waiters behind it until it has left the queue.
    pub(crate) fn pop_if(&self, wanted: impl Fn(&'static Waiter<Plat>) -> bool) -> Option<&'static Waiter<Plat>> {
        loop {
            let waiter = self.front().filter(|&first| wanted(first))?;
            self.remove(waiter);
            if waiter.claim().is_some() {
                return Some(waiter);
            }
        }
    }
}

/// Waiters whose waits have been ended and whose Gs must be readied. The list is used without a lock.
#[must_use = "the waker that ends a wait must ready the G"]
pub(crate) struct Woken<Plat: Platform> {
    last: Option<&'static Waiter<Plat>>,
}

impl<Plat: Platform> Woken<Plat> {
    /// Readies the Gs of all waiters, the last one first, as Go's `closechan` does. So the G that has waited longest is
    /// readied last, and ends up in `runnext`.
    #[inline]
    pub(crate) fn ready_all(self, pinned: &Pinned<Plat>) {
        if self.last.is_some() {
            let window = Window::<Plat>::open(At::Wakeup);
            self.for_each(|waiter| waiter.ready(pinned));
            window.close();
        }
    }

    /// Calls `ready` for each waiter, the last one first.
    pub(crate) fn for_each(self, mut ready: impl FnMut(&'static Waiter<Plat>)) {
        let mut next = self.last;
        while let Some(waiter) = next {
            // Loaded before `ready` is called, because a readied waiter may be queued again at once.
            next = waiter.previous.load(Ordering::Relaxed);
            waiter.previous.store(None, Ordering::Relaxed);
            ready(waiter);
        }
    }
}

impl<Plat: Platform> fmt::Debug for WaitQueue<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "WaitQueue(empty)" } else { "WaitQueue" })
    }
}
