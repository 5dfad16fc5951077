//! Many readers or one writer. Go: `sync.RWMutex` (sync/rwmutex.go, go1.27).
//!
//! Three parts, each with one job:
//!
//! - `writers`, a mutex, decides between those that want to write. An upgradable reader holds it too, and that is all it
//!   holds: so there is one at a time, beside any number of plain readers.
//! - `readers` counts the readers, and can be *closed*: then a reader does not get in by itself.
//! - `waiting`: the readers that found it closed, and the writer that waits for the readers to leave.
//!
//! A writer takes the mutex, closes, and waits until no reader is counted; the last one to leave wakes it. When it is done
//! it opens again, in the same step lets in all readers that wait, and lets go of the mutex. So a stream of readers does
//! not keep a writer out, since it closes before it waits, nor a stream of writers the readers, since those that found it
//! closed come before the next writer.
//!
//! # Why nobody is forgotten
//!
//! A reader counts itself and looks whether it is closed; the writer closes and looks whether anybody is counted, both in
//! one total order. So either the reader finds it closed, or the writer finds the reader counted. A reader that leaves
//! does the same: either it finds it closed, and looks under the lock of `waiting` for a writer to wake, or the writer
//! finds it gone. It is opened under that lock only, so a reader that finds it closed under the lock is found in the
//! queue by whoever opens.

#[cfg(not(gmp_loom))]
mod raw;
mod readers;

use core::fmt;
use core::ops::DerefMut;

use super::blocking::{Blocking, OnDrop, Roused, my_waiter, ready};
use super::mutex::RawMutex;
use crate::base::atomic::Ordering;
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::WaitReason;
use crate::library::cancel::Limit;
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

pub use self::readers::{OneCount, Place, Readers, SpreadCounts};

/// A value that many Gs may look at at once, or one change. Go: `sync.RWMutex`.
///
/// A writer that waits keeps new readers out, and when it is done all readers that wait come next, so neither side
/// starves. Hence a G that reads must not read again: a writer may have come in between, and both would wait for ever.
/// (`read_recursive` of `lock_api` is not offered.) Guards can be downgraded and mapped, and upgraded if they were taken by
/// [`upgradable_read`](lock_api::RwLock::upgradable_read). The value plus 80 bytes; can be a `static`.
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
/// Where it would have to wait: the caller is not a G, or has preemption turned off.
#[doc(alias = "RWMutex")]
#[cfg(not(gmp_loom))]
pub type RwLock<T, P> = lock_api::RwLock<RawRwLock<P>, T>;

/// A [`RwLock`] whose readers do not disturb each other: each P counts its readers in a cache line of its own, so reading
/// costs the same on any number of Ps. For what is read all the time and hardly ever written: it takes more than a
/// kilobyte, and a writer has to look at all the counts.
///
/// ```
/// use gmp_sched::native::{self, ReadMostlyRwLock};
/// static ROUTES: ReadMostlyRwLock<Vec<u32>> = ReadMostlyRwLock::new(Vec::new());
///
/// unsafe { native::enter() }.run(2, || {
///     ROUTES.write().push(1);
///     let readers: Vec<_> = (0..4).map(|_| native::go(|| ROUTES.read().len())).collect();
///     assert!(readers.into_iter().all(|reader| reader.join().unwrap() == 1));
/// });
/// ```
///
/// # Panics
///
/// As [`RwLock`].
#[cfg(not(gmp_loom))]
pub type ReadMostlyRwLock<T, P> = lock_api::RwLock<RawRwLock<P, SpreadCounts>, T>;

/// The right to look at the value of a [`RwLock`].
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
#[cfg(not(gmp_loom))]
pub type RwLockReadGuard<'a, T, P> = lock_api::RwLockReadGuard<'a, RawRwLock<P>, T>;

/// The right to change the value of a [`RwLock`].
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
#[cfg(not(gmp_loom))]
pub type RwLockWriteGuard<'a, T, P> = lock_api::RwLockWriteGuard<'a, RawRwLock<P>, T>;

/// The reader-writer lock without the value, for [`lock_api`]; `R` is how its readers are counted.
///
/// ```
/// use gmp_sched::native::Native;
/// use gmp_sched::sync::RawRwLock;
/// static LOCK: lock_api::RwLock<RawRwLock<Native>, u32> = lock_api::RwLock::new(0);
/// assert!(!LOCK.is_locked());
/// ```
pub struct RawRwLock<P: Platform, R: Readers = OneCount> {
    writers: RawMutex<P>,
    readers: R,
    waiting: Lock<Waiting<P>, P>,
}

struct Waiting<P: Platform> {
    readers: WaitQueue<P>,
    /// One at most: who holds the mutex.
    writer: WaitQueue<P>,
}

/// What a waker leaves a waiter that has got what it waited for.
const GRANTED: usize = 1;

impl<P: Platform, R: Readers> RawRwLock<P, R> {
    constructor! {
        /// One that is free. See [`RawRwLock`] for an example.
        #[must_use]
        pub fn new() -> Self {
            Self {
                writers: RawMutex::new(),
                readers: readers::none!(R),
                waiting: Lock::new(Waiting { readers: WaitQueue::new(), writer: WaitQueue::new() }),
            }
        }
    }
}

/// Readers.
impl<P: Platform, R: Readers> RawRwLock<P, R> {
    /// Takes it to read, waiting for as long as `limit` says. Gives where the reader was counted, `None` if it was not.
    #[inline]
    #[track_caller]
    pub(crate) fn share(&self, limit: Option<&Limit<'_, P>>) -> Option<Place> {
        let place = R::here::<P>();
        (self.readers.enter::<P>(place) || self.share_slow(place, limit)).then_some(place)
    }

