//! Reuse of the slots of dead Gs: a spawn takes a slot from a [free list](crate::entities::free_list), and the slot
//! returns to a free list when its G has ended.

use core::iter;
use core::ops::Range;

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::base::forever::make_forever;
use crate::engine::hooks::{check_poison, poison};
use crate::entities::goroutine::{Goroutine, StackSize};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

/// Returns a slot with a stack of the standard size. Go: `gfget`.
#[doc(alias = "gfget")]
#[inline]
pub(crate) fn take<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
) -> Result<&'static Goroutine<Plat>, OutOfResources> {
    match processor.free.pop() {
        Some(goroutine) => {
            check_poison(goroutine);
            Ok(goroutine)
        }
        None => refill(machine.scheduler(), processor),
    }
}

/// Refills the P's list from the spare batch or the shared lists, and returns a slot of that list. If the spare batch
/// and the shared lists are empty, returns a slot with a new stack.
#[cold]
fn refill<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
) -> Result<&'static Goroutine<Plat>, OutOfResources> {
    let own = &processor.free;
    let spare = own.spare.swap(None, Ordering::Relaxed);
    own.set(spare.or_else(|| scheduler.free.lock().batches.pop_front()));
    if own.len() == 0 {
        let mut free = scheduler.free.lock();
        while !own.is_full()
            && let Some(single) = free.with_stack.pop_front()
        {
            own.push(single);
        }
    }
    match own.pop() {
        Some(goroutine) => {
            check_poison(goroutine);
            Ok(goroutine)
        }
        None => take_with_stack(scheduler, Plat::STACK_SIZE),
    }
}

/// Returns a slot with a new stack of at least `bytes` bytes. Go: `malg`.
#[doc(alias = "malg")]
pub(crate) fn take_with_stack<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    bytes: usize,
) -> Result<&'static Goroutine<Plat>, OutOfResources> {
    let size = if bytes == Plat::STACK_SIZE { StackSize::Standard } else { StackSize::Chosen };
    let bare = scheduler.free.lock().bare.pop_front();
    let goroutine = match bare {
        Some(goroutine) => goroutine,
        None => make(scheduler)?,
    };
    match Plat::allocate_stack(bytes) {
        Ok(stack) => {
            goroutine.set_stack(stack, size);
            scheduler.note_growth();
            // The G may leave this stack, untouched, to a slot on a free list: see `exchange_stacks`.
            poison(goroutine);
            Ok(goroutine)
        }
        Err(error) => {
            scheduler.free.lock().bare.push_front(goroutine);
            Err(error)
        }
    }
}

/// Makes a new slot, without a stack.
fn make<Plat: Platform>(scheduler: &'static Scheduler<Plat>) -> Result<&'static Goroutine<Plat>, OutOfResources> {
    let slot = make_forever(|| {
        scheduler.reserve_global()?;
        Ok(Goroutine::new(scheduler))
    })?;
    scheduler.register(slot);
    Ok(slot)
}

/// Puts a dead G, which has left its stack, on a free list of its scheduler. Callable on any thread. Go: `gfput`.
#[doc(alias = "gfput")]
#[inline]
pub(crate) fn recycle<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    let here = pinned.try_machine().filter(|machine| machine.is_of_scheduler_of(goroutine));
    recycle_on(here.and_then(Machine::processor), goroutine);
}

/// Like [`recycle`], for a caller that knows the P of the calling M. `processor` is `None` if that M belongs to
/// another scheduler than the G, or holds no P.
#[inline(always)]
pub(crate) fn recycle_on<Plat: Platform>(
    processor: Option<&'static Processor<Plat>>,
    goroutine: &'static Goroutine<Plat>,
) {
    if goroutine.stack_size() == StackSize::Chosen {
        goroutine.scheduler().note_growth();
        return strip(goroutine.scheduler(), goroutine);
    }
    poison(goroutine);
    match processor {
        Some(processor) if processor.free.is_full() => recycle_on_full(processor, goroutine),
        Some(processor) => processor.free.push(goroutine),
        // The caller is not on an M of the G's scheduler, or is in a system call.
        None => goroutine.scheduler().free.lock().with_stack.push_front(goroutine),
    }
}

/// Called when the local list is full. Makes that list the spare batch, and spills the old spare batch, if there is
/// one, to the shared lists. Afterwards `goroutine` is the only slot of the local list.
#[cold]
#[inline(never)]
fn recycle_on_full<Plat: Platform>(processor: &'static Processor<Plat>, goroutine: &'static Goroutine<Plat>) {
    let own = &processor.free;
    let spare = own.spare.swap(own.first.load(Ordering::Relaxed), Ordering::Relaxed);
    own.set(None);
    own.push(goroutine);
    if let Some(spare) = spare {
        goroutine.scheduler().free.lock().batches.push_front(spare);
        goroutine.scheduler().note_growth();
    }
}

