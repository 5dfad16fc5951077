//! Preemption: what happens when a G has to give way.
//!
//! The handler of the platform's timer interrupt calls [`tick`]. At a point where an interrupted G can be switched out,
//! the platform calls [`give_way`], pinned once. (For a kernel, `interrupt_return` does this.) A kernel calls
//! [`first_tick`] when it switches to the thread of an M. When it handles an interrupt by which another CPU requests a
//! preemption, it calls [`must_give_way`].
//!
//! A G gives way when its slice is over (see `slice`), when the world is to stop, or when another G displaces it.
//!
//! # Displacement (wakeup preemption)
//!
//! An urgent G, which an event has readied (see `urgent`), does not wait for the slice to end: it displaces the running
//! G, if the platform has timer interrupts. The displaced G goes to `runnext`, so it usually runs next, and the two Gs
//! share the slice. After a displacement, the P runs undisturbed for a while ([`Platform::undisturbed`]). So the number
//! of displacements in a slice is bounded, and each G makes progress.
//!
//! ```
//! use gmp_sched::native::{self, Native};
//! use gmp_sched::platform::Pinned;
//! use gmp_sched::preempt;
//!
//! let preemptions = unsafe { native::enter() }.run_with(1, |scheduler| {
//!     let pinned = Pinned::<Native>::new();
//!     // `tick` does this when a slice has lasted too long.
//!     preempt::end_slice(pinned.machine());
//!     assert!(preempt::must_give_way(pinned.machine()));
//!     // The G then does this, so that other Gs run first.
//!     drop(preempt::give_way(pinned));
//!     scheduler.counts().preemptions
//! });
//! assert_eq!(preemptions, 1);
//! ```

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::enqueue::{requeue_global, requeue_next, requeue_urgent};
use crate::engine::hooks;
use crate::engine::switch::leave;
use crate::engine::urgent::{await_next, take_first};
use crate::entities::current::{CurrentGoroutine, refuse};
use crate::entities::events::Leave;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::platform::{Pinned, Platform};
use crate::record::trace::PreemptReason;

/// When the timer of a CPU is to fire again, and whether the G on that CPU has to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextTick {
    /// The latest time at which the timer is to fire.
    pub at: Instant,
    /// Whether the G on that CPU has to call [`give_way`] as soon as the G can be switched out.
    pub gives_way: bool,
}

/// Called by the interrupt handler when the timer of a CPU has fired. `machine` is the M whose thread runs on that CPU,
/// or `None` if that thread is not the thread of an M. Takes no lock.
pub fn tick<Plat: Platform>(machine: Option<&Machine<Plat>>) -> NextTick {
    let now = Plat::now();
    let next_slice = now + Plat::slice();
    let Some(processor) = machine.and_then(Machine::processor) else {
        // There is nothing to preempt. But the slice of a G in a system call continues. If that slice is over, the G
        // gives way when the call ends.
        if let Some(left) = machine.and_then(Machine::processor_of_slice) {
            left.check_slice(now);
        }
        return NextTick { at: next_slice, gives_way: false };
    };
    processor.check_slice(now);
    let is_ready = machine.is_some_and(|machine| machine.scheduler().signals.is_ready());
    let earliest = processor.timers.earliest();
    // ANCHOR: tick
    let has_to = processor.is_slice_over() || machine.is_some_and(|machine| machine.scheduler().is_stopping());
    if earliest > now && !is_ready && processor.urgent.is_empty() {
        return NextTick { at: earliest.min(next_slice), gives_way: has_to };
    }
    processor.request_slow_pick();
    let undisturbed_until = processor.undisturbed_until();
    if undisturbed_until <= now || has_to {
        // The timer is armed again when the G gives way.
        return NextTick { at: next_slice, gives_way: true };
    }
    NextTick { at: undisturbed_until.min(next_slice), gives_way: false }
    // ANCHOR_END: tick
}

/// Returns the time at which the timer of a CPU is to fire for the first time after the CPU has begun to run a thread.
/// `machine` is the M of that thread, or `None` if that thread is not the thread of an M.
pub fn first_tick<Plat: Platform>(machine: Option<&Machine<Plat>>, now: Instant) -> Instant {
    let earliest = machine.and_then(Machine::processor).map_or(Instant::NEVER, |processor| processor.timers.earliest());
    earliest.min(now + Plat::slice())
}

/// Ends the slice of the G that runs on `machine` or is in a system call there, even if the time of the slice is not
/// over. Callable from interrupts. If `machine` is on another CPU, the caller must request a preemption from the
/// platform as well, see [`request`].
pub fn end_slice<Plat: Platform>(machine: &Machine<Plat>) {
    if let Some(processor) = machine.processor_of_slice() {
        processor.end_slice(processor.tick());
    }
}

/// Makes the G that runs on `machine` give way as soon as the G can be switched out. `machine` may be on any CPU. Best
/// effort: if the G leaves by itself in the meantime, the request only affects a G that shares the slice. Does not
/// block. Go: `preemptone`.
#[doc(alias = "preemptone")]
pub fn request<Plat: Platform>(machine: &'static Machine<Plat>) {
    end_slice(machine);
    Plat::request_preemption(machine);
}

/// Whether the G on `machine` has to call [`give_way`]. Called, for example, by the handler of the interrupt that
/// [`Platform::request_preemption`] sends.
pub fn must_give_way<Plat: Platform>(machine: &Machine<Plat>) -> bool {
    let scheduler = machine.scheduler();
    machine.processor().is_some_and(|processor| {
        processor.is_slice_over() || scheduler.is_stopping() || has_urgent_work(scheduler, processor)
    })
}

