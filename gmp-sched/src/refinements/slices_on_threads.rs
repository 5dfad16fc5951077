//! Slices where no interrupt preempts a G ([`Platform::TIMER_INTERRUPTS`] is `false`): a slice that is over ends when
//! its G next leaves, begins to wait, or returns from a system call. sysmon checks the slices. Without this refinement,
//! Gs there run until they wait.

use crate::base::atomic::Ordering;
use crate::base::under_loom::IS_MODEL;
use crate::engine::enqueue::{put_last, put_next_last};
use crate::engine::preempt::preempt;
use crate::engine::steal::{share, steal_order};
use crate::entities::current::CurrentGoroutine;
use crate::entities::current_slice::NONE;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::platform::{Pinned, Platform};
use crate::refinements::stop_the_world::give_way_to_stop;

/// Called at the beginning of each operation that may wait. On platforms without timer interrupts, lets the calling G
/// give way if its slice is over or the world is to stop. Otherwise a G whose waits are always over at once would never
/// leave its M, and the other Gs of the P would starve. Does nothing if the caller may not leave its M.
#[inline(always)]
pub(crate) fn before_wait<Plat: Platform>() {
    if has_to_leave::<Plat>() {
        give_way_before_wait::<Plat>();
    }
}

/// Does what [`before_wait`] does, and pins the caller. For an operation that next takes a lock by an atomic instruction,
/// which waits until all earlier stores are done. So the pin is stored as early as possible: before `has_to_leave` loads.
#[inline(always)]
pub(crate) fn pin_before_wait<Plat: Platform>() -> Pinned<Plat> {
    let pinned = Pinned::of_scheduler();
    if !has_to_leave::<Plat>() {
        return pinned;
    }
    drop(pinned);
    give_way_before_wait::<Plat>();
    Pinned::of_scheduler()
}

/// Whether the calling G may have to give way before it waits.
#[inline(always)]
fn has_to_leave<Plat: Platform>() -> bool {
    !Plat::TIMER_INTERRUPTS
        && !IS_MODEL
        && Plat::current_machine().and_then(Machine::processor).is_some_and(Processor::needs_slow_pick)
}

#[cold]
#[inline(never)]
fn give_way_before_wait<Plat: Platform>() {
    let Some(caller) = CurrentGoroutine::<Plat>::if_may_block() else { return };
    if caller.machine.scheduler().is_stopping() {
        drop(give_way_to_stop(caller));
    } else if caller.processor.is_slice_over() {
        drop(preempt(caller));
    }
}

/// Called when a G leaves for g0. Without timer interrupts, if the slice is over, the G in `runnext` does not inherit
/// it, but goes to the tail of the ring. So the Gs of the ring run first, as after a preemption. If the ring is empty,
/// Gs are first stolen from another P, which then run before the G from `runnext`.
#[inline(always)]
pub(crate) fn end_inherited_slice<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) {
    if !Plat::TIMER_INTERRUPTS && processor.is_slice_over() {
        put_runnext_last(pinned, processor);
    }
}

/// Called on g0 before each pick. Without timer interrupts, if the slice of the G that has left is over, begins a new
/// one, and the pick checks the global queue before the local one. (If [`end_inherited_slice`] has stolen Gs, the theft
/// has begun a new slice already.) A G that the commit of the leaving G has put into `runnext` does not inherit the old
/// slice. Otherwise two Gs that ready each other in their commits would starve the ring.
#[inline(always)]
pub(crate) fn begin_next_slice<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) {
    if !Plat::TIMER_INTERRUPTS && processor.is_slice_over() {
        if processor.queue.next().is_some() {
            put_runnext_last(pinned, processor);
        }
        processor.slice.ends.store(NONE, Ordering::Relaxed);
        processor.request_global_check();
    }
}

/// Puts the G in `runnext` at the tail of the ring, because the slice is over. The leaving G may hold locks that its
/// commit releases on the far side. This function takes none of these locks.
#[cold]
#[inline(never)]
fn put_runnext_last<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) {
    let scheduler = pinned.machine().scheduler();
    if processor.queue_length() == 0
        && let Some(stolen) = steal_at_once(pinned, processor)
    {
        processor.note_kick(stolen);
        put_last(scheduler, processor, stolen);
    }
    if put_next_last(scheduler, processor) {
        processor.counters.preemptions.add(1);
    }
}

/// Like [`steal`](crate::engine::steal::steal), for a caller that has something else to run if nothing is found. Makes
/// one round, without waiting, and takes no urgent G. Takes the G in `runnext` of a victim only if the victim's slice
/// is over. While the slice is not over, that G is likely to run soon on the victim, in the rest of the slice.
pub(crate) fn steal_at_once<Plat: Platform>(
    pinned: &Pinned<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    let processors = pinned.machine().scheduler().processors();
    let mut victims = steal_order(processors.len(), processor.random())
        .map(|index| &processors[index])
        .filter(|victim| !core::ptr::eq(*victim, processor) && victim.status() != ProcessorStatus::Idle);
    let found = victims.find_map(|victim| {
        let next = victim.is_slice_over().then(|| victim.queue.next()).flatten();
        let found = victim.queue.steal_into(&processor.queue, share, next)?;
        processor.begin_stolen(victim, found);
        Some(found)
    })?;
    processor.counters.steals.add(1);
    Some(found)
}
