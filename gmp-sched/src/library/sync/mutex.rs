//! Mutual exclusion: a word that lock and unlock change by one compare-exchange each while nobody waits, and a queue.
//!
//! Go: `Mutex` (internal/sync/mutex.go, go1.27), with one state fewer.
//!
//! ```text
//!                 lock                      lock, and has to wait
//!   free ◀──────────────────▶ HELD ◀──────────────────────────────▶ HELD|QUEUED
//!                unlock                                                  │ unlock: wakes the first
//!                                                                        ▼
//!                     HELD|AWAKE[|QUEUED] ◀──── anyone locks ────── AWAKE[|QUEUED]
//! ```
//!
//! Normally unlock frees the mutex and wakes the first in the queue, which then has to compete for it: whoever runs
//! already gets it more often than not, and no switch is needed for each lock. While one that was woken is on its way
//! (`AWAKE`) no other is woken. If it comes too late it goes back to the head of the queue. That is unfair, so a waiter
//! that has waited for [`STARVING`] is not woken to compete: the mutex is *handed over* to it. It stays `HELD` throughout,
//! and nobody can get in between. Go keeps a starvation mode for this, which newcomers look at; here the time that the
//! first waiter began to wait is looked at by unlock, and newcomers need not know.

#![cfg_attr(not(gmp_loom), expect(unsafe_code, reason = "promises mutual exclusion to lock_api"))]

use core::fmt;
use core::time::Duration;

#[cfg(not(gmp_loom))]
use lock_api::GuardSend;

use super::blocking::{Blocking, my_waiter, ready};
use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::WaitReason;
use crate::library::cancel::Limit;
use crate::library::time::Instant;
use crate::library::waiter::{WaitQueue, Waiter};
use crate::platform::{Pinned, Platform, Site};

/// A value that one G at a time can get at. Go: `sync.Mutex`.
///
/// Lock with [`lock`](lock_api::Mutex::lock), which blocks, or the `try_lock` methods; the guard unlocks. Size of the value
/// plus 32 bytes; can be a `static`.
///
/// ```
/// use gmp_sched::native::{self, Mutex};
/// static COUNT: Mutex<u32> = Mutex::new(0);
///
/// unsafe { native::enter() }.run(2, || {
///     let counting: Vec<_> = (0..10).map(|_| native::go(|| *COUNT.lock() += 1)).collect();
///     counting.into_iter().for_each(|handle| handle.join().unwrap());
/// });
/// assert_eq!(*COUNT.lock(), 10);
/// ```
///
/// With a limit to the wait:
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, Mutex};
///
/// unsafe { native::enter() }.run(1, || {
///     let mutex = Mutex::new(());
///     let held = mutex.lock();
///     assert!(mutex.try_lock().is_none());
///     assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
///     drop(held);
///     assert!(mutex.try_lock().is_some());
/// });
/// ```
///
/// # Panics
///
/// Where it would have to wait: the caller is not a G, or has preemption turned off.
#[cfg(not(gmp_loom))]
pub type Mutex<T, P> = lock_api::Mutex<RawMutex<P>, T>;

/// The right to the value of a [`Mutex`], which is unlocked when this is dropped. Can be sent to another G.
///
/// ```
/// use gmp_sched::native::{self, Mutex, MutexGuard};
///
/// fn reset(mut guard: MutexGuard<'_, u32>) {
///     *guard = 0;
/// }
///
/// let mutex = Mutex::new(1);
/// unsafe { native::enter() }.run(1, move || {
///     reset(mutex.lock());
///     assert_eq!(*mutex.lock(), 0);
/// });
/// ```
#[cfg(not(gmp_loom))]
pub type MutexGuard<'a, T, P> = lock_api::MutexGuard<'a, RawMutex<P>, T>;

/// Somebody holds it.
const HELD: u32 = 1;
/// One that stood in the queue was woken and has not tried again yet; no other is woken meanwhile. Go: `mutexWoken`.
const AWAKE: u32 = 2;
/// Somebody may stand in the queue. Changed under the lock of the queue only.
const QUEUED: u32 = 4;

/// How long a waiter lets others get ahead of it. Go: `starvationThresholdNs`, 1 ms.
const STARVING: Duration = Duration::from_millis(1);

/// Looks at a mutex that another M is likely to unlock in a moment, before a G is queued. Go: `active_spin`.
const SPINS: u32 = if cfg!(gmp_loom) { 0 } else { 4 };
/// Pauses between two looks. Go: `active_spin_cnt`.
const PAUSES: u32 = 30;

/// Outcome of a wait: the mutex is free, or was; try again.
const COMPETE: usize = 1;
/// Outcome of a wait: the mutex is the waiter's.
const HANDED_OVER: usize = 2;

