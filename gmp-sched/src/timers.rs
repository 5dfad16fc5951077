//! The timers of a P: a heap of points in time with what is to be done then, and the earliest of them, known without a
//! lock.
//!
//! Go: `timers` (runtime/time.go): a 4-ary heap, one per P, that other Ps may run when they find nothing else to do.
//! Who sees to it that a timer is not slept past is the *keeper*: while a P runs, the M that holds it (by interrupt
//! where the platform has one, else whenever it picks a G); while it is idle, the idle M that parks with a deadline
//! (the timekeeper, see `idle`). Whoever makes a P's earliest timer earlier tells the keeper.
//!
//! A [`Timer`] knows its place in the heap, so that it can be taken out at once; Go marks it and takes it out later. A
//! timer that was stopped costs nothing afterwards, and "has it fired?" has one answer, given under the heap's lock.

use alloc::vec::Vec;
use core::fmt;

use crate::goroutine::{Goroutine, Ticket};
use crate::park::ready_pinned;
use crate::platform::{Lock, OutOfResources, Pinned, Platform, Site};
use crate::primitives::{AtomicU32, AtomicU64, Ordering};
use crate::processor::Processor;
use crate::reference::AtomicRef;
use crate::time::Instant;

/// Children of a node of the heap. Go: `timerHeapN`.
const ARITY: usize = 4;

/// The position of a timer that is in no heap.
const NOWHERE: u32 = u32::MAX;

/// Something that can be in one heap at a time. Like Gs, timers are never freed, only reused. Go: `timer`.
#[doc(alias = "timer")]
pub(crate) struct Timer<P: Platform> {
    /// Whose heap it is in, or was in last. Written under that heap's lock.
    home: AtomicRef<Processor<P>>,
    /// Where it is in that heap. Guarded by the heap's lock.
    position: AtomicU32,
}

impl<P: Platform> Timer<P> {
    pub(crate) fn new() -> Self {
        Self { home: AtomicRef::none(), position: AtomicU32::new(NOWHERE) }
    }

    fn is_armed(&self) -> bool {
        self.position.load(Ordering::Relaxed) != NOWHERE
    }

    /// Takes the timer out of its heap; tells whether it was there. If not, its action has been begun or done.
    ///
    /// The caller is pinned: whoever was preempted with the heap's lock in hand would be waited for by the preemption
    /// itself, which runs timers.
    pub(crate) fn cancel(&'static self, _pinned: &Pinned<P>) -> bool {
        loop {
            let Some(home) = self.home.load(Ordering::Relaxed) else { return false };
            P::point(Site::Timers);
            let mut heap = home.timers.heap.lock();
            // Ps that are taken out of use give their timers away.
            if !self.home.load(Ordering::Relaxed).is_some_and(|now| core::ptr::eq(now, home)) {
                continue;
            }
            if !self.is_armed() {
                return false;
            }
            heap.remove(self.position.load(Ordering::Relaxed) as usize);
            home.timers.publish_earliest(&heap);
            return true;
        }
    }
}

/// What is done when a timer is due: pinned, on the M that comes upon it, briefly, without blocking or allocating.
#[derive(Debug)]
pub(crate) enum Action<P: Platform> {
    /// Ends a G's wait and makes it runnable, unless somebody else has ended it.
    Wake(&'static Goroutine<P>, Ticket),
}

impl<P: Platform> Clone for Action<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Action<P> {}

impl<P: Platform> Action<P> {
    /// Does it; tells whether that made a G runnable.
    pub(crate) fn run(self, pinned: &Pinned<P>) -> bool {
        match self {
            Self::Wake(goroutine, ticket) => {
                let won = goroutine.claim(ticket);
                if won {
                    ready_pinned(pinned, goroutine);
                }
                won
            }
        }
    }
}

struct Entry<P: Platform> {
    when: Instant,
    /// Timers of the same instant fire in the order in which they were set.
    sequence: u64,
    timer: &'static Timer<P>,
    action: Action<P>,
}

impl<P: Platform> Clone for Entry<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Entry<P> {}

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

