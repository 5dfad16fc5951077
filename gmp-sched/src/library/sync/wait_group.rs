//! Waiting for a number of Gs to finish. Go: `sync.WaitGroup` (sync/waitgroup.go, go1.27).

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::blocking::OnDrop;
use super::blocking::{Blocking, WakeList, my_waiter, ready};
use crate::base::atomic::{AtomicU64, Ordering};
use crate::base::error::OutOfResources;
use crate::base::points::Site;
use crate::base::spin_lock::Lock;
use crate::base::under_loom::const_fn;
use crate::engine::hooks::before_wait;
use crate::entities::bubble::Association;
use crate::entities::goroutine::WaitReason;
use crate::library::limit::{ContextError, Limit};
use crate::library::waiter::WaitQueue;
use crate::lifecycle::closure::__rust_begin_short_backtrace;
use crate::lifecycle::join::JoinHandle;
use crate::lifecycle::spawn::try_go_for;
use crate::platform::{Pinned, Platform};

/// A counter of pending tasks that Gs wait on until it is zero. Go: `sync.WaitGroup`.
///
/// The group can be reused as soon as its waiters have been readied, even before they have run. (In Go that is a
/// panic.) The group takes 40 bytes, and can be a `static`.
///
/// Changing the counter in a [bubble](crate#features) associates the group with the bubble. Until the counter is zero
/// again, only Gs of the bubble may change it. (That holds for a `static`, too, unlike in Go.) Any G may wait.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use gmp_sched::native::{self, WaitGroup};
///
/// unsafe { native::enter() }.run(2, || {
///     let (group, sum) = (Arc::new(WaitGroup::new()), Arc::new(AtomicU32::new(0)));
///     for n in 0..10 {
///         let sum = sum.clone();
///         group.go(move || drop(sum.fetch_add(n, Ordering::Relaxed)));
///     }
///     group.wait();
///     assert_eq!(sum.load(Ordering::Relaxed), 45);
/// });
/// ```
pub struct WaitGroup<Plat: Platform> {
    /// The counter in the upper half, and the number of waiters in the lower half. The lower half is changed under the
    /// lock only.
    word: AtomicU64,
    queue: Lock<WaitQueue<Plat>, Plat>,
    /// The bubble of the Gs that change the counter. Valid while the counter is not zero.
    bubble: Association<Plat>,
}

const ONE: u64 = 1 << 32;
const WAITERS: u64 = ONE - 1;
/// The highest bit, which the counter must not reach.
const TOO_MANY: u64 = ONE << 31;

impl<Plat: Platform> WaitGroup<Plat> {
    const_fn! {
        /// Makes a group with a counter of zero.
        ///
        /// ```
        /// static GROUP: gmp_sched::native::WaitGroup = gmp_sched::native::WaitGroup::new();
        /// GROUP.wait();
        /// ```
        #[must_use]
        pub fn new() -> Self {
            Self { word: AtomicU64::new(0), queue: Lock::new(WaitQueue::new()), bubble: Association::none() }
        }
    }

