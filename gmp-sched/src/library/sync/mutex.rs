//! Mutual exclusion by an atomic word and a wait queue. Unless a waiter has to be woken, unlock is one subtraction from
//! the word. While no G waits, lock is one compare-exchange.
//!
//! Go: `Mutex` (internal/sync/mutex.go, go1.27).
//!
//! ```text
//!                 lock                       lock, and has to wait
//!   free ◀──────────────────▶ HELD ◀─────────────────────────────▶ HELD|KEPT|QUEUED
//!                unlock                                                  │ unlock: KEPT|QUEUED, wakes the first
//!                                                                        ▼
//!                   HELD|AWAKE[|QUEUED] ◀─── anyone locks, unlocks ──▶ AWAKE[|QUEUED]
//! ```
//!
//! Unlock subtracts `HELD`. This frees the mutex, unless a waiter has to be woken. In that case the mutex is also
//! `KEPT`, so that the subtraction does not free it: the unlocking G keeps it until it has decided who is next.
//!
//! Normally unlock frees the mutex and wakes the first waiter, which then competes for the mutex with other Gs. A G
//! that is already running usually wins, which saves a switch per lock. Until a woken waiter has tried to lock the
//! mutex (`AWAKE`), no other waiter has to be woken. A waiter that loses goes back to the head of the queue, clears
//! `AWAKE` and sets `KEPT`, so that the next unlock wakes it again.
//!
//! This competition is unfair to waiters. So a waiter that has waited for [`STARVING`] need not compete: the mutex is
//! *handed over* to it. The mutex stays locked during a handover, so no other G can lock it in between. Go has a
//! starvation mode for this, which arriving Gs must check. Here unlock checks when the first waiter began to wait, and
//! arriving Gs check nothing.

#![expect(unsafe_code, reason = "promises mutual exclusion to lock_api")]

mod spin;
mod traits;

use core::fmt;
use core::time::Duration;

use super::blocking::{Blocking, my_waiter, ready};
use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::instant::Instant;
use crate::base::points::Site;
use crate::base::spin_lock::Lock;
use crate::base::under_loom::const_fn;
use crate::engine::hooks::before_wait;
use crate::entities::goroutine::WaitReason;
use crate::entities::waiter::Waiter;
use crate::library::limit::Limit;
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

/// A mutual exclusion lock for a value. Go: `sync.Mutex`.
///
/// Lock with [`lock`](lock_api::Mutex::lock), which blocks, or with the `try_lock` methods; dropping the guard
/// unlocks. The lock takes 32 bytes in addition to the value, and can be a `static`.
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
/// A call has to wait, although the caller is pinned or is not a G with a P.
pub type Mutex<T, Plat> = lock_api::Mutex<RawMutex<Plat>, T>;

/// Access to the value of a locked [`Mutex`]. Unlocks when dropped. Can be sent to another G.
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
pub type MutexGuard<'a, T, Plat> = lock_api::MutexGuard<'a, RawMutex<Plat>, T>;

/// The mutex is locked. Unlock subtracts this bit.
const HELD: u32 = 1;
/// A waiter was woken, and has not tried to lock the mutex since. Meanwhile an unlock wakes no other waiter, unless it
/// hands the mutex over. Set only by an unlock. Go: `mutexWoken`.
const AWAKE: u32 = 2;
/// The queue may have waiters. Changed under the lock of the queue only.
const QUEUED: u32 = 4;
/// The mutex is locked, and stays locked when `HELD` is subtracted. Set if the mutex is locked and `QUEUED` but not
/// `AWAKE`, because then the unlock has to wake a waiter. It is the sign bit of the word, so an unlock can test it
/// without loading the word again.
const KEPT: u32 = 1 << 31;

/// Whether a word is that of a mutex that is locked.
fn is_locked(word: u32) -> bool {
    word & (HELD | KEPT) != 0
}

/// Returns the word of a locked mutex with `KEPT` added if the unlock has to wake a waiter.
fn kept(word: u32) -> u32 {
    if word & (QUEUED | AWAKE) == QUEUED { word | KEPT } else { word }
}

/// The message of the panic if a mutex is unlocked that is not locked.
const NOT_LOCKED: &str = "sync: unlock of unlocked mutex";

/// How long a waiter competes before the mutex is handed over to it. Go: `starvationThresholdNs`, 1 ms.
const STARVING: Duration = Duration::from_millis(1);