/// Whether the G that returns from a system call to `processor` has to call [`give_way`] because its slice is over or
/// an urgent G waits. Does not check whether a timer is due, which would mean to read the clock: the interrupt that will
/// notice the next timer is armed already.
#[inline(always)]
pub(crate) fn gives_way_to_others<Plat: Platform>(scheduler: &Scheduler<Plat>, processor: &Processor<Plat>) -> bool {
    processor.is_slice_over() || scheduler.signals.is_ready() || !processor.urgent.is_empty()
}

/// Lets the calling G give way if the world is to stop, if the slice of the G is over, or if an urgent G may displace
/// it.
///
/// The platform calls this where it interrupted a G in user code, after it has saved all registers of the G on the G's
/// stack, and at the end of a pinned section during which a request came. The caller is pinned once, before and after
/// the call; afterwards it may be on another M.
///
/// # Panics
///
/// The caller may not block here, for example because it is pinned more than once or has stopped the world.
#[track_caller]
pub fn give_way<Plat: Platform>(pinned: Pinned<Plat>) -> Pinned<Plat> {
    if !Plat::is_pinned_once() {
        refuse(pinned, ());
    }
    Plat::may_migrate();
    let Some(machine) = pinned.try_machine() else { return pinned };
    // On g0 there is no G that could give way. In a system call, no other G could run on this M.
    let (Some(me), Some(processor)) = (machine.current_goroutine(), machine.processor()) else { return pinned };
    if me.status() != Status::Running {
        return pinned;
    }
    if !Plat::COUNTS_PINS && machine.are_waits_forbidden() {
        refuse(pinned, ());
    }
    let caller = CurrentGoroutine { pinned, machine, processor, me };
    // ANCHOR: give_way
    if machine.scheduler().is_stopping() {
        return hooks::give_way_to_stop(caller);
    }
    if processor.is_slice_over() {
        return preempt(caller);
    }
    displace_for_urgent(caller)
    // ANCHOR_END: give_way
}

/// Called when the slice is over. The calling G goes to the tail of the global queue. But an urgent G has only continued
/// the slice of other Gs, so it goes to the tail of the urgent queue. Go: `gopreempt_m`.
#[doc(alias = "gopreempt_m")]
pub(crate) fn preempt<Plat: Platform>(caller: CurrentGoroutine<Plat>) -> Pinned<Plat> {
    let CurrentGoroutine { pinned, machine, processor, me } = caller;
    let is_urgent = me.is_urgent(Plat::now());
    processor.counters.preemptions.add(1);
    if machine.scheduler().policy().is_none() {
        processor.pass_slice_on(machine.scheduler(), is_urgent);
    }
    // ANCHOR: preempt
    let requeue = if is_urgent { requeue_urgent } else { requeue_global };
    leave(pinned, machine, me, None, Leave::GiveWay(PreemptReason::Slice), requeue)
    // ANCHOR_END: preempt
}

/// Wakeup preemption: if there is an urgent G, and the calling G has run undisturbed for long enough, the urgent G runs
/// first. Otherwise the next pick is a slow one.
fn displace_for_urgent<Plat: Platform>(caller: CurrentGoroutine<Plat>) -> Pinned<Plat> {
    let CurrentGoroutine { pinned, machine, processor, me } = caller;
    let scheduler = machine.scheduler();
    if !has_urgent_work(scheduler, processor) {
        // If a timer is set and not due yet, the interrupt that will notice it is armed already.
        return pinned;
    }
    if scheduler.policy().is_some() {
        return hooks::displace_by_policy(CurrentGoroutine { pinned, machine, processor, me });
    }
    let now = Plat::now();
    // ANCHOR: undisturbed
    if processor.undisturbed_until() > now {
        processor.request_slow_pick();
        processor.check_at(&pinned, processor.undisturbed_until());
        return pinned;
    }
    // ANCHOR_END: undisturbed
    if me.is_locked() {
        return hooks::displace_locked(CurrentGoroutine { pinned, machine, processor, me });
    }
    let next = take_first(&pinned, scheduler, processor, now);
    await_next(&pinned, processor, now);
    let Some(next) = next else { return pinned };
    processor.slice.undisturbed_since.store(now.as_nanos(), Ordering::Relaxed);
    // If `me` was just picked as an urgent G, `next` continues the time of these urgent Gs. Otherwise their time begins
    // anew. (Also if `me` is still urgent, but has waited in the ring since then.)
    if !(me.is_urgent(now) && processor.has_picked_urgent()) {
        processor.begin_urgent_time(now);
    }
    processor.counters.displacements.add(1);
    leave(pinned, machine, me, Some(next), Leave::GiveWay(PreemptReason::Urgent), requeue_next)
}

/// Whether there is a reason to displace the G on `processor`: a device is ready, an urgent G waits for `processor`, or
/// a timer of `processor` is due. The timer's interrupt and sysmon only request that a G gives way; whether it is
/// displaced is decided here.
#[inline(always)]
fn has_urgent_work<Plat: Platform>(scheduler: &Scheduler<Plat>, processor: &Processor<Plat>) -> bool {
    scheduler.signals.is_ready() || !processor.urgent.is_empty() || processor.has_due_timer()
}