    /// Makes room for one more, so that [`arm`] does not allocate while the G can no longer be told. The room is the
    /// caller's until it is no longer pinned.
    pub(crate) fn reserve(&self) -> Result<(), OutOfResources> {
        self.heap.lock().entries.try_reserve(1).map_err(|_| OutOfResources)
    }

    fn publish_earliest(&self, heap: &Heap<P>) {
        let earliest = heap.entries.first().map_or(Instant::NEVER, |first| first.when);
        self.earliest.store(earliest.as_nanos(), Ordering::Relaxed);
    }

    /// Takes the earliest timer that is due.
    pub(crate) fn pop_due(&self, now: Instant) -> Option<Action<P>> {
        if self.earliest() > now {
            return None;
        }
        P::point(Site::Timers);
        let mut heap = self.heap.lock();
        let first = *heap.entries.first()?;
        if first.when > now {
            return None;
        }
        heap.remove(0);
        self.publish_earliest(&heap);
        Some(first.action)
    }
}

/// Has `action` done at `when`, by the current P's heap, in which there is room. `timer` is armed by nobody else.
pub(crate) fn arm<P: Platform>(pinned: &Pinned<P>, when: Instant, timer: &'static Timer<P>, action: Action<P>) {
    let processor = pinned.processor();
    // "Never" says that there is no timer at all.
    let when = when.min(Instant::LAST);
    P::point(Site::Timers);
    let is_first = {
        let mut heap = processor.timers.heap.lock();
        timer.home.store(Some(processor), Ordering::Relaxed);
        let is_first = heap.insert(when, timer, action);
        processor.timers.publish_earliest(&heap);
        is_first
    };
    if is_first {
        if P::TIMER_INTERRUPTS {
            P::arm_timer(pinned, processor, when);
        } else {
            pinned.machine().scheduler().tell_timekeeper(when);
        }
    }
}

impl<P: Platform> Heap<P> {
    /// Inserts a timer, for which there is room; tells whether it is the earliest now.
    fn insert(&mut self, when: Instant, timer: &'static Timer<P>, action: Action<P>) -> bool {
        debug_assert!(!timer.is_armed(), "armed a timer that is armed");
        self.sequence += 1;
        let entry = Entry { when, sequence: self.sequence, timer, action };
        let position = self.entries.len();
        self.entries.push(entry);
        self.sift_up(position, entry) == 0
    }

    fn remove(&mut self, position: usize) {
        let removed = self.entries.swap_remove(position);
        removed.timer.position.store(NOWHERE, Ordering::Relaxed);
        if let Some(&moved) = self.entries.get(position) {
            // What was last may belong above this place as well as below it.
            let position = self.sift_up(position, moved);
            self.sift_down(position, moved);
        }
    }

    fn place(&mut self, position: usize, entry: Entry<P>) {
        entry.timer.position.store(u32::try_from(position).expect("fewer than 2^32 timers"), Ordering::Relaxed);
        self.entries[position] = entry;
    }

    /// Puts `entry` at `position`, which is free, or above it; gives the place.
    fn sift_up(&mut self, mut position: usize, entry: Entry<P>) -> usize {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if !entry.before(&self.entries[parent]) {
                break;
            }
            self.place(position, self.entries[parent]);
            position = parent;
        }
        self.place(position, entry);
        position
    }

    /// Puts `entry` at `position`, which is free, or below it.
    fn sift_down(&mut self, mut position: usize, entry: Entry<P>) {
        loop {
            let first = ARITY * position + 1;
            let children = first..self.entries.len().min(first + ARITY);
            let least = children.reduce(|a, b| if self.entries[b].before(&self.entries[a]) { b } else { a });
            let Some(least) = least.filter(|&least| self.entries[least].before(&entry)) else { break };
            self.place(position, self.entries[least]);
            position = least;
        }
        self.place(position, entry);
    }
}

impl<P: Platform> fmt::Debug for Timer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("armed", &self.is_armed()).finish_non_exhaustive()
    }
}

impl<P: Platform> fmt::Debug for Timers<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("earliest", &self.earliest()).finish_non_exhaustive()
    }
}
