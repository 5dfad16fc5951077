//! What a scheduling policy needs to store: the queue of a P, ordered by rank, and the rank of a G.

#[cfg(feature = "std")]
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::base::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::base::instant::Instant;
use crate::base::points::Site;
use crate::base::ranked_queue::{Ranked, RankedPlace, RankedQueue};
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::Goroutine;
use crate::platform::Platform;
use crate::policy::Policy;

/// A policy that is installed in a scheduler.
#[derive(Debug)]
pub(crate) struct Installed(pub(crate) &'static dyn Policy);

/// The runnable Gs of a P, ordered by rank. Any M may add and take Gs; each operation takes a lock of its own.
pub(crate) struct RankedGoroutines<Plat: Platform> {
    queue: Lock<RankedQueue<Goroutine<Plat>>, Plat>,
    /// The number of Gs, which can be read without the lock.
    length: AtomicUsize,
    /// The rank of the first G, which can be read without the lock.
    first: AtomicU64,
}

impl<Plat: Platform> RankedGoroutines<Plat> {
    pub(crate) fn new() -> Self {
        Self { queue: Lock::new(RankedQueue::new()), length: AtomicUsize::new(0), first: AtomicU64::new(u64::MAX) }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of Gs. Takes no lock; callable from interrupts.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// The rank of the first G, or the highest rank if there is none.
    pub(crate) fn first(&self) -> u64 {
        self.first.load(Ordering::Relaxed)
    }

    /// Adds a runnable G that is on no queue and waits since `since`. The caller owns the G, and makes sure that an M
    /// notices it.
    pub(crate) fn push(&self, goroutine: &'static Goroutine<Plat>, rank: u64, since: Instant) {
        Plat::point_before_lock(Site::RunQueue);
        let mut queue = self.queue.lock();
        queue.push(goroutine, rank, since.as_nanos().max(1));
        self.publish(&queue);
    }

    /// Takes the G with the lowest rank, if there is one.
    pub(crate) fn pop(&self) -> Option<&'static Goroutine<Plat>> {
        if self.is_empty() {
            return None;
        }
        Plat::point_before_lock(Site::RunQueue);
        let mut queue = self.queue.lock();
        let first = queue.pop();
        self.publish(&queue);
        first
    }

    /// The Gs, in no certain order. Empty if an M holds the lock. For the simulator's checks.
    #[cfg(feature = "std")]
    pub(crate) fn elements(&self) -> Vec<&'static Goroutine<Plat>> {
        self.queue.try_lock().map_or_else(Vec::new, |queue| queue.elements())
    }

    fn publish(&self, queue: &RankedQueue<Goroutine<Plat>>) {
        self.length.store(queue.len(), Ordering::Relaxed);
        self.first.store(queue.first().map_or(u64::MAX, |first| first.place().rank()), Ordering::Relaxed);
    }
}

impl<Plat: Platform> fmt::Debug for RankedGoroutines<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RankedGoroutines({})", self.len())
    }
}

/// What a policy knows about a G. Only the G's owner writes it.
#[derive(Debug)]
pub(crate) struct Ranking<Plat: Platform> {
    /// The id of the G to which the other values belong, so that they need not be cleared when the slot gets a new G.
    /// [`NEXT`] if they belong to the G that the owner of the slot is about to spawn.
    life: AtomicU64,
    parameter: AtomicU64,
    /// How much of its slice the G had used when it was displaced, in nanoseconds. 0 if it was not.
    used: AtomicU64,
    place: RankedPlace<Goroutine<Plat>>,
}

/// No G has this id.
const NEXT: u64 = u64::MAX;

impl<Plat: Platform> Ranking<Plat> {
    pub(crate) fn new() -> Self {
        Self {
            life: AtomicU64::new(0),
            parameter: AtomicU64::new(0),
            used: AtomicU64::new(0),
            place: RankedPlace::new(),
        }
    }

    /// Sets the parameter of the G that the caller, the owner of the slot, is about to spawn.
    pub(crate) fn begin_next(&self, parameter: u64) {
        self.life.store(NEXT, Ordering::Relaxed);
        self.parameter.store(parameter, Ordering::Relaxed);
        self.place.forget();
    }
}

impl<Plat: Platform> Goroutine<Plat> {
    /// Makes the values of the ranking those of the current G of this slot. Called by its owner.
    fn own_ranking(&self) -> &Ranking<Plat> {
        let (ranking, id) = (&self.ranking, self.id().get());
        let life = ranking.life.load(Ordering::Relaxed);
        if life != id {
            ranking.life.store(id, Ordering::Relaxed);
            if life != NEXT {
                ranking.parameter.store(0, Ordering::Relaxed);
                ranking.place.forget();
            }
        }
        ranking
    }

    /// The number that the program has given to the G; 0 if none. Called by the G's owner.
    pub(crate) fn parameter(&self) -> u64 {
        self.own_ranking().parameter.load(Ordering::Relaxed)
    }

    pub(crate) fn set_parameter(&self, parameter: u64) {
        self.own_ranking().parameter.store(parameter, Ordering::Relaxed);
    }

    /// The rank with which the G has waited last and the time when that wait began, or `None` if it never waited. A
    /// caller that is not the G's owner may get an outdated answer.
    pub(crate) fn placed(&self) -> Option<(u64, Instant)> {
        let place = &self.ranking.place;
        let is_current = self.ranking.life.load(Ordering::Relaxed) == self.id().get();
        (is_current && place.arrival() != 0).then(|| (place.rank(), Instant::from_nanos(place.arrival())))
    }

    /// How much of its slice the G had used when it began to wait.
    pub(crate) fn used(&self) -> Duration {
        Duration::from_nanos(self.ranking.used.load(Ordering::Relaxed))
    }

    /// Sets [`used`](Self::used). Called by the G's owner before it adds the G to a queue.
    pub(crate) fn set_used(&self, used: Duration) {
        self.ranking.used.store(used.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl<Plat: Platform> Ranked for Goroutine<Plat> {
    fn place(&self) -> &RankedPlace<Self> {
        &self.ranking.place
    }
}