/// Who gets the mutex that is unlocked while Gs wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fairness {
    /// Whoever comes first, unless the first in the queue has waited for too long.
    Normal,
    /// The first in the queue.
    HandOver,
}

/// The mutex without the value, for [`lock_api`].
///
/// ```
/// use gmp_sched::native::Native;
/// use gmp_sched::sync::RawMutex;
/// static MUTEX: lock_api::Mutex<RawMutex<Native>, u32> = lock_api::Mutex::new(0);
/// assert!(!MUTEX.is_locked());
/// ```
pub struct RawMutex<P: Platform> {
    word: AtomicU32,
    queue: Lock<WaitQueue<P>, P>,
}

impl<P: Platform> RawMutex<P> {
    constructor! {
        /// One that is free. See [`RawMutex`] for an example.
        #[must_use]
        pub fn new() -> Self {
            Self { word: AtomicU32::new(0), queue: Lock::new(WaitQueue::new()) }
        }
    }

    /// Takes it, waiting as long as it takes.
    #[inline]
    #[track_caller]
    pub(crate) fn acquire(&self) {
        if !self.try_acquire_idle() {
            self.acquire_slow(WaitReason::MutexLock, None);
        }
    }

    /// Takes it, waiting for as long as `limit` says, for `reason`; tells whether it did.
    #[inline]
    #[track_caller]
    pub(super) fn acquire_until(&self, reason: WaitReason, limit: Option<&Limit<'_, P>>) -> bool {
        self.try_acquire_idle() || self.acquire_slow(reason, limit)
    }

    /// Takes it if it is free; tells whether it did.
    #[inline]
    pub(crate) fn try_acquire(&self) -> bool {
        self.try_acquire_idle() || self.try_acquire_ahead()
    }

    /// Lets go of it.
    #[inline]
    pub(crate) fn release(&self) {
        P::point(Site::Sync);
        // Ordering: Release: what was done under it is seen by the next one, whose compare-exchange is an Acquire.
        if self.word.compare_exchange(HELD, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.release_slow(Fairness::Normal);
        }
    }

    /// Lets go of it, to the first of those that wait, if any.
    #[inline]
    pub(crate) fn release_fairly(&self) {
        P::point(Site::Sync);
        // Ordering: as in `release`.
        if self.word.compare_exchange(HELD, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.release_slow(Fairness::HandOver);
        }
    }

    /// Whether anybody holds it at the moment.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) & HELD != 0
    }

    /// Takes it if it is free and nobody waits.
    #[inline]
    fn try_acquire_idle(&self) -> bool {
        P::point(Site::Sync);
        // Ordering: Acquire; partners: the Releases in `release` and `let_go`.
        self.word.compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it if it is free, ahead of those that wait.
    #[cold]
    fn try_acquire_ahead(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & HELD == 0 {
            P::point(Site::Sync);
            match self.word.compare_exchange_weak(word, word | HELD, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[cold]
    #[track_caller]
    fn acquire_slow(&self, reason: WaitReason, limit: Option<&Limit<'_, P>>) -> bool {
        // AWAKE if that stands in the word because of this G.
        let mut mine = 0;
        let mut began = None;
        loop {
            self.spin();
            let began = *began.get_or_insert_with(P::now);
            let blocking = Blocking::<P>::new(reason, limit);
            if blocking.is_over() {
                // Whoever unlocked while this G was `AWAKE` relied on it to take the mutex.
                return self.take_or(mine, |word| word & !mine);
            }
            let queue = self.queue.lock();
            if self.take_or(mine, |word| word & !mine | QUEUED) {
                return true;
            }
            let outcome = blocking.wait(queue, began.as_nanos() as usize, |queue, waiter| match mine {
                0 => queue.push_back(waiter),
                _ => queue.push_front(waiter),
            });
            match outcome {
                Some(HANDED_OVER) => return true,
                Some(_) => mine = AWAKE,
                None => {
                    self.leave_queue();
                    return false;
                }
            }
        }
    }

    /// Takes it if it is free, and `mine` out of the word; else changes the word by `instead`, in one step. Tells which.
    fn take_or(&self, mine: u32, instead: impl Fn(u32) -> u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let is_free = word & HELD == 0;
            let next = if is_free { word & !mine | HELD } else { instead(word) };
            P::point(Site::Sync);
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return is_free,
                Err(now) => word = now,
            }
        }
    }

    /// The limit ended the wait of the calling G. `QUEUED` may stand for nobody now; the next unlock finds that out.
    fn leave_queue(&self) {
        let pinned = Pinned::<P>::new();
        self.queue.lock().remove(my_waiter(&pinned));
    }

    /// Waits a little for another M to unlock it, where that is likely and this P has nothing better to do. Go:
    /// `sync_runtime_doSpin`.
    #[doc(alias = "sync_runtime_doSpin")]
    fn spin(&self) {
        for _ in 0..SPINS {
            if !self.is_held() || !may_spin::<P>() {
                return;
            }
            (0..PAUSES).for_each(|_| P::relax());
        }
    }

    #[cold]
    fn release_slow(&self, fairness: Fairness) {
        let pinned = Pinned::<P>::new();
        if let Some(next) = self.let_go(fairness) {
            ready(next, &pinned);
        }
    }

    /// [`release`](Self::release) by a caller that is pinned, and readies the waiter it is given when it holds no lock.
    #[cfg(not(gmp_loom))]
    #[must_use = "the waiter is to be readied"]
    pub(super) fn release_for(&self) -> Option<&'static Waiter<P>> {
        self.let_go(Fairness::Normal)
    }

    /// Frees it, or hands it over. The caller is pinned and readies the waiter.
    fn let_go(&self, fairness: Fairness) -> Option<&'static Waiter<P>> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            assert!(word & HELD != 0, "sync: unlock of unlocked mutex");
            let has_to_wake = word & QUEUED != 0 && (word & AWAKE == 0 || fairness == Fairness::HandOver);
            if has_to_wake {
                break;
            }
            P::point(Site::Sync);
            match self.word.compare_exchange_weak(word, word & !HELD, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return None,
                Err(now) => word = now,
            }
        }
        let now = P::now();
        let queue = self.queue.lock();
        let Some(first) = queue.pop() else {
            // Their limits are over.
            P::point(Site::Sync);
            self.word.fetch_and(!(HELD | QUEUED), Ordering::Release);
            return None;
        };
        let rest = if queue.is_empty() { 0 } else { QUEUED };
        let began = Instant::from_nanos(first.outcome.load(Ordering::Relaxed) as u64);
        P::point(Site::Sync);
        if fairness == Fairness::HandOver || now.since(began) >= STARVING {
            first.outcome.store(HANDED_OVER, Ordering::Relaxed);
            // Ordering: Relaxed: it stays `HELD`; the waiter sees what was done under it because it is readied after.
            self.word.fetch_and(!QUEUED | rest, Ordering::Relaxed);
        } else {
            first.outcome.store(COMPETE, Ordering::Relaxed);
            // Nobody else changes the word now: it is held, by us, and we have the queue's lock.
            self.word.swap(AWAKE | rest, Ordering::Release);
        }
        Some(first)
    }
}