    /// Adds `count` to the counter. Does not block; callable from anywhere. Go: `Add`.
    ///
    /// As in Go, call this method before the tasks start and before `wait`. It must not be called while the counter is
    /// zero and waiters are still being released.
    ///
    /// ```
    /// use gmp_sched::native::WaitGroup;
    /// let group = WaitGroup::new();
    /// group.add(2);
    /// group.done();
    /// group.done();
    /// group.wait();
    /// ```
    ///
    /// # Panics
    ///
    /// - The counter is zero, and waiters are still being released.
    /// - The counter reaches 2^31.
    /// - A counter that is not zero is changed both inside and outside of a bubble, or in two bubbles.
    #[inline]
    #[track_caller]
    #[doc(alias = "Add")]
    pub fn add(&self, count: u32) {
        self.check_bubble();
        let mut before = self.word.load(Ordering::Relaxed);
        loop {
            let after = before.wrapping_add(u64::from(count) * ONE);
            // In most cases there are no waiters and the counter is far from 2^31.
            if after & (TOO_MANY | WAITERS) != 0 || count > i32::MAX as u32 {
                Self::check_add(before, count);
            }
            Plat::point(Site::Sync);
            // Ordering: Relaxed, because adding publishes nothing. (`done` publishes what the task did.)
            match self.word.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    /// Panics if `count` must not be added to `before`. The check comes before the addition, because a counter that is
    /// wrong even for a moment ends waits and makes other calls panic.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn check_add(before: u64, count: u32) {
        let is_late = before < ONE && before & WAITERS != 0 && count != 0;
        assert!(!is_late, "sync: WaitGroup misuse: Add called concurrently with Wait");
        assert!((before >> 32) + u64::from(count) <= i32::MAX as u64, "sync: WaitGroup counter overflows");
    }

    /// Subtracts one from the counter. If this call ends waits, the waiters see everything that the caller did before
    /// the call. Does not block; not callable from interrupts. Go: `Done`.
    ///
    /// ```
    /// use gmp_sched::native::WaitGroup;
    /// static GROUP: WaitGroup = WaitGroup::new();
    /// unsafe { gmp_sched::native::enter() }.run(1, || {
    ///     GROUP.add(1);
    ///     gmp_sched::native::go(|| GROUP.done()).detach();
    ///     GROUP.wait();
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// - The counter is zero.
    /// - A counter that is not zero is changed both inside and outside of a bubble, or in two bubbles.
    #[inline(always)]
    #[track_caller]
    #[doc(alias = "Done")]
    pub fn done(&self) {
        self.check_bubble();
        let mut before = self.word.load(Ordering::Relaxed);
        let after = loop {
            let Some(after) = before.checked_sub(ONE) else { negative() };
            Plat::point(Site::Sync);
            // Ordering: Release publishes to `wait` what this task did. Acquire makes the effects of the other tasks
            // visible to the last task, which readies the waiters.
            match self.word.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break after,
                Err(now) => before = now,
            }
        };
        if after < ONE && after != 0 {
            self.release();
        }
    }

    /// Panics if the group is used in different bubbles at the same time. Called before the counter changes.
    #[inline(always)]
    #[track_caller]
    fn check_bubble(&self) {
        self.bubble.check("sync: WaitGroup.Add", || self.word.load(Ordering::Relaxed) == 0);
    }

    /// Wakes the waiters after the counter has become zero. In most cases there is one waiter.
    #[inline(always)]
    fn release(&self) {
        let pinned = Pinned::<Plat>::of_scheduler();
        let queue = self.queue.lock();
        let first = queue.pop();
        let others = if queue.is_empty() { None } else { Some(Self::pop_others(&queue)) };
        Plat::point(Site::Sync);
        // Sets the number of waiters to 0. The number included waiters that were still queued although a deadline or a
        // cancellation had ended their wait. `pop` has removed these waiters from the queue, so their Gs will not
        // subtract them from the number.
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
        drop(queue);
        if let Some(first) = first {
            ready(first, &pinned);
        }
        if let Some(others) = others {
            others.ready(&pinned);
        }
    }

    #[cold]
    #[inline(never)]
    fn pop_others(queue: &WaitQueue<Plat>) -> WakeList<Plat> {
        WakeList::all_of(queue)
    }

    /// Waits until the counter is zero. Blocks the G; not callable from interrupts. Go: `Wait`.
    ///
    /// ```
    /// gmp_sched::native::WaitGroup::new().wait();
    /// ```
    ///
    /// # Panics
    ///
    /// The call has to wait, although the caller is pinned or is not a G with a P.
    #[inline]
    #[track_caller]
    #[doc(alias = "Wait")]
    pub fn wait(&self) {
        self.wait_for(None);
    }