/// Outcome of a wait: the mutex was freed, and the waiter must try to lock it.
const COMPETE: usize = 1;
/// Outcome of a wait: the waiter holds the mutex.
const HANDED_OVER: usize = 2;

/// Which G gets the mutex when it is unlocked while others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fairness {
    /// The mutex goes to the G that locks it first, or to the first waiter if that waiter is starving.
    Normal,
    /// The mutex goes to the first waiter.
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
pub struct RawMutex<Plat: Platform> {
    word: AtomicU32,
    queue: Lock<WaitQueue<Plat>, Plat>,
}

impl<Plat: Platform> RawMutex<Plat> {
    const_fn! {
        /// Makes a mutex that is free. See [`RawMutex`] for an example.
        #[must_use]
        pub fn new() -> Self {
            Self { word: AtomicU32::new(0), queue: Lock::new(WaitQueue::new()) }
        }
    }

    /// Locks the mutex. Waits without a limit if `limit` is `None`. Returns `false` if the limit ended the wait.
    /// `reason` is the wait reason.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn acquire(&self, reason: WaitReason, limit: Option<&Limit<'_, Plat>>) -> bool {
        before_wait::<Plat>();
        self.try_acquire_idle() || self.acquire_slow(reason, limit)
    }

    /// Locks the mutex if it is free. Returns whether the caller now holds the mutex.
    #[inline]
    pub(crate) fn try_acquire(&self) -> bool {
        self.try_acquire_idle() || self.try_acquire_ahead(0)
    }

    #[inline(always)]
    pub(crate) fn release(&self) {
        if self.subtract() {
            self.release_slow(Fairness::Normal);
        }
    }

    /// Unlocks the mutex. If a G waits, hands the mutex over to the first waiter.
    pub(crate) fn release_fairly(&self) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            assert!(word & HELD != 0, "{NOT_LOCKED}");
            // A waiter may have to be woken although another one is `AWAKE`, so this G may have to keep the mutex.
            let next = if word & QUEUED == 0 { word - HELD } else { (word - HELD) | KEPT };
            Plat::point(Site::Sync);
            // Ordering: as in `subtract`.
            match self.word.compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) if next & KEPT != 0 => return self.release_slow(Fairness::HandOver),
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Subtracts `HELD`. Returns whether the mutex is still locked, because the caller has kept it. Go: `Unlock`.
    ///
    /// On x86-64 this is `lock dec` and a jump that depends on the sign. The compiler makes these two instructions from
    /// an addition, but not from a subtraction.
    #[inline(always)]
    fn subtract(&self) -> bool {
        const MINUS_HELD: u32 = HELD.wrapping_neg();
        Plat::point(Site::Sync);
        // Ordering: Release publishes what was done under the lock; partner: the Acquire of the next G's
        // compare-exchange.
        self.word.fetch_add(MINUS_HELD, Ordering::Release).wrapping_add(MINUS_HELD).cast_signed() < 0
    }

    /// Whether the mutex is locked at the moment.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        is_locked(self.word.load(Ordering::Relaxed))
    }

    /// Locks the mutex if it is free and has no waiters; returns whether the caller now holds it.
    #[inline]
    fn try_acquire_idle(&self) -> bool {
        Plat::point(Site::Sync);
        // Ordering: Acquire; partners: the Releases in `subtract` and `release_fairly`.
        self.word.compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// If the mutex is free, locks it, even if others wait for it, and clears the bits `mine` of the word. Returns
    /// whether the caller now holds the mutex.
    #[cold]
    fn try_acquire_ahead(&self, mine: u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while !is_locked(word) {
            Plat::point(Site::Sync);
            match self.word.compare_exchange_weak(word, kept(word & !mine | HELD), Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[cold]
    #[track_caller]
    fn acquire_slow(&self, reason: WaitReason, limit: Option<&Limit<'_, Plat>>) -> bool {
        // The bits of the word that this G must clear when it tries again: `AWAKE` if the G was woken from the queue,
        // otherwise none.
        let mut mine = 0;
        let mut began = None;
        loop {
            self.spin();
            // While others wait, a running G finds the mutex free most of the time. In that case the G needs neither
            // the clock nor the lock of the queue.
            if self.try_acquire_ahead(mine) {
                return true;
            }
            let began = *began.get_or_insert_with(Plat::now);
            let blocking = Blocking::<Plat>::new(reason, limit);
            if blocking.is_over() {
                // Tries once although the limit is over. A G that was woken must lock the mutex if it is free, because
                // the unlock that woke this G woke no other waiter.
                return self.take_or(mine, |word| kept(word & !mine));
            }
            let queue = self.queue.lock();
            if self.take_or(mine, |word| kept(word & !mine | QUEUED)) {
                return true;
            }
            let outcome = blocking.wait(queue, began.as_nanos() as usize, |queue, waiter| {
                waiter.note_lock(self);
                match mine {
                    0 => queue.push_back(waiter),
                    _ => queue.push_front(waiter),
                }
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

    /// If the mutex is free, atomically locks it and clears the bits `mine` of the word. Otherwise applies `instead` to
    /// the word. Returns whether the caller now holds the mutex.
    fn take_or(&self, mine: u32, instead: impl Fn(u32) -> u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let is_free = !is_locked(word);
            let next = if is_free { kept(word & !mine | HELD) } else { instead(word) };
            Plat::point(Site::Sync);
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return is_free,
                Err(now) => word = now,
            }
        }
    }

    /// Leaves the queue after the limit ended the wait. Afterwards `QUEUED` may be set although the queue is empty. The
    /// next unlock that finds `AWAKE` clear, or hands the mutex over, clears `QUEUED`.
    fn leave_queue(&self) {
        let pinned = Pinned::<Plat>::of_scheduler();
        self.queue.lock().remove(my_waiter(&pinned));
    }

    /// Continues an unlock by which the caller has kept the mutex.
    #[cold]
    fn release_slow(&self, fairness: Fairness) {
        let pinned = Pinned::<Plat>::of_scheduler();
        if let Some(next) = self.let_go(fairness) {
            ready(next, &pinned);
        }
    }

    /// Unlocks like [`release`](Self::release), for a pinned caller. The caller must ready the returned waiter after it
    /// has released its own locks.
    #[must_use = "the waiter is to be readied"]
    pub(super) fn release_for(&self) -> Option<&'static Waiter<Plat>> {
        if self.subtract() { self.let_go(Fairness::Normal) } else { None }
    }

    /// Frees the mutex, which the caller has kept, or hands it over to the first waiter. The caller is pinned, and must
    /// ready the returned waiter.
    ///
    /// Ordering: the changes of the word below are Relaxed. They are read-modify-write operations, so they continue the
    /// release sequence that begins with the Release of the unlock.
    fn let_go(&self, fairness: Fairness) -> Option<&'static Waiter<Plat>> {
        assert!(self.word.load(Ordering::Relaxed) & HELD == 0, "{NOT_LOCKED}");
        let now = Plat::now();
        let queue = self.queue.lock();
        let Some(first) = queue.pop() else {
            // All waiters have left the queue, because their limits were over.
            Plat::point(Site::Sync);
            self.word.fetch_and(!(KEPT | QUEUED), Ordering::Relaxed);
            return None;
        };
        let is_last = queue.is_empty();
        let began = Instant::from_nanos(first.outcome.load(Ordering::Relaxed) as u64);
        if fairness == Fairness::HandOver || now - began >= STARVING {
            first.outcome.store(HANDED_OVER, Ordering::Relaxed);
            // Readying the waiter's G publishes to that G what was done under the lock.
            self.hand_over(is_last);
        } else {
            first.outcome.store(COMPETE, Ordering::Relaxed);
            Plat::point(Site::Sync);
            // No other G changes the word now, because no waiter is `AWAKE`, and this G keeps the mutex locked and
            // holds the queue's lock.
            self.word.swap(if is_last { AWAKE } else { AWAKE | QUEUED }, Ordering::Relaxed);
        }
        Some(first)
    }

    /// Sets `HELD` for the G to which the caller hands the mutex over. `is_last` is whether no other G is queued. A G
    /// that is awake may clear `AWAKE` at the same time.
    fn hand_over(&self, is_last: bool) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let others = if is_last { word & AWAKE } else { word & (AWAKE | QUEUED) };
            Plat::point(Site::Sync);
            match self.word.compare_exchange_weak(word, kept(others | HELD), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}

impl<Plat: Platform> Default for RawMutex<Plat> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Plat: Platform> fmt::Debug for RawMutex<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("RawMutex")
            .field("held", &(word & HELD != 0))
            .field("queued", &(word & QUEUED != 0))
            .finish_non_exhaustive()
    }
}