/// Moves the free slots of a P to the shared lists.
#[cold]
pub(crate) fn spill<Plat: Platform>(scheduler: &'static Scheduler<Plat>, processor: &'static Processor<Plat>) {
    let mut free = scheduler.free.lock();
    while let Some(goroutine) = processor.free.pop() {
        free.with_stack.push_front(goroutine);
    }
    if let Some(spare) = processor.free.spare.swap(None, Ordering::Relaxed) {
        free.batches.push_front(spare);
    }
}

/// Releases the stack of a dead G that is on no list; the slot goes to the list of slots without a stack.
#[cold]
fn strip<Plat: Platform>(scheduler: &'static Scheduler<Plat>, goroutine: &'static Goroutine<Plat>) {
    let stack = take_stack(scheduler, goroutine);
    #[expect(unsafe_code, reason = "frees a stack")]
    // SAFETY: `take_with_stack` got this stack from the platform. The G is dead and has left the stack, its result has
    // been taken out, and no slot refers to the stack any more.
    unsafe {
        Plat::release_stack(stack);
    }
}

/// Takes the stack out of a dead G that is on no list. The slot goes to the list of slots without a stack.
fn take_stack<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    goroutine: &'static Goroutine<Plat>,
) -> Range<usize> {
    let stack = goroutine.stack();
    // The range is cleared before the stack is released, because code that looks up the G of an address reads this
    // range.
    goroutine.set_stack(0..0, StackSize::Standard);
    scheduler.free.lock().bare.push_front(goroutine);
    stack
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Releases the stacks of up to `at_most` dead Gs of this scheduler; returns how many. The free lists of Ps that
    /// other Ms hold, at most 64 slots each, are not changed.
    ///
    /// A platform that is short of memory may call this. Does not block or allocate. Not callable from interrupts, or
    /// while holding a lock that [`Platform::release_stack`] takes.
    pub fn free_idle_stacks(&'static self, at_most: usize) -> usize {
        let pinned = Pinned::<Plat>::of_scheduler();
        // The P of the calling M may belong to another scheduler. Then the free list of that P has no slots of this
        // scheduler.
        let machine = pinned.try_machine().filter(|machine| core::ptr::eq(machine.scheduler(), self));
        if let Some(processor) = machine.and_then(|machine| machine.processor()) {
            spill(self, processor);
        }
        for given_back in 0..at_most {
            // The list may be long. So the lock is taken anew for each slot, and other threads can take the lock in
            // between.
            let Some(goroutine) = self.pop_dead() else { return given_back };
            strip(self, goroutine);
        }
        at_most
    }

    /// Takes a dead G with its stack from the shared lists, or else from the lists of an idle P.
    fn pop_dead(&'static self) -> Option<&'static Goroutine<Plat>> {
        let pop = || self.free.lock().pop_with_stack();
        pop().or_else(|| {
            self.spill_idle();
            pop()
        })
    }

    /// Moves the free slots of one idle P, if it has any, to the shared lists. No M uses these slots meanwhile, because
    /// an M takes an idle P with the lock only.
    fn spill_idle(&'static self) {
        let shared = self.shared.lock();
        let mut idle = self.processors().iter().filter(|processor| processor.status() == ProcessorStatus::Idle);
        if let Some(processor) = idle.find(|processor| processor.free.len() != 0) {
            spill(self, processor);
        }
        drop(shared);
    }

    /// Releases the stacks of all dead Gs, except the Gs on the free list of a P that an M holds. Called only during
    /// shutdown, because this function removes the idle Ps from the idle list.
    pub(crate) fn free_all_idle_stacks(&'static self) {
        loop {
            let idle = self.take_idle_processor(&mut self.shared.lock());
            let Some(processor) = idle else { break };
            spill(self, processor);
        }
        let pinned = Pinned::<Plat>::of_scheduler();
        let stacks = iter::from_fn(|| {
            let dead = self.free.lock().pop_with_stack();
            dead.map(|goroutine| take_stack(self, goroutine))
        });
        #[expect(unsafe_code, reason = "frees stacks")]
        // SAFETY: each stack comes from a dead G that has left it, so the reasons stated in `strip` hold.
        unsafe {
            Plat::release_stacks(stacks);
        }
        drop(pinned);
    }
}
