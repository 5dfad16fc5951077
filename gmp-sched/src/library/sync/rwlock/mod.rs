//! Many readers or one writer. Go: `sync.RWMutex` (sync/rwmutex.go, go1.27).
//!
//! The lock has three parts:
//!
//! - `writers`, a mutex, serialises writers. An upgradable reader holds this mutex, and is not counted as a reader. So
//!   there is at most one upgradable reader, in addition to any number of plain readers.
//! - `readers` counts the readers. The count can be *closed*, after which readers cannot enter by themselves.
//! - `waiting` queues the readers that found the count closed, and the writer that waits for the readers to leave.
//!
//! A writer locks the mutex, closes the count, and waits until the count is zero. The last reader to leave wakes the
//! writer. When the writer is done, it opens the count, which admits all waiting readers in the same step, and unlocks
//! the mutex. Readers do not starve a writer, because the writer closes the count before it waits. Writers do not
//! starve readers, because readers that found the count closed are admitted before the next writer.
//!
//! # Why no wakeup is lost
//!
//! A reader increments the count and checks whether the count is closed, in one step if there is one count. A writer
//! closes the count and then checks whether it is zero. These operations are in one total order, so either the reader
//! sees the close, or the writer sees the reader. A leaving reader decrements the count and then checks whether the
//! count is closed. If the reader sees the close, it checks under the lock of `waiting` whether a writer must be woken.
//! Otherwise the writer sees the decrement. A reader that has to wait checks under the lock of `waiting` that the count
//! is closed, and joins the queue under the same lock. `open` takes this lock, too. So either `open` finds the reader
//! in the queue, or the reader finds the count open.
//!
//! # A refused attempt is not seen
//!
//! An attempt to lock for writing that fails because of a reader (`try_write`) may close the count for a moment, if
//! there are several counts. It does so under the lock of `waiting`. A reader that finds the count closed checks it
//! again under this lock before it waits or is refused. So a failed attempt of a writer never makes a reader fail.

mod raw;
#[cfg(feature = "extras")]
mod read_mostly;
pub mod readers;

use core::fmt;
use core::ops::DerefMut;

use super::blocking::{Blocking, OnDrop, WakeList, my_waiter, ready};
use super::mutex::RawMutex;
use crate::base::atomic::Ordering;
use crate::base::spin_lock::Lock;
use crate::base::under_loom::{associated_const, const_fn};
use crate::engine::hooks::before_wait;
use crate::entities::goroutine::WaitReason;
use crate::library::limit::Limit;
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

#[cfg(feature = "extras")]
pub use self::read_mostly::ReadMostlyRwLock;
use self::readers::{OneCount, ReaderSlot, Readers};

/// A reader-writer lock for a value. Go: `sync.RWMutex`.
///
/// A waiting writer keeps new readers out. When the writer unlocks, all waiting readers are admitted. So neither side
/// starves. A G that has locked for reading must not lock for reading again. If a writer came in between, the G would
/// wait for the writer, and the writer for the G. (`read_recursive` of `lock_api` is not implemented.) Guards can be
/// downgraded and mapped. They can be upgraded if they were locked by
/// [`upgradable_read`](lock_api::RwLock::upgradable_read). The lock takes 80 bytes in addition to the value, and can be
/// a `static`.
///
/// ```
/// use gmp_sched::native::{self, RwLock};
/// static LIMITS: RwLock<[u32; 2]> = RwLock::new([1, 2]);
///
/// unsafe { native::enter() }.run(2, || {
///     {
///         let first = LIMITS.read();
///         let second = LIMITS.read();
///         assert_eq!(first[0] + second[1], 3);
///         assert!(LIMITS.try_write().is_none());
///     }
///     let mut limits = LIMITS.write();
///     limits[0] = 7;
///     let limits = lock_api::RwLockWriteGuard::downgrade(limits);
///     assert_eq!(native::go(|| LIMITS.read()[0]).join().unwrap(), limits[0]);
/// });
/// ```
///
/// # Panics
///
/// A call has to wait, although the caller is pinned or is not a G with a P.
#[doc(alias = "RWMutex")]
pub type RwLock<T, Plat> = lock_api::RwLock<RawRwLock<Plat>, T>;

/// Shared access to the value of a [`RwLock`].
///
/// ```
/// use gmp_sched::native::{self, RwLock, RwLockReadGuard};
///
/// fn first(numbers: &RwLockReadGuard<'_, Vec<u32>>) -> u32 {
///     numbers[0]
/// }
///
/// let numbers = RwLock::new(vec![4, 5]);
/// unsafe { native::enter() }.run(1, move || assert_eq!(first(&numbers.read()), 4));
/// ```
pub type RwLockReadGuard<'a, T, Plat> = lock_api::RwLockReadGuard<'a, RawRwLock<Plat>, T>;

