//! The order in which an M picks the next G. All code that chooses among runnable Gs calls a function of this file.
//! (There are four exceptions. A coroutine switches to a certain G. A G that ends switches to its joiner, if the joiner
//! would be picked next. A displaced G makes way for the first urgent one. An M with a locked G waits for that G.)
//!
//! | step | source of the next G | Go: `findRunnable` (runtime/proc.go, go1.27) |
//! |---|---|---|
//! | 1 | the urgent Gs of this P: those of due timers, ready devices and ended blocking calls (see `urgent`) | `pp.timers.check`; `netpoll` |
//! | 2 | every [61st](crate::entities::processor::GLOBAL_QUEUE_INTERVAL) tick, or when requested: the first locked G or the first G of the global queue | `schedtick % 61` |
//! | 3 | `runnext`, then the local ring | `runqget` |
//! | 4 | a batch from the global queue | `globrunqgetbatch` |
//! | 5 | the other Ps (see `steal`) | `stealWork` |
//! | 6 | none: release the P, check everything once more, park the M (see `idle`) | `stopm` |
//!
//! [`find_runnable`] takes all steps, on g0. [`pick_next`] takes step 3 alone, for a G that leaves: the switch then
//! goes from G to G, without g0. One comparison of two words shows whether g0 has to take all steps instead, in a *slow
//! pick* ([`Processor::needs_slow_pick`]). A slow pick is due when step 2 is; everything else that wants one requests
//! it ([`Processor::request_slow_pick`]): an urgent G that waits, the end of a slice on threads, and some refinements.

use crate::base::run_queue::Slice;
use crate::engine::hooks;
use crate::engine::steal::steal;
use crate::engine::take_global::{check_global_queue, take_global_batch};
use crate::engine::urgent::next_urgent;
use crate::engine::wake::{stop_spinning, try_start_spinning};
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::platform::{Pinned, Platform};

/// Returns a G to run; blocks the M until there is one. Called on g0.
#[doc(alias = "findRunnable")]
pub(crate) fn find_runnable<Plat: Platform>(
    pinned: &Pinned<Plat>,
    machine: &'static Machine<Plat>,
) -> &'static Goroutine<Plat> {
    let scheduler = machine.scheduler();
    loop {
        let Some(processor) = machine.processor() else {
            machine.wait_for_processor(pinned);
            continue;
        };
        hooks::begin_next_slice(pinned, processor);
        // The request for a slow pick is cleared before the checks below, so that a request that comes during the
        // checks is kept.
        let is_check_due = processor.begin_slow_pick();
        if scheduler.is_stopping() {
            hooks::stop_for_world(machine);
            continue;
        }
        let found = match scheduler.policy() {
            None => next_by_default(pinned, machine, processor, is_check_due),
            Some(policy) => hooks::next_by_policy(pinned, machine, processor, policy, is_check_due),
        };
        let Some(goroutine) = found.or_else(|| hooks::take_background(pinned, machine, processor)) else {
            machine.go_idle(pinned);
            continue;
        };
        stop_spinning(machine);
        if !hooks::start_elsewhere(machine, goroutine) {
            return goroutine;
        }
    }
}

/// Steps 1 to 5: returns the G to run next, if there is one.
#[inline(always)]
fn next_by_default<Plat: Platform>(
    pinned: &Pinned<Plat>,
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    is_check_due: bool,
) -> Option<&'static Goroutine<Plat>> {
    // ANCHOR: pick
    let scheduler = machine.scheduler();
    let urgent = next_urgent(pinned, machine, processor);
    // The urgent G runs before the global queue is checked, so the check is requested again.
    if urgent.is_some() && is_check_due {
        processor.request_global_check();
    }
    urgent
        .or_else(|| is_check_due.then(|| check_global_queue(scheduler, processor)).flatten())
        .or_else(|| processor.pop_local())
        .or_else(|| take_global_batch(scheduler, processor))
        .or_else(|| try_start_spinning(scheduler, machine, processor).then(|| steal(pinned, processor)).flatten())
    // ANCHOR_END: pick
}

/// Returns the G of the local queue to which a leaving G switches, or `None` if g0 has to pick.
///
/// The leaving G may hold a lock, which its commit releases only after the switch (see `switch`). So this function
/// takes no lock that the G may hold, because that would be a deadlock.
#[inline(always)]
pub(crate) fn pick_next<Plat: Platform>(
    pinned: &Pinned<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    if processor.needs_slow_pick() {
        hooks::end_inherited_slice(pinned, processor);
        return None;
    }
    if !Plat::TIMER_INTERRUPTS && processor.has_due_timer() {
        return None;
    }
    processor.pop_local()
}

impl<Plat: Platform> Processor<Plat> {
    /// Step 3: takes the next G of the local queue, if there is one. A G from the ring begins a slice of its own, and a
    /// G from `runnext` inherits the current slice.
    #[inline(always)]
    pub(crate) fn pop_local(&self) -> Option<&'static Goroutine<Plat>> {
        // If this is the only P in use, no M holds another P, so there are no thieves. A second P comes into use only
        // while the world is stopped.
        let (goroutine, slice) = self.queue.pop(!self.is_alone())?;
        if slice == Slice::New {
            self.advance_tick();
        }
        Some(goroutine)
    }
}
