//! How a [`RawRwLock`](super::RawRwLock) counts its readers. Only code that names the raw lock with its second type
//! parameter needs this module; [`RwLock`](super::RwLock) and `ReadMostlyRwLock` set this parameter.
//!
//! ```
//! use gmp_sched::native::{self, Native};
//! use gmp_sched::sync::RawRwLock;
//! use gmp_sched::sync::lock_api::RwLock;
//! use gmp_sched::sync::readers::{OneCount, Readers};
//!
//! fn read<R: Readers>(lock: &RwLock<RawRwLock<Native, R>, u32>) -> u32 {
//!     *lock.read()
//! }
//!
//! unsafe { native::enter() }.run(1, || {
//!     assert_eq!(read(&RwLock::<RawRwLock<Native, OneCount>, _>::new(1)), 1);
//! });
//! ```

use core::fmt::Debug;

use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::points::Site;
use crate::base::under_loom::associated_const;
use crate::platform::Platform;

#[cfg(feature = "extras")]
pub use super::read_mostly::SpreadCounts;

/// The index of the counter that counts a reader. The reader's guard contains this index, as the `SharedGuard` of
/// `lock_api`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderSlot(pub(super) usize);

/// A type that counts the readers of a lock: [`OneCount`], or `SpreadCounts` of the feature `extras`.
///
/// This trait is a bound for code that is generic over the two types. It is sealed, so that no other type can implement
/// it, because the lock is sound only if the count is right. Its methods are called by the lock alone, so the
/// documentation hides them. Four operations must be in one total order: a reader counts itself and checks whether the
/// count is closed; a writer closes the count and then checks whether it is zero.
pub trait Readers: Debug + Send + Sync + Sized + 'static + sealed::Sealed {
    associated_const! {
        /// The count of a new lock: there are no readers, and no writer has closed the count.
        #[doc(hidden)]
        const NONE: Self;
    }

    /// Returns the index of the counter for a reader that enters now.
    #[doc(hidden)]
    fn current<Plat: Platform>() -> ReaderSlot;

    /// Counts a reader, unless the count is closed. Returns whether the reader was counted. After `false`, the caller
    /// must call [`withdraw`](Self::withdraw).
    #[doc(hidden)]
    fn enter<Plat: Platform>(&self, slot: ReaderSlot) -> bool;

    /// Ends an `enter` that has returned `false`. Returns whether a writer may have seen the refused reader in the
    /// count, so that the writer must be woken.
    #[doc(hidden)]
    fn withdraw<Plat: Platform>(&self, slot: ReaderSlot) -> bool;

    /// Counts a reader that the holder of the writers' mutex admits. Returns `false`, and counts no reader, if there
    /// are too many.
    #[doc(hidden)]
    #[must_use]
    fn admit<Plat: Platform>(&self, slot: ReaderSlot) -> bool;

    /// Removes a reader from the count; returns whether the count is closed. Panics if there is no reader.
    #[doc(hidden)]
    fn leave<Plat: Platform>(&self, slot: ReaderSlot) -> bool;

    /// Closes the count: from now on a reader enters only if the writer admits it.
    #[doc(hidden)]
    fn close<Plat: Platform>(&self);

    /// Closes the count if it is zero; returns whether it was. Otherwise the count stays open, or is open again when
    /// this function returns.
    #[doc(hidden)]
    fn try_close<Plat: Platform>(&self) -> bool;

    /// Undoes [`close`](Self::close).
    #[doc(hidden)]
    fn open<Plat: Platform>(&self);

    /// Whether the count is closed.
    #[doc(hidden)]
    fn is_closed(&self) -> bool;

    /// Whether the count is zero. Once a closed count has been zero, no reader enters: a reader that is counted
    /// nevertheless, for a moment, finds the count closed and withdraws.
    #[doc(hidden)]
    fn is_empty<Plat: Platform>(&self) -> bool;
}

pub(super) mod sealed {
    pub trait Sealed {}
    impl Sealed for super::OneCount {}
}

/// Counts all readers in one word, which is negative while the count is closed. See the [module](self) for an example.
/// Go: `readerCount`.
#[doc(alias = "readerCount")]
#[derive(Debug)]
pub struct OneCount(AtomicU32);

/// Set while the count is closed. These are two bits, so that the word of a closed count without readers stays negative
/// even if one reader too many is subtracted.
const CLOSED: u32 = 0b11 << 30;
/// Maximum number of readers. Go: `rwmutexMaxReaders`.
pub(super) const LIMIT: u32 = 1 << 29;

#[cold]
pub(super) fn too_many() -> ! {
    panic!("sync: too many readers of a RwLock: guards were forgotten")
}

#[cold]
pub(super) fn no_reader() -> ! {
    panic!("sync: RUnlock of unlocked RWMutex")
}

/// Adds one to `count`, whose value is `seen` or was so a moment ago. If the value is [`LIMIT`] or more, adds nothing
/// and returns the value as an error. The check comes before the addition, because a reader that is refused must not
/// make a writer or another reader fail.
#[inline(always)]
pub(super) fn increment<Plat: Platform>(count: &AtomicU32, seen: u32, order: Ordering) -> Result<(), u32> {
    // If the value is too large, its remainder differs from it, so that the exchange fails.
    let mut before = seen % LIMIT;
    loop {
        Plat::point(Site::Sync);
        match count.compare_exchange_weak(before, before + 1, order, Ordering::Relaxed) {
            Ok(_) => return Ok(()),
            Err(now) if now < LIMIT => before = now,
            Err(now) => return Err(now),
        }
    }
}