/// Exclusive access to the value of a [`RwLock`].
///
/// ```
/// use gmp_sched::native::{self, RwLock, RwLockWriteGuard};
///
/// fn clear(mut numbers: RwLockWriteGuard<'_, Vec<u32>>) {
///     numbers.clear();
/// }
///
/// let numbers = RwLock::new(vec![4, 5]);
/// unsafe { native::enter() }.run(1, move || {
///     clear(numbers.write());
///     assert!(numbers.read().is_empty());
/// });
/// ```
pub type RwLockWriteGuard<'a, T, Plat> = lock_api::RwLockWriteGuard<'a, RawRwLock<Plat>, T>;

/// The reader-writer lock without the value, for [`lock_api`]. `R` determines how its readers are counted.
///
/// ```
/// use gmp_sched::native::Native;
/// use gmp_sched::sync::RawRwLock;
/// static LOCK: lock_api::RwLock<RawRwLock<Native>, u32> = lock_api::RwLock::new(0);
/// assert!(!LOCK.is_locked());
/// ```
pub struct RawRwLock<Plat: Platform, R: Readers = OneCount> {
    writers: RawMutex<Plat>,
    readers: R,
    waiting: Lock<Waiting<Plat>, Plat>,
}

struct Waiting<Plat: Platform> {
    readers: WaitQueue<Plat>,
    /// The holder of `writers`, if it waits for readers to leave.
    writer: WaitQueue<Plat>,
}

/// Outcome of a writer's wait: the readers have left.
const GRANTED: usize = 1;

impl<Plat: Platform, R: Readers> RawRwLock<Plat, R> {
    const_fn! {
        /// Makes a lock that is free. See [`RawRwLock`] for an example.
        #[must_use]
        pub fn new() -> Self {
            Self {
                writers: RawMutex::new(),
                readers: associated_const!(R::NONE),
                waiting: Lock::new(Waiting { readers: WaitQueue::new(), writer: WaitQueue::new() }),
            }
        }
    }
}

/// Operations of readers.
impl<Plat: Platform, R: Readers> RawRwLock<Plat, R> {
    /// Locks for reading, waiting no longer than `limit`. Returns the index of the counter that counts this reader, or
    /// `None` if the limit ended the wait.
    #[inline]
    #[track_caller]
    pub(crate) fn share(&self, limit: Option<&Limit<'_, Plat>>) -> Option<ReaderSlot> {
        before_wait::<Plat>();
        let slot = R::current::<Plat>();
        (self.readers.enter::<Plat>(slot) || self.share_slow(slot, limit)).then_some(slot)
    }

    /// Locks for reading if no writer holds the lock or waits for it. Returns the index of the counter that counts this
    /// reader, or `None` if the lock was not taken.
    #[inline]
    pub(crate) fn try_share(&self) -> Option<ReaderSlot> {
        let slot = R::current::<Plat>();
        while !self.readers.enter::<Plat>(slot) {
            self.withdraw(slot);
            if self.is_excluded() {
                return None;
            }
        }
        Some(slot)
    }

    /// Whether a writer holds the lock or waits for it.
    #[cold]
    pub(super) fn is_excluded(&self) -> bool {
        let _pinned = Pinned::<Plat>::of_scheduler();
        let _waiting = self.waiting.lock();
        self.readers.is_closed()
    }

    /// Called after `enter` has returned `false`.
    #[cold]
    fn withdraw(&self, slot: ReaderSlot) {
        if self.readers.withdraw::<Plat>(slot) {
            self.wake_writer();
        }
    }

    /// Unlocks for the reader counted in `slot`.
    #[inline]
    pub(crate) fn unshare(&self, slot: ReaderSlot) {
        if self.readers.leave::<Plat>(slot) {
            self.wake_writer();
        }
    }

    /// The slow path of `share`: `enter` has returned `false`, because a writer has closed the count. Waits until the
    /// count is open or `limit` is over. Returns whether the caller has locked for reading.
    #[cold]
    #[track_caller]
    fn share_slow(&self, slot: ReaderSlot, limit: Option<&Limit<'_, Plat>>) -> bool {
        loop {
            // This comes first, because the writer may be waiting until the count is zero.
            self.withdraw(slot);
            let blocking = Blocking::<Plat>::new(WaitReason::RwLockRead, limit);
            let is_over = blocking.is_over();
            let waiting = self.waiting.lock();
            if self.readers.is_closed() {
                // When `open` admits this reader, it also counts the reader.
                return !is_over && self.wait_as_reader(blocking, waiting, slot);
            }
            drop(waiting);
            if self.readers.enter::<Plat>(slot) {
                return true;
            }
        }
    }

    #[cfg_attr(feature = "std", track_caller)]
    fn wait_as_reader(
        &self,
        blocking: Blocking<'_, Plat>,
        waiting: impl DerefMut<Target = Waiting<Plat>>,
        slot: ReaderSlot,
    ) -> bool {
        let is_granted = blocking.wait(waiting, slot.0, |waiting, waiter| {
            waiter.note_lock(&self.writers);
            waiting.readers.push_back(waiter);
        });
        if is_granted.is_none() {
            let pinned = Pinned::<Plat>::of_scheduler();
            self.waiting.lock().readers.remove(my_waiter(&pinned));
        }
        is_granted.is_some()
    }

