//! The slots of Gs: made once, never freed, reused with or without the stack they had.
//!
//! | list | of | dead Gs | Go |
//! |---|---|---|---|
//! | `Processor::push_free` | each P, at most 64 | with a stack of the standard size | `p.gFree` |
//! | `FreeSlots::with_stack` | all | the same | `sched.gFree.stack` |
//! | `FreeSlots::bare` | all | without a stack | `sched.gFree.noStack` |
//!
//! Stacks of the standard size stay with their slots, so that the usual spawn finds both in one step. A stack of a chosen
//! size goes back to the platform when its G is dead, which keeps such stacks by size; and so do the others when the
//! platform is short of memory and asks for them ([`Scheduler::give_back_stacks`]).

use alloc::vec::Vec;

use crate::goroutine::{Goroutine, StackSize};
use crate::list::List;
use crate::platform::{OutOfResources, Pinned, Platform};
use crate::processor::Processor;
use crate::scheduler::Scheduler;
use crate::spawn::STACK_SIZE;

/// Free slots a P keeps at most, and how many it has after it gave the rest away or fetched new ones. Go: `gfput`.
const FREE_LIMIT: u32 = 64;
/// See [`FREE_LIMIT`].
const FREE_KEPT: u32 = 32;

/// The free slots that belong to no P. Go: `sched.gFree`.
#[derive(Debug)]
pub(crate) struct FreeSlots<P: Platform> {
    with_stack: List<Goroutine<P>>,
    bare: List<Goroutine<P>>,
}

impl<P: Platform> FreeSlots<P> {
    pub(crate) const fn new() -> Self {
        Self { with_stack: List::new(), bare: List::new() }
    }
}

/// A slot with a stack of the standard size. Go: `gfget`.
#[doc(alias = "gfget")]
#[inline]
pub(crate) fn take<P: Platform>(
    scheduler: &'static Scheduler<P>,
    processor: &'static Processor<P>,
) -> Result<&'static Goroutine<P>, OutOfResources> {
    match processor.pop_free() {
        Some(goroutine) => Ok(goroutine),
        None => refill(scheduler, processor),
    }
}

/// A slot from the common list, bringing more for later, or one with a new stack.
#[cold]
fn refill<P: Platform>(
    scheduler: &'static Scheduler<P>,
    processor: &'static Processor<P>,
) -> Result<&'static Goroutine<P>, OutOfResources> {
    {
        let mut free = scheduler.free.lock();
        if let Some(goroutine) = free.with_stack.pop_front() {
            for _ in 1..FREE_KEPT {
                let Some(spare) = free.with_stack.pop_front() else { break };
                processor.push_free(spare);
            }
            return Ok(goroutine);
        }
    }
    take_with_stack(scheduler, STACK_SIZE)
}

/// A slot with a new stack of at least `bytes` bytes. Go: `malg`.
#[doc(alias = "malg")]
pub(crate) fn take_with_stack<P: Platform>(
    scheduler: &'static Scheduler<P>,
    bytes: usize,
) -> Result<&'static Goroutine<P>, OutOfResources> {
    let size = if bytes == STACK_SIZE { StackSize::Standard } else { StackSize::Chosen };
    let bare = scheduler.free.lock().bare.pop_front();
    let goroutine = match bare {
        Some(goroutine) => goroutine,
        None => make(scheduler)?,
    };
    match P::allocate_stack(bytes) {
        Ok(stack) => {
            goroutine.set_stack(stack, size);
            Ok(goroutine)
        }
        Err(error) => {
            scheduler.free.lock().bare.push_front(goroutine);
            Err(error)
        }
    }
}

/// A new slot, without a stack.
fn make<P: Platform>(scheduler: &'static Scheduler<P>) -> Result<&'static Goroutine<P>, OutOfResources> {
    let mut home = Vec::new();
    home.try_reserve_exact(1).map_err(|_| OutOfResources)?;
    home.push(Goroutine::new());
    let slot: &'static Goroutine<P> = &home.leak()[0];
    scheduler.register(slot);
    Ok(slot)
}

/// Puts a dead G whose stack is at rest on a free list. Go: `gfput`.
#[doc(alias = "gfput")]
#[inline]
pub(crate) fn recycle<P: Platform>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>) {
    let machine = pinned.machine();
    if goroutine.stack_size() == StackSize::Chosen {
        strip(machine.scheduler(), goroutine);
        return;
    }
    match machine.processor() {
        Some(processor) => {
            if processor.push_free(goroutine) >= FREE_LIMIT {
                spill(machine.scheduler(), processor, FREE_KEPT);
            }
        }
        None => machine.scheduler().free.lock().with_stack.push_front(goroutine),
    }
}

/// Moves the free slots of a P beyond `kept` to the common list.
#[cold]
fn spill<P: Platform>(scheduler: &'static Scheduler<P>, processor: &'static Processor<P>, kept: u32) {
    let mut free = scheduler.free.lock();
    while processor.free_count() > kept
        && let Some(goroutine) = processor.pop_free()
    {
        free.with_stack.push_front(goroutine);
    }
}

/// Gives the stack of a dead G that is on no list back to the platform; the slot goes to the bare ones.
#[cold]
fn strip<P: Platform>(scheduler: &'static Scheduler<P>, goroutine: &'static Goroutine<P>) {
    let stack = goroutine.stack();
    // Before the stack is gone, for those who look up whose stack an address is in.
    goroutine.set_stack(0..0, StackSize::Standard);
    #[expect(unsafe_code, reason = "gives a stack back")]
    // SAFETY: `take_with_stack` got it from the platform for this slot; the G is dead and has left it, its result has
    // been taken out, and the slot does not know it any more.
    unsafe {
        P::release_stack(stack);
    }
    scheduler.free.lock().bare.push_front(goroutine);
}

impl<P: Platform> Scheduler<P> {
    /// Gives the stacks of up to `at_most` dead Gs back to the platform, and tells how many those were. What other Ps keep
    /// for themselves, at most 64 each, stays there.
    ///
    /// For a platform that is short of memory. Does not block or allocate; not callable from interrupts, nor with a lock
    /// held that [`Platform::release_stack`] takes.
    pub fn give_back_stacks(&'static self, at_most: usize) -> usize {
        let pinned = Pinned::<P>::new();
        if let Some(processor) = pinned.try_machine().and_then(|machine| machine.processor()) {
            spill(self, processor, 0);
        }
        for given_back in 0..at_most {
            // The lock is free in between: the list may be long.
            let dead = self.free.lock().with_stack.pop_front();
            let Some(goroutine) = dead else { return given_back };
            strip(self, goroutine);
        }
        at_most
    }

    /// Gives back the stacks of all dead Gs that no running P keeps for itself. For the end: takes the idle Ps out of use.
    pub(crate) fn give_back_all_stacks(&'static self) {
        loop {
            let idle = self.take_idle_processor(&mut self.shared.lock());
            let Some(processor) = idle else { break };
            spill(self, processor, 0);
        }
        self.give_back_stacks(usize::MAX);
    }

    /// How many stacks dead Gs keep for the next ones.
    #[must_use]
    pub fn cached_stacks(&'static self) -> usize {
        let pinned = Pinned::<P>::new();
        let common = self.free.lock().with_stack.len();
        drop(pinned);
        common + self.processors().iter().map(|processor| processor.free_count() as usize).sum::<usize>()
    }
}
