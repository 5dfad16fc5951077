//! The order in which an M picks the next G. All code that chooses among runnable Gs calls a function of this file.
//! (There are two exceptions. A coroutine switches to a certain G. An M with a locked G waits for that G.)
//!
//! | step | source of the next G | Go: `findRunnable` (runtime/proc.go, go1.27) |
//! |---|---|---|
//! | 1 | the urgent Gs of this P: those of due timers, ready devices and ended blocking calls (see `urgent`) | `pp.timers.check`; `netpoll` |
//! | 2 | every 61st tick, or when requested: the first locked G or the first G of the global queue | `schedtick % 61` |
//! | 3 | `runnext`, then the local ring | `runqget` |
//! | 4 | a batch from the global queue | `globrunqgetbatch` |
//! | 5 | the other Ps: half of a long ring and, in the last round, an urgent G, a short ring and `runnext` (see `steal`); an M begins to spin only if the number of spinning Ms is less than half the number of busy Ps | `stealWork` |
//! | 6 | the background G, if memory is to be given back (see `background`) | – |
//! | 7 | none: release the P, check everything once more, park the M (see `idle`) | `stopm` |
//!
//! - [`find_runnable`] takes all steps. It runs on g0 only.
//! - [`pick_next`] takes step 3 alone, for a G that leaves: the switch then goes from G to G, without g0. One
//!   comparison of two words shows whether steps 1 and 2 would find nothing ([`Processor::needs_slow_pick`]); without
//!   [timer interrupts](Platform::TIMER_INTERRUPTS) [`pick_next`] also compares the earliest timer with the clock. If
//!   step 1 or 2 might find a G, or if the local queue is empty, g0 takes all steps.
//! - [`would_pick_readied`] makes the checks of [`pick_next`] for a G that ends and has a joiner. If it returns `true`,
//!   the P would pick the joiner next, and the ending G switches to the joiner at once. (A G in a bubble and the child
//!   of a scope do not ask.)
//!
//! `preempt` takes step 1 for a running G that an urgent one displaces.
//!
//! A slow pick, by g0, is requested
//!
//! | when | by |
//! |---|---|
//! | step 2 is due | [`Processor::begin_slow_pick`], which chooses the tick at which step 2 is due the next time |
//! | step 2 was due, but an urgent G ran first | [`find_runnable`] |
//! | an urgent G waits, or a timer is due so soon that no interrupt is armed for it | the timer's interrupt handler (`preempt::tick`); `preempt`, when the urgent G displaces no G yet; `urgent` |
//! | the world is to stop | `stop_the_world` |
//! | the G is locked to its M, which runs no other G | `lock_os_thread`; `yield_now`, when the locked G yields and continues |
//! | a locked G is readied by an M with a P, and no P is idle | `lock_os_thread` |
//! | a slice is over, where no interrupt preempts the G (threads) | sysmon, by a function of `slice`; the pick then takes step 2, too |
//! | a trace is being taken: the slow pick records how each G leaves | `sampling` |
//! | the program has installed a policy, which decides about each pick | `by_policy` |
//!
//! Code of other files changes which G step 3 finds, but chooses none: when a slice is over, `slice` puts the G of
//! `runnext` at the tail of the ring, so that it does not inherit the slice. On platforms without timer interrupts, if
//! a slice ends with an empty ring, `slice` first steals Gs into it.

use crate::base::atomic::Ordering;
use crate::base::run_queue::Slice;
use crate::engine::enqueue::put_last;
use crate::engine::hooks;
use crate::engine::slice::{begin_next_slice, end_inherited_slice};
use crate::engine::steal::{steal, steal_at_once, steal_urgent};
use crate::engine::take_global::{check_global_queue, take_global_batch};
use crate::engine::urgent::next_urgent;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
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
        begin_next_slice(pinned, processor);
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

/// Steps 1 to 5: returns the G to run next by Go's rules, if there is one.
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
    // The urgent G runs before the global queue is checked. So the check is requested again. Otherwise the next
    // check would come only after 61 more ticks.
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
        end_inherited_slice(pinned, processor);
        return None;
    }
    if !Plat::TIMER_INTERRUPTS && processor.has_due_timer() {
        return None;
    }
    processor.pop_local()
}

/// Whether [`pick_next`] would return a G that the leaving G puts into `runnext` now. Then the leaving G may switch to
/// that G without the queue. This saves two locked instructions, and no other M is woken that would search in vain. It
/// is also `false` if `runnext` is not empty, because the G there would have to go to the ring.
#[inline(always)]
pub(crate) fn would_pick_readied<Plat: Platform>(processor: &'static Processor<Plat>) -> bool {
    !processor.needs_slow_pick()
        && (Plat::TIMER_INTERRUPTS || !processor.has_due_timer())
        && processor.queue.next().is_none()
}

/// Whether this P has nothing else to run than the G that yields, and there is no other reason to go to g0.
pub(crate) fn has_nothing_else<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) -> bool {
    let scheduler = pinned.machine().scheduler();
    !processor.has_work() && !scheduler.has_shared_work() && !scheduler.is_stopping()
}

/// Step 5 for a yield: tries to steal a G from another P and puts it into the local ring. Returns whether it found
/// one.
pub(crate) fn take_from_others<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) -> bool {
    if pinned.machine().scheduler().policy().is_some() {
        return hooks::steal_by_policy(pinned, processor);
    }
    let found = steal_urgent(pinned, processor).or_else(|| steal_at_once(pinned, processor));
    if let Some(found) = found {
        put_last(pinned.machine().scheduler(), processor, found);
    }
    found.is_some()
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

impl<Plat: Platform> Scheduler<Plat> {
    /// Whether there is work that belongs to no P: a G in the global queue, or a device that is ready.
    #[inline(always)]
    pub(crate) fn has_shared_work(&self) -> bool {
        self.global_length.load(Ordering::Relaxed) != 0 || self.signals.is_ready()
    }
}

/// Makes the M spin if the number of spinning Ms is below half the number of Ps that are not idle. More spinning Ms
/// would only take CPUs from the Ms that have work. Returns whether the M spins now. An M that was already spinning
/// continues to spin.
#[inline(always)]
pub(crate) fn try_start_spinning<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
) -> bool {
    if machine.is_spinning() {
        return true;
    }
    let spinning = scheduler.spinning.load(Ordering::Relaxed) as usize;
    let idle = scheduler.idle_processors.load(Ordering::Relaxed) as usize;
    if 2 * spinning >= scheduler.procs() - idle.min(scheduler.procs()) {
        return false;
    }
    machine.begin_to_spin(processor);
    true
}

/// Ends the spinning of an M that has found work. If it was the last M to spin and a P is idle, another M begins to
/// spin, because there may be more work. Go: `resetspinning`.
#[doc(alias = "resetspinning")]
fn stop_spinning<Plat: Platform>(machine: &'static Machine<Plat>) {
    if machine.end_spinning() {
        machine.scheduler().wake_processor();
    }
}