    /// Wakes the waiting writer, if the last reader has left.
    #[cold]
    fn wake_writer(&self) {
        let pinned = Pinned::<Plat>::of_scheduler();
        let writer = {
            let waiting = self.waiting.lock();
            // While a writer waits, the count is closed, and a reader that finds it closed does not stay in the count.
            // So once the count has been zero, no reader holds the lock.
            if self.readers.is_empty::<Plat>() { waiting.writer.pop() } else { None }
        };
        if let Some(writer) = writer {
            writer.outcome.store(GRANTED, Ordering::Relaxed);
            ready(writer, &pinned);
        }
    }
}

/// Operations of writers and upgradable readers.
impl<Plat: Platform, R: Readers> RawRwLock<Plat, R> {
    /// Locks for writing, waiting no longer than `limit`; returns whether the caller now holds the lock.
    #[inline]
    #[track_caller]
    pub(crate) fn exclude(&self, limit: Option<&Limit<'_, Plat>>) -> bool {
        if !self.writers.acquire(WaitReason::RwLockWrite, limit) {
            return false;
        }
        let release = OnDrop(|| self.writers.release());
        let is_excluded = self.drain(limit);
        if is_excluded {
            core::mem::forget(release);
        }
        is_excluded
    }

    /// Locks for writing if the lock is free; returns whether the caller now holds it.
    pub(crate) fn try_exclude(&self) -> bool {
        if !self.writers.try_acquire() {
            return false;
        }
        let is_excluded = self.try_drain();
        if !is_excluded {
            self.writers.release();
        }
        is_excluded
    }

    /// Unlocks for the writer.
    #[inline]
    pub(crate) fn include(&self) {
        self.open();
        self.writers.release();
    }

    /// Closes the count, and waits until all readers have left or `limit` is over. Returns whether all readers have
    /// left. If they have not, the count is open again. The caller holds `writers`.
    #[inline]
    #[track_caller]
    fn drain(&self, limit: Option<&Limit<'_, Plat>>) -> bool {
        if limit.is_some_and(|limit| limit.err().is_some()) {
            // A writer that does not wait must not keep readers out.
            return self.try_drain();
        }
        self.readers.close::<Plat>();
        self.readers.is_empty::<Plat>() || self.drain_slow(limit)
    }

    #[cold]
    #[track_caller]
    fn drain_slow(&self, limit: Option<&Limit<'_, Plat>>) -> bool {
        let reopen = OnDrop(|| self.open());
        let blocking = Blocking::<Plat>::new(WaitReason::RwLockWrite, limit);
        let is_over = blocking.is_over();
        let waiting = self.waiting.lock();
        let is_drained = if self.readers.is_empty::<Plat>() {
            drop(waiting);
            true
        } else if is_over {
            drop(waiting);
            false
        } else {
            let is_granted = blocking.wait(waiting, 0, |waiting, waiter| {
                waiter.note_lock(&self.writers);
                waiting.writer.push_back(waiter);
            });
            is_granted.is_some() || {
                let pinned = Pinned::<Plat>::of_scheduler();
                self.waiting.lock().writer.remove(my_waiter(&pinned));
                false
            }
        };
        if is_drained {
            core::mem::forget(reopen);
        }
        is_drained
    }

    /// Like [`drain`](Self::drain), but does not wait. Returns `false` if a reader holds the lock.
    fn try_drain(&self) -> bool {
        let _pinned = Pinned::<Plat>::of_scheduler();
        // See "A refused attempt is not seen" above.
        let _waiting = self.waiting.lock();
        self.readers.try_close::<Plat>()
    }

    /// Opens the count for readers, and admits the waiting readers.
    fn open(&self) {
        let pinned = Pinned::<Plat>::of_scheduler();
        let to_wake = {
            let waiting = self.waiting.lock();
            let mut to_wake = WakeList::none();
            while let Some(reader) = waiting.readers.pop() {
                let is_admitted = self.readers.admit::<Plat>(ReaderSlot(reader.outcome.load(Ordering::Relaxed)));
                debug_assert!(is_admitted, "there are fewer Gs than the limit, and the count was zero");
                to_wake.push(reader);
            }
            self.readers.open::<Plat>();
            to_wake
        };
        to_wake.ready(&pinned);
    }

    /// Turns the writer into a reader.
    fn downgrade(&self) -> ReaderSlot {
        let slot = self.add_reader();
        self.include();
        slot
    }

    /// Counts the caller, which holds `writers`, as a reader. If there are too many readers, releases `writers` and
    /// panics.
    #[track_caller]
    fn add_reader(&self) -> ReaderSlot {
        let slot = R::current::<Plat>();
        if !self.readers.admit::<Plat>(slot) {
            self.writers.release();
            readers::too_many();
        }
        slot
    }
}

impl<Plat: Platform, R: Readers> Default for RawRwLock<Plat, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Plat: Platform, R: Readers> fmt::Debug for RawRwLock<Plat, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock")
            .field("writers", &self.writers)
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}
