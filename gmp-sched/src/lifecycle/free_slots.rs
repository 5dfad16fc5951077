//! Slots with stacks for new Gs: a spawn takes the slot of a dead G from a [free list](crate::entities::free_list), or
//! makes a slot and a stack. The slot returns to a free list when its G has ended.
//! ([`free_stacks`](crate::entities::free_stacks) releases stacks.)

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::base::forever::make_forever;
use crate::engine::hooks::{check_poison, poison};
use crate::entities::current::CurrentGoroutine;
use crate::entities::free_stacks::strip;
use crate::entities::goroutine::{Goroutine, StackSize};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

/// Takes a slot for the G that the calling G spawns, with a stack of at least `bytes` bytes. Pins the caller, and returns
/// both. Go: `gfget`.
///
/// # Panics
///
/// In the same cases as [`CurrentGoroutine::to_spawn`].
#[doc(alias = "gfget")]
#[inline(always)]
#[track_caller]
pub(crate) fn take_to_spawn<Plat: Platform>(
    bytes: usize,
) -> Result<(CurrentGoroutine<Plat>, &'static Goroutine<Plat>), OutOfResources> {
    let caller = CurrentGoroutine::<Plat>::to_spawn();
    let free = if bytes == Plat::STACK_SIZE { take(caller.machine, caller.processor) } else { None };
    match free {
        Some(goroutine) => Ok((caller, goroutine)),
        None => {
            let goroutine = take_unpinned(caller.pinned, bytes)?;
            Ok((CurrentGoroutine::to_spawn(), goroutine))
        }
    }
}

/// Lowers the pin, and returns a slot with a new stack of at least `bytes` bytes. While memory is allocated, the caller
/// is not pinned, so that it can be preempted: the allocator may wait for a lock.
#[cold]
#[inline(never)]
fn take_unpinned<Plat: Platform>(
    pinned: Pinned<Plat>,
    bytes: usize,
) -> Result<&'static Goroutine<Plat>, OutOfResources> {
    let scheduler = pinned.machine().scheduler();
    drop(pinned);
    take_with_stack(scheduler, bytes)
}

/// Returns a slot with a stack of the standard size from a free list. Returns `None` if there is none.
#[inline]
fn take<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    processor
        .free
        .pop()
        .inspect(|goroutine| check_poison(*goroutine))
        .or_else(|| refill(machine.scheduler(), processor))
}

/// Refills the P's list from the spare batch or the shared lists, and returns a slot of that list. Returns `None` if the
/// spare batch and the shared lists are empty.
#[cold]
fn refill<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
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
    own.pop().inspect(|goroutine| check_poison(*goroutine))
}

/// Returns a slot with a new stack of at least `bytes` bytes. Allocates, so the caller should not be pinned. Go: `malg`.
#[doc(alias = "malg")]
pub(crate) fn take_with_stack<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    bytes: usize,
) -> Result<&'static Goroutine<Plat>, OutOfResources> {
    let size = if bytes == Plat::STACK_SIZE { StackSize::Standard } else { StackSize::Chosen };
    let pinned = Pinned::<Plat>::of_scheduler();
    let bare = scheduler.free.lock().bare.pop_front();
    drop(pinned);
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
            let _pinned = Pinned::<Plat>::of_scheduler();
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
        return recycle_without_stack(goroutine);
    }
    poison(goroutine);
    match processor {
        Some(processor) if processor.free.is_full() => recycle_on_full(processor, goroutine),
        Some(processor) => processor.free.push(goroutine),
        None => recycle_outside(goroutine),
    }
}

// The three functions below are not inlined, so that a G that ends saves and restores no register for them.

/// Frees the stack of a G that chose its size, and puts the G on the list of those without one.
#[cold]
#[inline(never)]
fn recycle_without_stack<Plat: Platform>(goroutine: &'static Goroutine<Plat>) {
    goroutine.scheduler().note_growth();
    strip(goroutine.scheduler(), goroutine);
}

/// Called outside of the Ms of the G's scheduler, or in a system call.
#[cold]
#[inline(never)]
fn recycle_outside<Plat: Platform>(goroutine: &'static Goroutine<Plat>) {
    goroutine.scheduler().free.lock().with_stack.push_front(goroutine);
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
