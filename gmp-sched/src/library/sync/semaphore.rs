//! Counting semaphores. Go: `golang.org/x/sync/semaphore`.

mod permit;

use core::fmt;
use core::time::Duration;

pub use self::permit::Permit;
use super::blocking::{Blocking, WakeList, my_waiter};
use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::points::Site;
use crate::base::spin_lock::Lock;
use crate::base::under_loom::const_fn;
use crate::engine::hooks::before_wait;
use crate::entities::goroutine::WaitReason;
use crate::library::limit::{ContextError, Limit};
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

/// A counting semaphore. A G acquires one or several permits at once, and waits until there are enough. Go: `Weighted`.
///
/// Waiters are served in FIFO order. Later requests for few permits do not overtake a request for many, so no G
/// starves. A semaphore takes 32 bytes and can be a `static`.
///
/// ```
/// use gmp_sched::native::{self, Semaphore};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// static SLOTS: Semaphore = Semaphore::new(3);
/// static BUSY: AtomicU32 = AtomicU32::new(0);
///
/// unsafe { native::enter() }.run(4, || {
///     let all: Vec<_> = (0..20)
///         .map(|_| {
///             native::go(|| {
///                 let _permit = SLOTS.acquire(1);
///                 assert!(BUSY.fetch_add(1, Ordering::SeqCst) < 3);
///                 native::yield_now();
///                 BUSY.fetch_sub(1, Ordering::SeqCst);
///             })
///         })
///         .collect();
///     all.into_iter().for_each(|handle| handle.join().unwrap());
/// });
/// ```
#[doc(alias = "Weighted")]
pub struct Semaphore<Plat: Platform> {
    /// Twice the number of free permits, plus the bit [`QUEUED`].
    word: AtomicU32,
    size: u32,
    queue: Lock<WaitQueue<Plat>, Plat>,
}

/// Set while the queue may have waiters. A new request must not overtake them. This bit is changed under the lock only.
const QUEUED: u32 = 1;
/// One free permit.
const ONE: u32 = 2;

impl<Plat: Platform> Semaphore<Plat> {
    /// Maximum number of permits.
    ///
    /// ```
    /// use gmp_sched::native::Semaphore;
    /// assert_eq!(Semaphore::new(Semaphore::MAX).available(), u32::MAX / 2);
    /// ```
    pub const MAX: u32 = u32::MAX / ONE;

    const_fn! {
        /// Makes a semaphore with `permits` free permits.
        ///
        /// ```
        /// assert_eq!(gmp_sched::native::Semaphore::new(2).available(), 2);
        /// ```
        ///
        /// # Panics
        ///
        /// `permits` is more than [`MAX`](Self::MAX).
        #[must_use]
        #[track_caller]
        pub fn new(permits: u32) -> Self {
            assert!(permits <= Self::MAX, "a semaphore with too many permits");
            Self { word: AtomicU32::new(permits * ONE), size: permits, queue: Lock::new(WaitQueue::new()) }
        }
    }

    /// The number of free permits at the moment. Callable from anywhere.
    ///
    /// ```
    /// let semaphore = gmp_sched::native::Semaphore::new(2);
    /// let permit = semaphore.acquire(1);
    /// assert_eq!(semaphore.available(), 1);
    /// ```
    pub fn available(&self) -> u32 {
        self.word.load(Ordering::Relaxed) / ONE
    }

