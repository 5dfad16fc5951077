//! The slots of dead Gs: never freed, reused with or without their stacks.
//!
//! | list | owner | what it contains | Go |
//! |---|---|---|---|
//! | [`FreeList`] | each P, at most 64 slots | dead Gs with a stack of the standard size | `p.gFree` |
//! | `FreeSlots::batches`, `FreeSlots::with_stack` | shared by all Ps | dead Gs with a stack of the standard size | `sched.gFree.stack` |
//! | `FreeSlots::bare` | shared by all Ps | dead Gs without a stack | `sched.gFree.noStack` |
//!
//! Slots move between a P and the shared lists in linked batches of 32. Moving a batch takes no longer than moving one
//! slot. (Go moves them one by one.)
//!
//! The spawn of a G with a stack of the standard size takes a slot together with its stack in one step. So a slot keeps
//! its stack only if the stack has the standard size. The stack in a slot need not be the one with which the G began,
//! because Gs may [exchange](crate::refinements::exchange_stacks) their stacks. A stack of another size is
//! returned to the platform when its G dies. Standard stacks are returned when the platform is short of memory
//! ([`Scheduler::free_idle_stacks`]).

use core::fmt;

use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::list::{Linked, List};
use crate::base::reference::AtomicRef;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

/// Size of a G's stack in bytes, unless its platform has [another default](crate::platform::Platform::STACK_SIZE) or
/// the program chooses another size. If the platform can, it commits the memory of a stack only when the memory is
/// touched.
pub const STACK_SIZE: usize = 64 * 1024;

/// Number of slots in a batch. A P keeps at most two batches.
pub(crate) const BATCH: u32 = 32;

/// The `LINK` parameter of [`Linked`] that selects the link of the list of batches.
pub(crate) const BATCHES: usize = 1;

/// The free slots of type `T` that belong to no P. Go: `sched.gFree`.
#[derive(Debug)]
pub(crate) struct FreeSlots<T: Linked + Linked<BATCHES>> {
    /// The list of batches. Its elements are the first slots of the batches.
    pub(crate) batches: List<T, BATCHES>,
    /// The slots with a stack that are in no batch.
    pub(crate) with_stack: List<T>,
    pub(crate) bare: List<T>,
}

impl<T: Linked + Linked<BATCHES>> FreeSlots<T> {
    pub(crate) const fn new() -> Self {
        Self { batches: List::new(), with_stack: List::new(), bare: List::new() }
    }

    /// Takes a slot with a stack. If no single slot is left, splits a batch into single slots. Returns `None` if no
    /// batch is left either.
    pub(crate) fn pop_with_stack(&mut self) -> Option<&'static T> {
        if self.with_stack.is_empty() {
            let mut next = self.batches.pop_front();
            while let Some(goroutine) = next {
                next = link(goroutine).load(Ordering::Relaxed);
                self.with_stack.push_back(goroutine);
            }
        }
        self.with_stack.pop_front()
    }
}

/// Returns the link by which a dead G is on a free list.
#[inline(always)]
fn link<T: Linked>(goroutine: &T) -> &AtomicRef<T> {
    Linked::<0>::link(goroutine)
}

/// The free list of a P: dead Gs, each with its stack. `T` is the type of a G. The slot of the G that died last is
/// reused first. Only the holder of the P adds and takes slots. Go: `p.gFree`.
pub(crate) struct FreeList<T: 'static> {
    pub(crate) first: AtomicRef<T>,
    pub(crate) count: AtomicU32,
    /// The first slot of the spare batch, a second batch that is always complete; `None` if there is none.
    pub(crate) spare: AtomicRef<T>,
}

impl<T: Linked> FreeList<T> {
    pub(crate) fn new() -> Self {
        Self { first: AtomicRef::none(), count: AtomicU32::new(0), spare: AtomicRef::none() }
    }

    /// The number of slots. A caller on another M may get an outdated answer.
    pub(crate) fn len(&self) -> u32 {
        let is_there_more = self.spare.load(Ordering::Relaxed).is_some();
        self.count.load(Ordering::Relaxed) + if is_there_more { BATCH } else { 0 }
    }

    /// Takes a slot that is not in the spare batch. Returns `None` if there is no such slot.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<&'static T> {
        let goroutine = self.first.load(Ordering::Relaxed)?;
        self.first.store(link(goroutine).load(Ordering::Relaxed), Ordering::Relaxed);
        self.count.store(self.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        Some(goroutine)
    }

    /// Returns the slot that [`pop`](Self::pop) would take, if any, and leaves it on the list.
    pub(crate) fn last(&self) -> Option<&'static T> {
        self.first.load(Ordering::Relaxed)
    }

    /// Whether the slots that are not in the spare batch form a complete batch.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) == BATCH
    }

    /// Adds a slot. The list must not be [full](Self::is_full).
    #[inline(always)]
    pub(crate) fn push(&self, goroutine: &'static T) {
        link(goroutine).store(self.first.load(Ordering::Relaxed), Ordering::Relaxed);
        self.first.store(Some(goroutine), Ordering::Relaxed);
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Replaces the slots that are not in the spare batch by `batch`, which is complete or empty.
    pub(crate) fn set(&self, batch: Option<&'static T>) {
        self.first.store(batch, Ordering::Relaxed);
        self.count.store(if batch.is_some() { BATCH } else { 0 }, Ordering::Relaxed);
    }
}

impl<T: Linked> fmt::Debug for FreeList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FreeList({})", self.len())
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// The number of stacks that dead Gs keep for reuse.
    #[must_use]
    pub fn cached_stacks(&'static self) -> usize {
        let pinned = Pinned::<Plat>::of_scheduler();
        let common = {
            let free = self.free.lock();
            free.with_stack.len() + free.batches.len() * BATCH as usize
        };
        drop(pinned);
        common + self.processors().iter().map(|processor| processor.free.len() as usize).sum::<usize>()
    }
}