    /// Waits like [`wait`](Self::wait), but no longer than `limit`, which is a deadline, a context or both.
    ///
    /// ```
    /// use gmp_sched::cancel::ContextError;
    /// use gmp_sched::native::{self, Context, WaitGroup};
    /// unsafe { native::enter() }.run(1, || {
    ///     let group = WaitGroup::new();
    ///     group.add(1);
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     cancel.cancel();
    ///     assert_eq!(group.wait_until(&context), Err(ContextError::Canceled));
    ///     group.done();
    ///     assert_eq!(group.wait_until(&context), Ok(()));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The counter was not zero within the limit.
    ///
    /// # Panics
    ///
    /// In the same cases as [`wait`](Self::wait).
    #[inline]
    #[track_caller]
    pub fn wait_until<'l>(&self, limit: impl Into<Limit<'l, Plat>>) -> Result<(), ContextError> {
        let limit = limit.into();
        if self.wait_for(Some(&limit)) { Ok(()) } else { Err(limit.ended()) }
    }

    #[inline(always)]
    #[track_caller]
    fn wait_for(&self, limit: Option<&Limit<'_, Plat>>) -> bool {
        before_wait::<Plat>();
        Plat::point(Site::Sync);
        // Ordering: Acquire; partner: the Release in `done`.
        self.word.load(Ordering::Acquire) < ONE || self.wait_slow(limit)
    }

    #[inline(always)]
    #[track_caller]
    fn wait_slow(&self, limit: Option<&Limit<'_, Plat>>) -> bool {
        let blocking = Blocking::<Plat>::new(WaitReason::WaitGroupWait, limit);
        let is_over = blocking.is_over();
        let queue = self.queue.lock();
        // If the counter is not zero, counts the caller as a waiter, so that the last `done` wakes the caller.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word < ONE || is_over {
                return word < ONE;
            }
            Plat::point(Site::Sync);
            match self.word.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if blocking.on(&self.bubble).wait(queue, 0, |queue, waiter| queue.push_back(waiter)).is_some() {
            return true;
        }
        let pinned = Pinned::<Plat>::of_scheduler();
        let queue = self.queue.lock();
        if queue.remove(my_waiter(&pinned)) {
            Plat::point(Site::Sync);
            self.word.fetch_sub(1, Ordering::Relaxed);
        }
        false
    }

    /// Waits like [`wait`](Self::wait), for `timeout` at most; returns whether the counter was zero.
    ///
    /// ```
    /// use gmp_sched::native::{self, WaitGroup};
    /// unsafe { native::enter() }.run(1, || {
    ///     let group = WaitGroup::new();
    ///     group.add(1);
    ///     assert!(!group.wait_timeout(std::time::Duration::from_millis(1)));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// In the same cases as [`wait_until`](Self::wait_until).
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.wait_for(Some(&Limit::after(timeout)))
    }

    /// Spawns a G that runs `body` as a task of this group. Go: `WaitGroup.Go`.
    ///
    /// A panic of `body` ends the program, because there is no join handle to report it to. (In a kernel with the
    /// option `panic=isolate`, it ends only the G. The task then counts as pending forever.)
    ///
    /// ```
    /// use std::sync::Arc;
    /// use gmp_sched::native::{self, WaitGroup};
    /// unsafe { native::enter() }.run(1, || {
    ///     let group = Arc::new(WaitGroup::new());
    ///     group.go(native::yield_now);
    ///     group.wait();
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// In the cases in which [`try_go`](Self::try_go) panics or returns an error.
    #[track_caller]
    #[doc(alias = "Go")]
    pub fn go(self: &Arc<Self>, body: impl FnOnce() + Send + 'static) {
        if let Err(error) = self.try_go(body) {
            panic!("cannot spawn a G: {error}");
        }
    }

    /// Like [`go`](Self::go), but returns an error if there is no memory.
    ///
    /// # Errors
    ///
    /// There is no memory for the G or its stack. `body` is dropped; nothing else has happened.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P, or [`add`](Self::add) panics.
    #[track_caller]
    pub fn try_go<F: FnOnce() + Send + 'static>(self: &Arc<Self>, body: F) -> Result<(), OutOfResources> {
        self.add(1);
        let group = Arc::clone(self);
        // The closure owns `done`, so `group.done()` is called even if the spawn fails or panics.
        let done = OnDrop(move || group.done());
        let spawned = try_go_for::<Plat, F, _, _>(move || {
            let (body, _done) = (body, done);
            __rust_begin_short_backtrace(body);
        });
        spawned.map(JoinHandle::detach)
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn negative() -> ! {
    panic!("sync: negative WaitGroup counter");
}

impl<Plat: Platform> Default for WaitGroup<Plat> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Plat: Platform> fmt::Debug for WaitGroup<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("WaitGroup").field("under_way", &(word >> 32)).field("waiting", &(word & WAITERS)).finish()
    }
}
