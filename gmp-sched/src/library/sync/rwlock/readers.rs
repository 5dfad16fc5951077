//! Counting readers: the interface, and the count in one word.

use core::fmt::Debug;

use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::points::Site;
use crate::platform::Platform;

/// The index of the counter in which a reader is counted, until it leaves. See [`Readers`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderSlot(pub(super) usize);

impl From<usize> for ReaderSlot {
    fn from(slot: usize) -> Self {
        Self(slot)
    }
}

impl From<ReaderSlot> for usize {
    fn from(slot: ReaderSlot) -> Self {
        slot.0
    }
}

/// How the readers of a lock are counted: [`OneCount`], or `SpreadCounts` of the feature `extras`.
///
/// Four operations must be in one total order: a reader counts itself and then checks whether the count is closed; a
/// writer closes the count and then checks whether it is zero.
///
/// ```
/// use gmp_sched::native::{self, Native};
/// use gmp_sched::sync::lock_api::RwLock;
/// use gmp_sched::sync::{OneCount, ReaderSlot, RawRwLock, Readers};
///
/// fn read<R: Readers>(lock: &RwLock<RawRwLock<Native, R>, u32>) -> u32 {
///     *lock.read()
/// }
///
/// unsafe { native::enter() }.run(1, || {
///     assert_eq!(read(&RwLock::<RawRwLock<Native, OneCount>, _>::new(1)), 1);
/// });
/// assert_eq!(usize::from(ReaderSlot::from(3)), 3);
/// ```
pub trait Readers: Debug + Send + Sync + Sized + 'static + sealed::Sealed {
    /// The state without readers, not closed.
    #[cfg(not(gmp_loom))]
    #[doc(hidden)]
    const NONE: Self;

    /// The state without readers, not closed.
    #[cfg(gmp_loom)]
    fn none() -> Self;

    /// The slot for a reader that enters now.
    #[doc(hidden)]
    fn current<P: Platform>() -> ReaderSlot;

    /// Counts a reader. Returns `false` if the count is closed; the reader must then leave again.
    #[doc(hidden)]
    fn enter<P: Platform>(&self, slot: ReaderSlot) -> bool;

    /// Counts a reader that the writer admits.
    #[doc(hidden)]
    fn admit<P: Platform>(&self, slot: ReaderSlot);

    /// Removes a reader from the count; returns whether the count is closed.
    #[doc(hidden)]
    fn leave<P: Platform>(&self, slot: ReaderSlot) -> bool;

    /// Keeps readers from entering by themselves.
    #[doc(hidden)]
    fn close<P: Platform>(&self);

    /// Undoes [`close`](Self::close).
    #[doc(hidden)]
    fn open<P: Platform>(&self);

    /// Whether the count is closed.
    #[doc(hidden)]
    fn is_closed(&self) -> bool;

    /// Whether the count is zero. While the count is closed, zero is final. A reader may still increment the count,
    /// but then finds it closed and leaves again at once.
    #[doc(hidden)]
    fn is_empty<P: Platform>(&self) -> bool;
}

/// The counts of a free lock, for constructors.
macro_rules! none {
    ($readers:ty) => {{
        #[cfg(not(gmp_loom))]
        {
            <$readers>::NONE
        }
        #[cfg(gmp_loom)]
        {
            <$readers>::none()
        }
    }};
}
pub(super) use none;

/// Defines the initial counts: as a constant, or as a function under loom.
macro_rules! initially {
    ($value:expr) => {
        #[cfg(not(gmp_loom))]
        const NONE: Self = $value;

        #[cfg(gmp_loom)]
        fn none() -> Self {
            $value
        }
    };
}
#[cfg(feature = "extras")]
pub(super) use initially;

pub(super) mod sealed {
    pub trait Sealed {}
    impl Sealed for super::OneCount {}
}

/// Counts all readers in one word, whose top bit is set while the count is closed. See [`Readers`] for an example. Go:
/// `readerCount`.
#[doc(alias = "readerCount")]
#[derive(Debug)]
pub struct OneCount(AtomicU32);

const CLOSED: u32 = 1 << 31;
/// Maximum number of readers. Go: `rwmutexMaxReaders`.
pub(super) const LIMIT: u32 = 1 << 30;

#[cold]
pub(super) fn too_many() -> ! {
    panic!("sync: too many readers of a RwLock: guards were forgotten")
}

impl Readers for OneCount {
    initially!(Self(AtomicU32::new(0)));

    #[inline]
    fn current<P: Platform>() -> ReaderSlot {
        ReaderSlot(0)
    }

    #[inline]
    fn enter<P: Platform>(&self, _: ReaderSlot) -> bool {
        P::point(Site::Sync);
        // Ordering: Acquire; partner: the Release in `open`. The reader sees what the last writer did. This increment
        // and `close` are in one total order, because they modify the same word.
        let before = self.0.fetch_add(1, Ordering::Acquire);
        if before < LIMIT {
            return true;
        }
        if before & !CLOSED >= LIMIT {
            self.0.fetch_sub(1, Ordering::Relaxed);
            too_many();
        }
        false
    }

    #[inline]
    fn admit<P: Platform>(&self, _: ReaderSlot) {
        P::point(Site::Sync);
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn leave<P: Platform>(&self, _: ReaderSlot) -> bool {
        P::point(Site::Sync);
        // Ordering: Release; partner: the Acquire in `is_empty`. This reader's reads happen before the next writer's
        // writes.
        self.0.fetch_sub(1, Ordering::Release) & CLOSED != 0
    }

    #[inline]
    fn close<P: Platform>(&self) {
        P::point(Site::Sync);
        self.0.fetch_or(CLOSED, Ordering::Relaxed);
    }

    #[inline]
    fn open<P: Platform>(&self) {
        P::point(Site::Sync);
        self.0.fetch_and(!CLOSED, Ordering::Release);
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CLOSED != 0
    }

    #[inline]
    fn is_empty<P: Platform>(&self) -> bool {
        P::point(Site::Sync);
        self.0.load(Ordering::Acquire) & !CLOSED == 0
    }
}
