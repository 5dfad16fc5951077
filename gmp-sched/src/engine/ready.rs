//! Readying: the end of a G's wait. A waker makes the G runnable, and then enqueues it or runs it.

use crate::engine::enqueue::enqueue_next_on;
use crate::engine::hooks;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::status::Status;
use crate::platform::{Pinned, Platform};

/// Makes a parked G runnable and puts it into `runnext` of the caller's P. Go: `goready`.
///
/// If the caller is not an M of the G's own scheduler, or is in a system call, the G goes to the global queue of its
/// own scheduler. A G that is locked to its M goes to neither, because only that M may run it.
#[doc(alias = "goready")]
#[inline(always)]
pub(crate) fn ready_pinned<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    if let Some((machine, processor)) = end_wait(pinned, goroutine) {
        #[cfg(gmp_loom)]
        if crate::entities::loom_wait::ready(goroutine) {
            return;
        }
        enqueue_next_on(machine, processor, goroutine);
    }
}

/// Makes a parked G runnable and returns the G, which the caller must run or enqueue. Returns `None` if nothing is left
/// to do, because the G is locked to an M, or because the caller is not an M of the G's scheduler.
#[inline(always)]
pub(crate) fn make_runnable<Plat: Platform>(
    pinned: &Pinned<Plat>,
    goroutine: &'static Goroutine<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    end_wait(pinned, goroutine).map(|_| goroutine)
}

/// Like [`make_runnable`], for a calling G that knows its M and P. This saves 6 instructions when a G ends and is joined.
#[inline(always)]
pub(crate) fn make_runnable_by<Plat: Platform>(
    caller: &CurrentGoroutine<Plat>,
    goroutine: &'static Goroutine<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    if !goroutine.is_parked_as(caller.machine.unsampled()) {
        end_wait_slow_path(Some(caller.machine), goroutine)?;
    }
    goroutine.set_status(Status::Runnable);
    caller.processor.counters.readies.add(1);
    Some(goroutine)
}

/// Like [`make_runnable`], but returns the calling M and its P instead of the G, so that the caller need not look them
/// up again to enqueue the G.
#[inline(always)]
fn end_wait<Plat: Platform>(
    pinned: &Pinned<Plat>,
    goroutine: &'static Goroutine<Plat>,
) -> Option<(&'static Machine<Plat>, Option<&'static Processor<Plat>>)> {
    let machine = match pinned.try_machine() {
        // This one comparison fails if the G is not parked, belongs to another scheduler, is sampled, waits durably in
        // a bubble or is locked. It saves 58 instructions.
        Some(machine) if goroutine.is_parked_as(machine.unsampled()) => machine,
        here => end_wait_slow_path(here, goroutine)?,
    };
    goroutine.set_status(Status::Runnable);
    let processor = machine.processor();
    if let Some(processor) = processor {
        processor.counters.readies.add(1);
    }
    Some((machine, processor))
}

/// The part of [`end_wait`] for a caller that is not an M, and for a G that is sampled, waits durably in a bubble, is
/// locked to its M or belongs to another scheduler. `here` is the calling M, or `None` on a thread that is not an M.
/// Returns the calling M, which must enqueue the G, or `None` if nothing is left to do.
#[cold]
#[inline(never)]
fn end_wait_slow_path<Plat: Platform>(
    here: Option<&'static Machine<Plat>>,
    goroutine: &'static Goroutine<Plat>,
) -> Option<&'static Machine<Plat>> {
    assert_eq!(goroutine.status(), Status::Waiting, "readied a G that does not wait: {goroutine:?}");
    let here = here.filter(|machine| machine.is_of_scheduler_of(goroutine));
    if goroutine.is_waiting_in_bubble() {
        goroutine.bubble().expect("it says that it waits in one").unblocked();
    }
    hooks::readied(here, goroutine);
    if hooks::ready_elsewhere(here, goroutine) {
        return None;
    }
    if here.is_none() {
        goroutine.scheduler().inject_from_outside(goroutine);
    }
    here
}