    /// Takes it to read, if no writer has it or waits for it.
    #[cfg(not(gmp_loom))]
    #[inline]
    pub(super) fn try_share(&self) -> Option<Place> {
        let place = R::here::<P>();
        if self.readers.enter::<P>(place) {
            return Some(place);
        }
        self.unshare(place);
        None
    }

    /// The reader counted at `place` leaves.
    #[inline]
    pub(crate) fn unshare(&self, place: Place) {
        if self.readers.leave::<P>(place) {
            self.wake_writer();
        }
    }

    /// Waits for the writers to be done. The caller has counted itself, though it is closed.
    #[cold]
    #[track_caller]
    fn share_slow(&self, place: Place, limit: Option<&Limit<'_, P>>) -> bool {
        loop {
            // The writer may be waiting for just this reader to leave again.
            self.unshare(place);
            let blocking = Blocking::<P>::new(WaitReason::RwLockRead, limit);
            let is_over = blocking.is_over();
            let waiting = self.waiting.lock();
            if self.readers.is_closed() {
                // Whoever opens counts this reader in.
                return !is_over && self.wait_as_reader(blocking, waiting, place);
            }
            drop(waiting);
            if self.readers.enter::<P>(place) {
                return true;
            }
        }
    }

    fn wait_as_reader(
        &self,
        blocking: Blocking<'_, P>,
        waiting: impl DerefMut<Target = Waiting<P>>,
        place: Place,
    ) -> bool {
        let is_granted = blocking.wait(waiting, place.into(), |waiting, waiter| waiting.readers.push_back(waiter));
        if is_granted.is_none() {
            let pinned = Pinned::<P>::new();
            self.waiting.lock().readers.remove(my_waiter(&pinned));
        }
        is_granted.is_some()
    }

    /// A reader has left while it was closed.
    #[cold]
    fn wake_writer(&self) {
        let pinned = Pinned::<P>::new();
        let writer = {
            let waiting = self.waiting.lock();
            // It stays closed, so once there is no reader there will be none.
            if self.readers.is_empty::<P>() { waiting.writer.pop() } else { None }
        };
        if let Some(writer) = writer {
            writer.outcome.store(GRANTED, Ordering::Relaxed);
            ready(writer, &pinned);
        }
    }
}

/// Writers and upgradable readers.
impl<P: Platform, R: Readers> RawRwLock<P, R> {
    /// Takes it to write, waiting for as long as `limit` says; tells whether it did.
    #[inline]
    #[track_caller]
    pub(crate) fn exclude(&self, limit: Option<&Limit<'_, P>>) -> bool {
        if !self.writers.acquire_until(WaitReason::RwLockWrite, limit) {
            return false;
        }
        let release = OnDrop(|| self.writers.release());
        let is_excluded = self.drain(limit);
        if is_excluded {
            core::mem::forget(release);
        }
        is_excluded
    }

    /// Takes it to write if nobody has it; tells whether it did.
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

    /// The writer is done.
    #[inline]
    pub(crate) fn include(&self) {
        self.open();
        self.writers.release();
    }

    /// The holder of `writers` keeps readers out and waits for those that are in, for as long as `limit` says; tells
    /// whether none is left. If not, it is open again.
    #[inline]
    #[track_caller]
    fn drain(&self, limit: Option<&Limit<'_, P>>) -> bool {
        self.readers.close::<P>();
        self.readers.is_empty::<P>() || self.drain_slow(limit)
    }

    #[cold]
    #[track_caller]
    fn drain_slow(&self, limit: Option<&Limit<'_, P>>) -> bool {
        let reopen = OnDrop(|| self.open());
        let blocking = Blocking::<P>::new(WaitReason::RwLockWrite, limit);
        let is_over = blocking.is_over();
        let waiting = self.waiting.lock();
        let is_drained = if self.readers.is_empty::<P>() {
            drop(waiting);
            true
        } else if is_over {
            drop(waiting);
            false
        } else {
            blocking.wait(waiting, 0, |waiting, waiter| waiting.writer.push_back(waiter)).is_some() || {
                let pinned = Pinned::<P>::new();
                self.waiting.lock().writer.remove(my_waiter(&pinned));
                false
            }
        };
        if is_drained {
            core::mem::forget(reopen);
        }
        is_drained
    }

    /// [`drain`](Self::drain) without waiting.
    fn try_drain(&self) -> bool {
        self.readers.close::<P>();
        let is_drained = self.readers.is_empty::<P>();
        if !is_drained {
            self.open();
        }
        is_drained
    }

    /// Lets readers in again, those that wait first.
    fn open(&self) {
        let pinned = Pinned::<P>::new();
        let roused = {
            let waiting = self.waiting.lock();
            let mut roused = Roused::none();
            while let Some(reader) = waiting.readers.pop() {
                self.readers.admit::<P>(Place::from(reader.outcome.load(Ordering::Relaxed)));
                roused.push(reader);
            }
            self.readers.open::<P>();
            roused
        };
        roused.ready(&pinned);
    }

    /// The writer becomes a reader.
    #[cfg(not(gmp_loom))]
    fn downgrade(&self) -> Place {
        let place = self.add_reader();
        self.include();
        place
    }

    /// Counts a reader in whom the holder of `writers` vouches for.
    #[cfg(not(gmp_loom))]
    fn add_reader(&self) -> Place {
        let place = R::here::<P>();
        self.readers.admit::<P>(place);
        place
    }
}

impl<P: Platform, R: Readers> Default for RawRwLock<P, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, R: Readers> fmt::Debug for RawRwLock<P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock")
            .field("writers", &self.writers)
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}
