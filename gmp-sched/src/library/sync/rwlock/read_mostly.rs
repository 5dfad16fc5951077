//! A reader-writer lock that counts its readers in several cache lines.

use crossbeam_utils::CachePadded;

use super::RawRwLock;
use super::readers::{ReaderSlot, Readers, increment, no_reader, sealed, too_many};
use crate::base::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use crate::base::points::Site;
use crate::base::under_loom::{IS_MODEL, associated_const};
use crate::platform::{Pinned, Platform};

/// A [`RwLock`](super::RwLock) without contention between readers. Each P counts its readers in a cache line of its
/// own, so reading scales with the number of Ps (up to eight; with more Ps, several share a line). The lock takes more
/// than a kilobyte, and a writer has to check all counts. So it suits values that are read often and written rarely.
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
/// In the same cases as [`RwLock`](super::RwLock).
pub type ReadMostlyRwLock<T, Plat> = lock_api::RwLock<RawRwLock<Plat, SpreadCounts>, T>;

/// Number of cache lines over which [`SpreadCounts`] spreads readers. With more Ps, several Ps share a line.
const LINES: usize = 8;

/// Eight counts of readers, each in a cache line of its own. A P always uses the same count.
///
/// ```
/// use gmp_sched::native::{self, Native};
/// use gmp_sched::sync::RawRwLock;
/// use gmp_sched::sync::lock_api::RwLock;
/// use gmp_sched::sync::readers::SpreadCounts;
///
/// unsafe { native::enter() }.run(1, || {
///     assert_eq!(*RwLock::<RawRwLock<Native, SpreadCounts>, _>::new(2).read(), 2);
/// });
/// ```
#[derive(Debug)]
pub struct SpreadCounts {
    /// Only writers write to this field, so readers on several Ps can load it without contention.
    closed: CachePadded<AtomicBool>,
    counts: [CachePadded<AtomicU32>; LINES],
}

impl SpreadCounts {
    fn count(&self, slot: ReaderSlot) -> &AtomicU32 {
        &self.counts[slot.0 % LINES]
    }
}

/// A fence under loom, and nothing otherwise. loom treats `SeqCst` accesses as acquire and release, and the fence
/// restores the total order.
#[inline(always)]
fn total_order() {
    if IS_MODEL {
        fence(Ordering::SeqCst);
    }
}

impl sealed::Sealed for SpreadCounts {}

impl Readers for SpreadCounts {
    associated_const! {
        const NONE: Self = {
            let counts = [
                CachePadded::new(AtomicU32::new(0)),
                CachePadded::new(AtomicU32::new(0)),
                CachePadded::new(AtomicU32::new(0)),
                CachePadded::new(AtomicU32::new(0)),
                CachePadded::new(AtomicU32::new(0)),
                CachePadded::new(AtomicU32::new(0)),
                CachePadded::new(AtomicU32::new(0)),
                CachePadded::new(AtomicU32::new(0)),
            ];
            Self { closed: CachePadded::new(AtomicBool::new(false)), counts }
        };
    }

    #[inline]
    fn current<Plat: Platform>() -> ReaderSlot {
        let pinned = Pinned::<Plat>::of_scheduler();
        let processor = pinned.try_machine().and_then(|machine| machine.processor());
        ReaderSlot(processor.map_or(0, |processor| processor.id().get() as usize % LINES))
    }

    #[inline]
    fn enter<Plat: Platform>(&self, slot: ReaderSlot) -> bool {
        let count = self.count(slot);
        // Ordering: SeqCst for this addition and for the load below; partners: the swap in `close` and the loads in
        // `is_empty`.
        if increment::<Plat>(count, count.load(Ordering::Relaxed), Ordering::SeqCst).is_err() {
            too_many();
        }
        total_order();
        Plat::point(Site::Sync);
        !self.closed.load(Ordering::SeqCst)
    }

    /// Removes the refused reader from the count. `enter` had to count it before checking whether the count is closed,
    /// because the counts and `closed` are different words.
    #[inline]
    fn withdraw<Plat: Platform>(&self, slot: ReaderSlot) -> bool {
        self.leave::<Plat>(slot)
    }

    #[inline]
    fn admit<Plat: Platform>(&self, slot: ReaderSlot) -> bool {
        increment::<Plat>(self.count(slot), self.count(slot).load(Ordering::Relaxed), Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn leave<Plat: Platform>(&self, slot: ReaderSlot) -> bool {
        Plat::point(Site::Sync);
        // Ordering: SeqCst as in `enter`. It also orders this reader's reads before the writes of the next writer, as
        // the Release in `OneCount::leave` does.
        if self.count(slot).fetch_sub(1, Ordering::SeqCst) == 0 {
            // Unsafe code has unlocked a lock that it has not locked.
            self.count(slot).fetch_add(1, Ordering::Relaxed);
            no_reader();
        }
        total_order();
        Plat::point(Site::Sync);
        self.closed.load(Ordering::SeqCst)
    }

    #[inline]
    fn close<Plat: Platform>(&self) {
        Plat::point(Site::Sync);
        self.closed.swap(true, Ordering::SeqCst);
        total_order();
    }

    #[inline]
    fn try_close<Plat: Platform>(&self) -> bool {
        self.close::<Plat>();
        let is_closed = self.is_empty::<Plat>();
        if !is_closed {
            self.open::<Plat>();
        }
        is_closed
    }

    #[inline]
    fn open<Plat: Platform>(&self) {
        Plat::point(Site::Sync);
        // Ordering: Release, so that a reader that finds the lock open sees the writes of the last writer. Partner: the
        // load in `enter`.
        self.closed.store(false, Ordering::Release);
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    #[inline]
    fn is_empty<Plat: Platform>(&self) -> bool {
        self.counts.iter().all(|count| {
            Plat::point(Site::Sync);
            count.load(Ordering::SeqCst) == 0
        })
    }
}

#[cfg(all(test, feature = "std", not(gmp_loom)))]
mod tests {
    use super::super::readers::LIMIT;
    use super::super::readers::tests::downgrade_is_refused_when;
    use super::{Ordering, SpreadCounts};

    #[test]
    fn downgrade_is_refused_when_there_are_too_many_readers() {
        downgrade_is_refused_when::<SpreadCounts>(|counts| {
            counts.counts.iter().for_each(|count| count.store(LIMIT, Ordering::Relaxed));
        });
    }
}