    /// Acquires `permits`, waiting until they are free. Blocks the G; not callable from interrupts.
    ///
    /// ```
    /// let semaphore = gmp_sched::native::Semaphore::new(2);
    /// drop(semaphore.acquire(2));
    /// ```
    ///
    /// # Panics
    ///
    /// - `permits` is more than the semaphore has in total.
    /// - The call has to wait, although the caller is pinned or is not a G with a P.
    #[inline]
    #[track_caller]
    #[doc(alias = "Acquire")]
    pub fn acquire(&self, permits: u32) -> Permit<'_, Plat> {
        self.take(permits, None, WaitReason::SemAcquire);
        Permit { semaphore: self, permits }
    }

    /// Like [`acquire`](Self::acquire) for one permit, with another reason for the wait.
    #[cfg(feature = "std")]
    #[track_caller]
    pub(crate) fn acquire_for(&self, reason: WaitReason) -> Permit<'_, Plat> {
        self.take(1, None, reason);
        Permit { semaphore: self, permits: 1 }
    }

    /// Like [`acquire`](Self::acquire), but waits no longer than `limit`, which is a deadline, a context or both. Go:
    /// `Acquire`, which takes a context.
    ///
    /// ```
    /// use gmp_sched::cancel::ContextError;
    /// use gmp_sched::native::{self, Context, Semaphore};
    /// unsafe { native::enter() }.run(1, || {
    ///     let semaphore = Semaphore::new(1);
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     let _held = semaphore.acquire_until(1, &context).unwrap();
    ///     cancel.cancel();
    ///     assert_eq!(semaphore.acquire_until(1, &context).unwrap_err(), ContextError::Canceled);
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The permits were not free within the limit.
    ///
    /// # Panics
    ///
    /// - `permits` is more than the semaphore has in total, and `limit` is never over. (Otherwise the call waits until
    ///   `limit` is over. The request is not queued, so requests that can be granted do not wait behind it.)
    /// - The call has to wait, although the caller is pinned or is not a G with a P.
    /// - When the limit ends the wait, later waiters may get permits. The call panics if such a waiter is in a
    ///   [bubble](crate#features) and the caller is outside of it. That waiter gets the permits nevertheless.
    #[track_caller]
    pub fn acquire_until<'l>(
        &self,
        permits: u32,
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<Permit<'_, Plat>, ContextError> {
        let limit = limit.into();
        if self.take(permits, Some(&limit), WaitReason::SemAcquire) {
            Ok(Permit { semaphore: self, permits })
        } else {
            Err(limit.ended())
        }
    }

    /// Like [`acquire`](Self::acquire), but waits for `timeout` at most; returns `None` on timeout.
    ///
    /// ```
    /// use gmp_sched::native::{self, Semaphore};
    /// unsafe { native::enter() }.run(1, || {
    ///     let semaphore = Semaphore::new(1);
    ///     let _held = semaphore.acquire(1);
    ///     assert!(semaphore.acquire_timeout(1, std::time::Duration::from_millis(1)).is_none());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// In the same cases as [`acquire_until`](Self::acquire_until).
    #[track_caller]
    pub fn acquire_timeout(&self, permits: u32, timeout: Duration) -> Option<Permit<'_, Plat>> {
        self.acquire_until(permits, Limit::after(timeout)).ok()
    }

    /// Acquires `permits` if they are free and no G waits. Does not block; callable from anywhere.
    ///
    /// ```
    /// let semaphore = gmp_sched::native::Semaphore::new(2);
    /// let first = semaphore.try_acquire(2).unwrap();
    /// assert!(semaphore.try_acquire(1).is_none());
    /// ```
    #[inline]
    #[doc(alias = "TryAcquire")]
    pub fn try_acquire(&self, permits: u32) -> Option<Permit<'_, Plat>> {
        self.try_take(permits).then(|| Permit { semaphore: self, permits })
    }

    /// Releases `permits` whose [`Permit`] was forgotten. Does not block; not callable from interrupts.
    ///
    /// ```
    /// let semaphore = gmp_sched::native::Semaphore::new(2);
    /// semaphore.acquire(1).forget();
    /// semaphore.release(1);
    /// assert_eq!(semaphore.available(), 2);
    /// ```
    ///
    /// # Panics
    ///
    /// - Fewer than `permits` permits are acquired at the moment.
    /// - A waiter that gets permits is in a [bubble](crate#features), and the caller is outside of it. The waiter gets
    ///   the permits nevertheless.
    #[inline]
    #[track_caller]
    #[doc(alias = "Release")]
    pub fn release(&self, permits: u32) {
        while !self.try_give(permits) {
            if self.give_queued(permits) {
                return;
            }
        }
    }

    #[inline]
    #[track_caller]
    fn take(&self, permits: u32, limit: Option<&Limit<'_, Plat>>, reason: WaitReason) -> bool {
        before_wait::<Plat>();
        self.try_take(permits) || self.take_slow(permits, limit, reason)
    }

    #[inline]
    fn try_take(&self, permits: u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & QUEUED != 0 || word / ONE < permits {
                return false;
            }
            Plat::point(Site::Sync);
            // Ordering: Acquire; partner: the Release of `try_give` and `grant`.
            let next = word - permits * ONE;
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    #[cold]
    #[track_caller]
    fn take_slow(&self, permits: u32, limit: Option<&Limit<'_, Plat>>, reason: WaitReason) -> bool {
        let is_possible = permits <= self.size;
        let may_wait = is_possible || limit.is_some_and(|limit| !limit.is_none());
        assert!(may_wait, "semaphore: {permits} of {} permits", self.size);
        let blocking = Blocking::<Plat>::new(reason, limit);
        if blocking.is_over() {
            return false;
        }
        if !is_possible {
            let granted = blocking.wait((), 0, |(), _| ());
            debug_assert!(granted.is_none(), "nobody grants a request that is not queued");
            return false;
        }
        let queue = self.queue.lock();
        if self.take_or_mark(permits) {
            return true;
        }
        if blocking.wait(queue, permits as usize, |queue, waiter| queue.push_back(waiter)).is_some() {
            return true;
        }
        let pinned = Pinned::<Plat>::of_scheduler();
        let to_wake = {
            let queue = self.queue.lock();
            queue.remove(my_waiter(&pinned));
            // Grants permits to the waiters that were behind this G in the queue, because they may need fewer permits
            // than this G.
            let word = self.word.load(Ordering::Relaxed);
            if word & QUEUED != 0 { self.grant(&queue, word / ONE) } else { WakeList::none() }
        };
        to_wake.ready_durable(pinned);
        false
    }

    /// Acquires `permits` if they are free and no G waits; otherwise sets `QUEUED`. Called under the lock.
    fn take_or_mark(&self, permits: u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let is_free = word & QUEUED == 0 && word / ONE >= permits;
            let next = if is_free { word - permits * ONE } else { word | QUEUED };
            Plat::point(Site::Sync);
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return is_free,
                Err(now) => word = now,
            }
        }
    }

    /// Adds `permits` to the free permits. Returns `false`, and adds nothing, if there may be waiters.
    #[inline]
    #[track_caller]
    fn try_give(&self, permits: u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & QUEUED == 0 {
            self.check_given(word, permits);
            Plat::point(Site::Sync);
            // Ordering: Release; partners: the Acquires in `try_take` and `take_or_mark`.
            let next = word + permits * ONE;
            match self.word.compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[inline]
    #[track_caller]
    fn check_given(&self, word: u32, permits: u32) {
        assert!(permits <= self.size - word / ONE, "semaphore: released more than held");
    }

    /// Releases `permits` and grants the free permits to waiters. Returns `false`, and releases nothing, if `QUEUED` is
    /// not set any more.
    #[cold]
    #[track_caller]
    fn give_queued(&self, permits: u32) -> bool {
        let pinned = Pinned::<Plat>::of_scheduler();
        let queue = self.queue.lock();
        let word = self.word.load(Ordering::Relaxed);
        if word & QUEUED == 0 {
            return false;
        }
        if permits > self.size - word / ONE {
            // The program has misused the semaphore. Unlock and unpin before the panic.
            drop((queue, pinned));
            self.check_given(word, permits);
        } else {
            let to_wake = self.grant(&queue, word / ONE + permits);
            drop(queue);
            to_wake.ready_durable(pinned);
        }
        true
    }

    /// Grants the `free` permits to waiters in queue order, until a waiter needs more than are left. Stores the rest as
    /// free. Called under the lock while `QUEUED` is set, so no other G changes the word. The caller readies the
    /// waiters after it has released the lock.
    fn grant(&self, queue: &WaitQueue<Plat>, mut free: u32) -> WakeList<Plat> {
        let mut to_wake = WakeList::none();
        while let Some(first) = queue.pop_if(|first| first.outcome.load(Ordering::Relaxed) <= free as usize) {
            free -= first.outcome.load(Ordering::Relaxed) as u32;
            to_wake.push(first);
        }
        let queued = if queue.is_empty() { 0 } else { QUEUED };
        Plat::point(Site::Sync);
        // Ordering: Release; partners: the Acquires in `try_take` and `take_or_mark`. Readying the granted waiters
        // synchronises with them.
        self.word.swap((free * ONE) | queued, Ordering::Release);
        to_wake
    }
}

impl<Plat: Platform> fmt::Debug for Semaphore<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
