//! The direct switch between the two Gs of a coroutine, and the cases in which they switch through the run queues.

use crate::engine::park::park_with;
use crate::engine::ready::ready_pinned;
use crate::engine::switch::leave;
use crate::entities::bubble::BubbleRef;
use crate::entities::current::CurrentGoroutine;
use crate::entities::events::Leave;
use crate::entities::goroutine::{Goroutine, WaitLocation, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::status::Status;
use crate::entities::wait_reason::WaitFor;
use crate::lifecycle::new_goroutine::start_next;
use crate::platform::Platform;

/// Parks the caller and runs `next`, which is parked in the same coroutine or has not begun. Go: `coroswitch`.
#[doc(alias = "coroswitch")]
#[cfg_attr(feature = "std", track_caller)]
pub(super) fn switch_to<Plat: Platform>(caller: CurrentGoroutine<Plat>, next: &'static Goroutine<Plat>) {
    if !hand_over(&caller, next) {
        return switch_specially(caller, next);
    }
    let CurrentGoroutine { pinned, machine, me, .. } = caller;
    drop(leave(pinned, machine, me, Some(next), Leave::Recorded, |_, _| ()));
}

/// The part of [`switch_to`] before the change of stacks: parks the caller, and makes `next` runnable, which the caller
/// must run at once. Returns `false`, and changes nothing, if [`switch_specially`] has to switch.
#[inline(always)]
#[cfg_attr(feature = "std", track_caller)]
pub(crate) fn hand_over<Plat: Platform>(caller: &CurrentGoroutine<Plat>, next: &'static Goroutine<Plat>) -> bool {
    let &CurrentGoroutine { machine, processor, me, .. } = caller;
    // The first comparison fails if `next` has not begun, belongs to another scheduler, waits durably in a bubble, or
    // is sampled. While a trace is taken, every G that parks is sampled, so this path need not record trace events.
    let is_usual = next.is_parked_as(machine.unsampled())
        && next.locked_machine().is_none()
        && machine.locked_goroutine().is_none()
        && me.bubble().is_none()
        && next.bubble().is_none()
        && may_skip_pick(machine, processor);
    if is_usual {
        me.set_wait_location(WaitLocation::here());
        me.set_waiting(WaitReason::Coroutine, processor.sampler.parked_status(), processor.clock());
        next.set_status(Status::Runnable);
    }
    is_usual
}

/// Whether a leaving G may switch to a certain other G without a pick. With timer interrupts it may, because an
/// interrupt ends the slice, fires the timers and stops the G. On other platforms it may not if g0 has to pick, as in
/// `pick_next`. Otherwise two Gs that switch to each other could keep their P forever. With a policy it may not.
#[inline(always)]
fn may_skip_pick<Plat: Platform>(machine: &Machine<Plat>, processor: &'static Processor<Plat>) -> bool {
    Plat::TIMER_INTERRUPTS && machine.scheduler().policy().is_none()
        || !processor.has_due_timer() && (!processor.needs_slow_pick() || !must_pick(machine, processor))
}

/// Whether g0 has to pick, given that a slow pick is requested and no timer is due. While a trace is taken, a slow pick
/// is always requested, so the request alone does not mean that g0 has to pick. In this case this function checks the
/// other reasons for a request.
#[cold]
fn must_pick<Plat: Platform>(machine: &Machine<Plat>, processor: &'static Processor<Plat>) -> bool {
    !processor.sampler.wants_slow_picks()
        || machine.scheduler().policy().is_some()
        || !processor.urgent.is_empty()
        || processor.is_slice_over()
        || processor.is_global_check_due()
        || machine.scheduler().is_stopping()
}

/// The part of [`switch_to`] for the unusual cases: `next` has not begun, is sampled, or belongs to another scheduler;
/// one of the two Gs is in a bubble or locked to its M; or g0 has to pick.
#[cold]
#[inline(never)]
#[cfg_attr(feature = "std", track_caller)]
fn switch_specially<Plat: Platform>(caller: CurrentGoroutine<Plat>, next: &'static Goroutine<Plat>) {
    let is_for_other_machine = next.locked_machine().is_some() || !caller.machine.is_of_scheduler_of(next);
    if is_for_other_machine
        || caller.machine.locked_goroutine().is_some()
        || !may_skip_pick(caller.machine, caller.processor)
    {
        return switch_through_queues(caller, next);
    }
    let CurrentGoroutine { pinned, machine, processor, me } = caller;
    let is_new = next.status() == Status::Idle;
    if is_new {
        processor.counters.spawned.add(1);
    } else if BubbleRef::of(me) != BubbleRef::of(next) || me.bubble().is_some() && !next.is_waiting_in_bubble() {
        // A direct switch does not change any bubble's number of active Gs (Gs that do not wait durably). That is right
        // only if both Gs are in the same bubble and `next` waits durably in it, or if neither G is in a bubble. In all
        // other cases the Gs switch through the queues. Then the park of `me` adjusts the number in the bubble of `me`,
        // and the readying of `next` adjusts the number in the bubble of `next`.
        return switch_through_queues(CurrentGoroutine { pinned, machine, processor, me }, next);
    }
    me.set_wait_location(WaitLocation::here());
    me.set_waiting(WaitReason::Coroutine, processor.sampler.parked_status(), processor.clock());
    if let Some(bubble) = me.bubble() {
        // `me` stops being active. `next` was not active, and becomes active. So the bubble's number of active Gs stays
        // the same.
        me.set_waiting_in_bubble(WaitReason::CoroutineDurable);
        if is_new {
            bubble.admit(next);
            let woken = bubble.blocked();
            debug_assert!(woken.is_none(), "the new G is active");
        }
    }
    next.set_status(Status::Runnable);
    drop(leave(pinned, machine, me, Some(next), Leave::Switch(next.id()), |_, _| ()));
}

/// Switches like [`switch_to`], but through the queues. Called if one of the two Gs is locked to its M, if they belong
/// to different schedulers or bubbles, if `next` does not wait durably in their bubble, or if g0 has to pick. The far
/// side readies `next`, and the scheduler of `next` runs it.
#[cold]
#[cfg_attr(feature = "std", track_caller)]
fn switch_through_queues<Plat: Platform>(caller: CurrentGoroutine<Plat>, next: &'static Goroutine<Plat>) {
    let is_new = next.status() == Status::Idle;
    // Whether the wait is durable depends on the bubble of the awaited G. A new G is in no bubble yet, but it will be
    // in the caller's bubble, so `awaited` is the caller instead.
    let awaited = if is_new { caller.me } else { next };
    drop(park_with(caller, WaitFor::new(WaitReason::Coroutine, awaited), move |pinned, me| {
        if is_new {
            start_next(pinned, next, Some(me));
        } else {
            ready_pinned(pinned, next);
        }
        true
    }));
}
