//! The slots of Gs: made once, never freed, reused with or without the stack they had.
//!
//! | list | of | dead Gs | Go |
//! |---|---|---|---|
//! | [`FreeList`] | each P, at most 64 | with a stack of the standard size | `p.gFree` |
//! | `FreeSlots::batches`, `FreeSlots::with_stack` | all | the same | `sched.gFree.stack` |
//! | `FreeSlots::bare` | all | without a stack | `sched.gFree.noStack` |
//!
//! Between a P and all they go in batches of 32 that hang together, so that it takes no longer than for one. (Go moves them
//! one by one.)
//!
//! A slot on these lists has a stack of the standard size, so that the usual spawn finds both in one step; which one it
//! is changes ([`exchange_stacks`](crate::engine::stacks::exchange_stacks)). A stack of a chosen size goes back to the platform when its G
//! is dead, which keeps such stacks by size; and so do the others when the platform is short of memory and asks for them
//! ([`Scheduler::give_back_stacks`]).

use core::fmt;

use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::list::{Linked, List};
use crate::base::reference::AtomicRef;
use crate::entities::goroutine::{BATCHES, Goroutine};
#[cfg(doc)]
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

/// Stack of a G in bytes, unless chosen otherwise; committed by the platform as it is touched, where it can.
pub const STACK_SIZE: usize = 64 * 1024;

/// Slots of a batch. A P keeps two of them at most.
pub(crate) const BATCH: u32 = 32;

/// The free slots that belong to no P. Go: `sched.gFree`.
#[derive(Debug)]
pub(crate) struct FreeSlots<P: Platform> {
    /// The first one of each batch.
    pub(crate) batches: List<Goroutine<P>, BATCHES>,
    /// Those that make no batch.
    pub(crate) with_stack: List<Goroutine<P>>,
    pub(crate) bare: List<Goroutine<P>>,
}

impl<P: Platform> FreeSlots<P> {
    pub(crate) const fn new() -> Self {
        Self { batches: List::new(), with_stack: List::new(), bare: List::new() }
    }

    /// One of those with a stack, from a batch if there is no other.
    pub(crate) fn pop_with_stack(&mut self) -> Option<&'static Goroutine<P>> {
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

/// The link between dead Gs.
#[inline(always)]
fn link<P: Platform>(goroutine: &Goroutine<P>) -> &AtomicRef<Goroutine<P>> {
    Linked::<0>::link(goroutine)
}

/// The dead Gs that a P keeps, with their stacks: the last one is the first to be used again. They belong to whoever holds
/// the P. Go: `p.gFree`.
pub(crate) struct FreeList<P: Platform> {
    pub(crate) first: AtomicRef<Goroutine<P>>,
    pub(crate) count: AtomicU32,
    /// The first one of a whole batch more.
    pub(crate) spare: AtomicRef<Goroutine<P>>,
}

impl<P: Platform> FreeList<P> {
    pub(crate) fn new() -> Self {
        Self { first: AtomicRef::none(), count: AtomicU32::new(0), spare: AtomicRef::none() }
    }

    /// How many there are. From another M the answer may be old.
    pub(crate) fn len(&self) -> u32 {
        let is_there_more = self.spare.load(Ordering::Relaxed).is_some();
        self.count.load(Ordering::Relaxed) + if is_there_more { BATCH } else { 0 }
    }

    /// Takes one, if there is one outside of the spare batch.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<&'static Goroutine<P>> {
        let goroutine = self.first.load(Ordering::Relaxed)?;
        self.first.store(link(goroutine).load(Ordering::Relaxed), Ordering::Relaxed);
        self.count.store(self.count.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        Some(goroutine)
    }

    /// The one that would be taken next: that which died last.
    pub(crate) fn last(&self) -> Option<&'static Goroutine<P>> {
        self.first.load(Ordering::Relaxed)
    }

    /// Whether one more would make more than a batch.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) == BATCH
    }

    /// Adds one, if it is not full.
    #[inline(always)]
    pub(crate) fn push(&self, goroutine: &'static Goroutine<P>) {
        link(goroutine).store(self.first.load(Ordering::Relaxed), Ordering::Relaxed);
        self.first.store(Some(goroutine), Ordering::Relaxed);
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Has a batch in place of what is there.
    pub(crate) fn set(&self, batch: Option<&'static Goroutine<P>>) {
        self.first.store(batch, Ordering::Relaxed);
        self.count.store(if batch.is_some() { BATCH } else { 0 }, Ordering::Relaxed);
    }
}

impl<P: Platform> fmt::Debug for FreeList<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FreeList({})", self.len())
    }
}
