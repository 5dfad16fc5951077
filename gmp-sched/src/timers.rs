//! The timers of a P: a heap of Gs to be readied, and the earliest of them, known without a lock.
//!
//! Go: `timers` (runtime/time.go): a 4-ary heap, one per P, that other Ps may run when they find nothing else to do.
//! Who sees to it that a timer is not slept past is the *keeper*: while a P runs, the M that holds it (by interrupt
//! where the platform has one, else whenever it picks a G); while it is idle, the idle M that parks with a deadline
//! (the timekeeper, see `idle`). Whoever makes a P's earliest timer earlier tells the keeper.

use alloc::vec::Vec;
use core::fmt;

use crate::goroutine::Goroutine;
use crate::platform::{Lock, OutOfResources, Platform, Site};
use crate::primitives::{AtomicU64, Ordering};
use crate::time::Instant;

/// Children of a node of the heap. Go: `timerHeapN`.
const ARITY: usize = 4;

struct Entry<P: Platform> {
    when: Instant,
    /// Timers of the same instant fire in the order in which they were set.
    sequence: u64,
    goroutine: &'static Goroutine<P>,
}

impl<P: Platform> Entry<P> {
    fn before(&self, other: &Self) -> bool {
        (self.when, self.sequence) < (other.when, other.sequence)
    }
}

struct Heap<P: Platform> {
    entries: Vec<Entry<P>>,
    sequence: u64,
}

/// The timers of one P. Go: `timers`.
#[doc(alias = "timers")]
pub(crate) struct Timers<P: Platform> {
    heap: Lock<Heap<P>, P>,
    earliest: AtomicU64,
}

impl<P: Platform> Timers<P> {
    pub(crate) fn new() -> Self {
        Self {
            heap: Lock::new(Heap { entries: Vec::new(), sequence: 0 }),
            earliest: AtomicU64::new(Instant::NEVER.as_nanos()),
        }
    }

    /// When the first of them is due, [`Instant::NEVER`] if there is none. Takes no lock; callable from interrupts.
    #[inline(always)]
    pub(crate) fn earliest(&self) -> Instant {
        Instant::from_nanos(self.earliest.load(Ordering::Relaxed))
    }

    /// Makes room for one more, so that [`add`](Self::add) does not allocate while the G can no longer be told.
    pub(crate) fn reserve(&self) -> Result<(), OutOfResources> {
        self.heap.lock().entries.try_reserve(1).map_err(|_| OutOfResources)
    }

    /// Readies `goroutine` at `when`; tells whether this is now the earliest timer. There is room.
    pub(crate) fn add(&self, when: Instant, goroutine: &'static Goroutine<P>) -> bool {
        P::point(Site::Timers);
        let mut heap = self.heap.lock();
        heap.sequence += 1;
        let sequence = heap.sequence;
        heap.entries.push(Entry { when, sequence, goroutine });
        let last = heap.entries.len() - 1;
        heap.sift_up(last);
        let first = heap.entries[0].sequence == sequence;
        if first {
            self.earliest.store(when.as_nanos(), Ordering::Relaxed);
        }
        first
    }

    /// Takes the earliest timer that is due.
    pub(crate) fn pop_due(&self, now: Instant) -> Option<&'static Goroutine<P>> {
        if self.earliest() > now {
            return None;
        }
        let mut heap = self.heap.lock();
        if heap.entries.first()?.when > now {
            return None;
        }
        let entry = heap.entries.swap_remove(0);
        heap.sift_down(0);
        let earliest = heap.entries.first().map_or(Instant::NEVER, |first| first.when);
        self.earliest.store(earliest.as_nanos(), Ordering::Relaxed);
        Some(entry.goroutine)
    }
}

impl<P: Platform> Heap<P> {
    fn sift_up(&mut self, mut child: usize) {
        while child > 0 {
            let parent = (child - 1) / ARITY;
            if !self.entries[child].before(&self.entries[parent]) {
                return;
            }
            self.entries.swap(child, parent);
            child = parent;
        }
    }

    fn sift_down(&mut self, mut parent: usize) {
        loop {
            let children = ARITY * parent + 1..self.entries.len().min(ARITY * parent + 1 + ARITY);
            let Some(least) = children.reduce(|a, b| if self.entries[b].before(&self.entries[a]) { b } else { a })
            else {
                return;
            };
            if !self.entries[least].before(&self.entries[parent]) {
                return;
            }
            self.entries.swap(least, parent);
            parent = least;
        }
    }
}

impl<P: Platform> fmt::Debug for Timers<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("earliest", &self.earliest()).finish_non_exhaustive()
    }
}