/// Whether spinning may pay: another P runs something, and this one has nothing else to run. On one P never. Go:
/// `sync_runtime_canSpin`.
#[doc(alias = "sync_runtime_canSpin")]
fn may_spin<P: Platform>() -> bool {
    let pinned = Pinned::<P>::new();
    let Some(machine) = pinned.try_machine() else { return false };
    let Some(processor) = machine.processor() else { return false };
    let scheduler = machine.scheduler();
    // Ordering: a guess.
    let idle = scheduler.idle_processors.load(Ordering::Relaxed) + scheduler.spinning.load(Ordering::Relaxed);
    scheduler.procs() > idle as usize + 1 && processor.queue.is_empty()
}

#[cfg(not(gmp_loom))]
// SAFETY: from a compare-exchange that sets `HELD`, or a hand-over, to the matching release the bit stands, and nobody else
// gets through. A panic comes before anything is held.
unsafe impl<P: Platform> lock_api::RawMutex for RawMutex<P> {
    const INIT: Self = Self::new();

    type Guard = GuardSend;

    #[inline]
    #[track_caller]
    fn lock(&self) -> GuardSend {
        self.acquire();
        GuardSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardSend> {
        self.try_acquire().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _: GuardSend) {
        self.release();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_held()
    }
}

#[cfg(not(gmp_loom))]
// SAFETY: as above.
unsafe impl<P: Platform> lock_api::RawMutexFair for RawMutex<P> {
    #[inline]
    unsafe fn unlock_fair(&self, _: GuardSend) {
        self.release_fairly();
    }
}

#[cfg(not(gmp_loom))]
// SAFETY: as above.
unsafe impl<P: Platform> lock_api::RawMutexTimed for RawMutex<P> {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    #[track_caller]
    fn try_lock_for(&self, timeout: Duration) -> Option<GuardSend> {
        // The clock is read only if it has to wait.
        (self.try_acquire() || self.acquire_slow(WaitReason::MutexLock, Some(&timeout.into()))).then(GuardSend::new)
    }

    #[inline]
    #[track_caller]
    fn try_lock_until(&self, deadline: Instant) -> Option<GuardSend> {
        self.acquire_until(WaitReason::MutexLock, Some(&deadline.into())).then(GuardSend::new)
    }
}

impl<P: Platform> Default for RawMutex<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> fmt::Debug for RawMutex<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("RawMutex")
            .field("held", &(word & HELD != 0))
            .field("queued", &(word & QUEUED != 0))
            .finish_non_exhaustive()
    }
}
