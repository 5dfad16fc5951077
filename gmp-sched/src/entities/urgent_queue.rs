//! The urgent queue of a P: the Gs that an event has readied, and that run before the other Gs of the P.
//!
//! `urgent` has the rules by which these Gs run.

#[cfg(feature = "std")]
use alloc::vec::Vec;
use core::fmt;

use crate::base::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "std")]
use crate::base::list::Linked;
use crate::base::list::List;
use crate::base::points::Site;
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::platform::Platform;
use crate::record::trace::EventKind;

/// A FIFO of runnable Gs. Any M may append Gs and take the first one; each operation takes a lock of its own.
pub(crate) struct UrgentQueue<Plat: Platform> {
    goroutines: Lock<List<Goroutine<Plat>>, Plat>,
    /// The number of Gs, which can be read without the lock.
    length: AtomicUsize,
}

impl<Plat: Platform> UrgentQueue<Plat> {
    pub(crate) fn new() -> Self {
        Self { goroutines: Lock::new(List::new()), length: AtomicUsize::new(0) }
    }

    /// Whether there is no G in the queue. Takes no lock; callable from interrupts.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    /// The Gs in the queue, in their order. Empty if an M holds the lock. For the simulator's checks.
    #[cfg(feature = "std")]
    pub(crate) fn elements(&self) -> Vec<&'static Goroutine<Plat>> {
        let goroutines = self.goroutines.try_lock();
        let first = goroutines.as_ref().and_then(|goroutines| goroutines.front());
        let next = |goroutine: &&'static Goroutine<Plat>| Linked::<0>::link(*goroutine).load(Ordering::Relaxed);
        core::iter::successors(first, next).take(goroutines.map_or(0, |goroutines| goroutines.len())).collect()
    }

    /// Appends a runnable G that is on no queue. The caller makes sure that an M notices the G.
    pub(crate) fn push_back(&self, goroutine: &'static Goroutine<Plat>) {
        Plat::point_before_lock(Site::RunQueue);
        let mut goroutines = self.goroutines.lock();
        goroutines.push_back(goroutine);
        self.length.store(goroutines.len(), Ordering::Relaxed);
    }

    /// Takes the first G, if there is one.
    pub(crate) fn pop_front(&self) -> Option<&'static Goroutine<Plat>> {
        if self.is_empty() {
            return None;
        }
        Plat::point_before_lock(Site::RunQueue);
        let mut goroutines = self.goroutines.lock();
        let first = goroutines.pop_front();
        self.length.store(goroutines.len(), Ordering::Relaxed);
        first
    }
}

impl<Plat: Platform> Processor<Plat> {
    /// Puts an urgent G at the tail of the urgent queue of this P, which the caller holds. The caller makes sure that
    /// the G is noticed.
    pub(crate) fn put_urgent(&self, goroutine: &'static Goroutine<Plat>) {
        self.tracer.note::<Plat>(EventKind::UrgentPut, Some(goroutine.id()), self.id().get().into());
        self.urgent.push_back(goroutine);
    }

    /// Like [`put_urgent`](Self::put_urgent), for a caller that holds no P.
    pub(crate) fn put_urgent_from_outside(&self, goroutine: &'static Goroutine<Plat>) {
        goroutine.scheduler().note_outside(EventKind::UrgentPut, goroutine, self.id().get().into());
        self.urgent.push_back(goroutine);
    }
}

impl<Plat: Platform> fmt::Debug for UrgentQueue<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UrgentQueue({})", self.length.load(Ordering::Relaxed))
    }
}