impl Readers for OneCount {
    associated_const! {
        const NONE: Self = Self(AtomicU32::new(0));
    }

    #[inline]
    fn current<Plat: Platform>() -> ReaderSlot {
        ReaderSlot(0)
    }

    #[inline]
    fn enter<Plat: Platform>(&self, _: ReaderSlot) -> bool {
        // Ordering: Acquire; partner: the Release in `open`. The reader sees what the last writer did. This increment
        // and `close` are in one total order, because they modify the same word. A closed count is above the limit.
        match increment::<Plat>(&self.0, self.0.load(Ordering::Relaxed), Ordering::Acquire) {
            Ok(()) => true,
            Err(count) if count & !CLOSED >= LIMIT => too_many(),
            Err(_) => false,
        }
    }

    #[inline]
    fn withdraw<Plat: Platform>(&self, _: ReaderSlot) -> bool {
        // A reader that finds the count closed has not been counted.
        false
    }

    #[inline]
    fn admit<Plat: Platform>(&self, _: ReaderSlot) -> bool {
        Plat::point(Site::Sync);
        let one_more = |count| (count & !CLOSED < LIMIT).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    #[inline]
    fn leave<Plat: Platform>(&self, _: ReaderSlot) -> bool {
        const MINUS_ONE: u32 = 1u32.wrapping_neg();
        Plat::point(Site::Sync);
        // Ordering: Release; partner: the Acquire in `is_empty`. This reader's reads happen before the next writer's
        // writes.
        //
        // Usually the count is open and was not zero, so that the result is not negative. On x86-64 this is `lock dec`
        // and a jump that depends on the sign, as in `RawMutex`.
        let is_negative = self.0.fetch_add(MINUS_ONE, Ordering::Release).wrapping_add(MINUS_ONE).cast_signed() < 0;
        if is_negative {
            self.check_left();
        }
        is_negative
    }

    #[inline]
    fn close<Plat: Platform>(&self) {
        Plat::point(Site::Sync);
        self.0.fetch_or(CLOSED, Ordering::Relaxed);
    }

    #[inline]
    fn try_close<Plat: Platform>(&self) -> bool {
        Plat::point(Site::Sync);
        // Ordering: Acquire as in `is_empty`.
        self.0.compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn open<Plat: Platform>(&self) {
        Plat::point(Site::Sync);
        self.0.fetch_and(!CLOSED, Ordering::Release);
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CLOSED != 0
    }

    #[inline]
    fn is_empty<Plat: Platform>(&self) -> bool {
        Plat::point(Site::Sync);
        self.0.load(Ordering::Acquire) & !CLOSED == 0
    }
}

impl OneCount {
    /// Called after a reader has left and the word is negative. If there was no reader, undoes the subtraction and
    /// panics. That happens only if unsafe code unlocks a lock that it has not locked, so for speed the check comes
    /// after the subtraction.
    #[cold]
    #[inline(never)]
    fn check_left(&self) {
        if self.0.load(Ordering::Relaxed) & !CLOSED > LIMIT {
            self.0.fetch_add(1, Ordering::Relaxed);
            no_reader();
        }
    }
}

#[cfg(all(test, feature = "std", not(gmp_loom)))]
pub(super) mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{LIMIT, OneCount, Readers};
    use crate::base::atomic::Ordering;
    use crate::native::{Native, THREADS};
    use crate::sync::RawRwLock;
    use crate::sync::lock_api::{RwLock, RwLockUpgradableReadGuard};

    /// Checks that an upgradable reader is not downgraded if there are too many readers (the count could overflow, and
    /// a writer would find no reader), and that the refused downgrade unlocks the lock. `fill` makes the count of a new
    /// lock full.
    pub(in crate::library::sync::rwlock) fn downgrade_is_refused_when<R: Readers>(fill: fn(&R)) {
        THREADS.run(1, move || {
            let lock = RwLock::<RawRwLock<Native, R>, u32>::new(0);
            #[expect(unsafe_code, reason = "changes the count of readers")]
            // SAFETY: the lock stays free, because only the count of readers is changed.
            fill(unsafe { &lock.raw().readers });
            let upgradable = lock.upgradable_read();
            let downgrade = AssertUnwindSafe(|| drop(RwLockUpgradableReadGuard::downgrade(upgradable)));
            let panic = catch_unwind(downgrade).expect_err("there are too many readers");
            assert!(panic.downcast::<&str>().is_ok_and(|message| message.contains("too many readers")));
            assert!(lock.try_upgradable_read().is_some(), "the refused guard has unlocked the lock");
            assert!(lock.try_write().is_none(), "the forgotten readers are still counted");
        });
    }

    #[test]
    fn downgrade_is_refused_when_there_are_too_many_readers() {
        downgrade_is_refused_when::<OneCount>(|count| count.0.store(LIMIT, Ordering::Relaxed));
    }
}
