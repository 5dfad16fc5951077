//! Counting readers: in one word, or spread over cache lines.

use core::fmt::Debug;

use crate::base::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::platform::{Pinned, Platform, Site};

/// Where a reader is counted; it leaves where it entered. See [`Readers`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(usize);

impl From<usize> for Place {
    fn from(place: usize) -> Self {
        Self(place)
    }
}

impl From<Place> for usize {
    fn from(place: Place) -> Self {
        place.0
    }
}

/// How the readers of a lock are counted. There are two ways, [`OneCount`] and [`SpreadCounts`].
///
/// Between counting a reader and looking whether it is closed, and between closing and looking for readers, there is a
/// total order.
///
/// ```
/// use gmp_sched::native::{self, Native};
/// use gmp_sched::sync::lock_api::RwLock;
/// use gmp_sched::sync::{OneCount, Place, RawRwLock, Readers, SpreadCounts};
///
/// fn read<R: Readers>(lock: &RwLock<RawRwLock<Native, R>, u32>) -> u32 {
///     *lock.read()
/// }
///
/// unsafe { native::enter() }.run(1, || {
///     assert_eq!(read(&RwLock::<RawRwLock<Native, OneCount>, _>::new(1)), 1);
///     assert_eq!(read(&RwLock::<RawRwLock<Native, SpreadCounts>, _>::new(2)), 2);
/// });
/// assert_eq!(usize::from(Place::from(3)), 3);
/// ```
pub trait Readers: Debug + Send + Sync + Sized + 'static + sealed::Sealed {
    /// No reader.
    #[cfg(not(gmp_loom))]
    #[doc(hidden)]
    const NONE: Self;

    /// No reader.
    #[cfg(gmp_loom)]
    fn none() -> Self;

    /// Where a reader is counted that comes now.
    #[doc(hidden)]
    fn here<P: Platform>() -> Place;

    /// Counts a reader; `false` if it is closed: then it has to leave again.
    #[doc(hidden)]
    fn enter<P: Platform>(&self, place: Place) -> bool;

    /// Counts a reader that the writer lets in.
    #[doc(hidden)]
    fn admit<P: Platform>(&self, place: Place);

    /// Takes a reader off the count; tells whether it is closed.
    #[doc(hidden)]
    fn leave<P: Platform>(&self, place: Place) -> bool;

    /// Lets no reader enter by itself.
    #[doc(hidden)]
    fn close<P: Platform>(&self);

    /// Undoes [`close`](Self::close).
    #[doc(hidden)]
    fn open<P: Platform>(&self);

    /// Whether it is closed.
    #[doc(hidden)]
    fn is_closed(&self) -> bool;

    /// Whether no reader is counted. If it is closed, that stays so, except for readers that leave again.
    #[doc(hidden)]
    fn is_empty<P: Platform>(&self) -> bool;
}

/// The counts of a lock that nobody has, for a constructor.
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

/// Says what counts are initially: as a constant, or where loom wants it at run time.
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

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::OneCount {}
    impl Sealed for super::SpreadCounts {}
}

/// All readers in one word, whose top bit says that it is closed. See [`Readers`] for an example. Go: `readerCount`.
#[doc(alias = "readerCount")]
#[derive(Debug)]
pub struct OneCount(AtomicU32);

const CLOSED: u32 = 1 << 31;
/// Readers at most. Go: `rwmutexMaxReaders`.
const LIMIT: u32 = 1 << 30;

#[cold]
fn too_many() -> ! {
    panic!("sync: too many readers of a RwLock: guards were forgotten")
}

impl Readers for OneCount {
    initially!(Self(AtomicU32::new(0)));

    #[inline]
    fn here<P: Platform>() -> Place {
        Place(0)
    }

    #[inline]
    fn enter<P: Platform>(&self, _: Place) -> bool {
        P::point(Site::Sync);
        // Ordering: Acquire: what the last writer did is seen; partner: the Release in `open`. That this and `close` are
        // changes of the same word is the total order.
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
    fn admit<P: Platform>(&self, _: Place) {
        P::point(Site::Sync);
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn leave<P: Platform>(&self, _: Place) -> bool {
        P::point(Site::Sync);
        // Ordering: Release: our reads come before the next writer's writes; partner: the Acquire in `is_empty`.
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

/// Cache lines over which [`SpreadCounts`] spreads the readers. With more Ps than that, several share one.
const LINES: usize = 8;

/// One count for each P, in cache lines of their own. See [`Readers`] for an example.
#[derive(Debug)]
pub struct SpreadCounts {
    /// Written by writers only, so readers share the line without disturbing each other.
    closed: Line<AtomicBool>,
    counts: [Line<AtomicU32>; LINES],
}

/// Two lines, since processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

impl SpreadCounts {
    fn count(&self, place: Place) -> &AtomicU32 {
        &self.counts[place.0 % LINES].0
    }
}

/// loom takes a `SeqCst` access for one that acquires and releases, so there a fence makes up for it.
#[inline(always)]
fn total_order() {
    #[cfg(gmp_loom)]
    crate::base::atomic::fence(Ordering::SeqCst);
}

impl Readers for SpreadCounts {
    initially!({
        let counts = [
            Line(AtomicU32::new(0)),
            Line(AtomicU32::new(0)),
            Line(AtomicU32::new(0)),
            Line(AtomicU32::new(0)),
            Line(AtomicU32::new(0)),
            Line(AtomicU32::new(0)),
            Line(AtomicU32::new(0)),
            Line(AtomicU32::new(0)),
        ];
        Self { closed: Line(AtomicBool::new(false)), counts }
    });

    #[inline]
    fn here<P: Platform>() -> Place {
        let pinned = Pinned::<P>::new();
        let processor = pinned.try_machine().and_then(|machine| machine.processor());
        Place(processor.map_or(0, |processor| processor.id().get() as usize % LINES))
    }

    #[inline]
    fn enter<P: Platform>(&self, place: Place) -> bool {
        P::point(Site::Sync);
        // Ordering: SeqCst, this and the load; partners: store and loads of `close` and `is_empty`.
        let before = self.count(place).fetch_add(1, Ordering::SeqCst);
        if before >= LIMIT {
            self.count(place).fetch_sub(1, Ordering::Relaxed);
            too_many();
        }
        total_order();
        P::point(Site::Sync);
        !self.closed.0.load(Ordering::SeqCst)
    }

    #[inline]
    fn admit<P: Platform>(&self, place: Place) {
        P::point(Site::Sync);
        self.count(place).fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn leave<P: Platform>(&self, place: Place) -> bool {
        P::point(Site::Sync);
        // Ordering: as in `enter`; and Release, as in `OneCount::leave`.
        self.count(place).fetch_sub(1, Ordering::SeqCst);
        total_order();
        P::point(Site::Sync);
        self.closed.0.load(Ordering::SeqCst)
    }

    #[inline]
    fn close<P: Platform>(&self) {
        P::point(Site::Sync);
        self.closed.0.swap(true, Ordering::SeqCst);
        total_order();
    }

    #[inline]
    fn open<P: Platform>(&self) {
        P::point(Site::Sync);
        // Ordering: Release; partner: the load in `enter`.
        self.closed.0.store(false, Ordering::Release);
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.closed.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn is_empty<P: Platform>(&self) -> bool {
        self.counts.iter().all(|count| {
            P::point(Site::Sync);
            count.0.load(Ordering::SeqCst) == 0
        })
    }
}
