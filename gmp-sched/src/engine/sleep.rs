//! Sleeping until a point in time.

use core::mem::ManuallyDrop;
use core::time::Duration;

use crate::base::instant::Instant;
use crate::engine::arm_timers::arm;
use crate::engine::caller::Caller;
use crate::engine::due::pick_due_at;
use crate::engine::park::park_because;
use crate::engine::switch::{begin_look, commit_closure, leave_for_picked, pick_at_once, pick_besides};
use crate::entities::goroutine::{Ticket, WaitReason};
use crate::entities::timers::Action;
use crate::platform::Platform;

/// Lets the calling G sleep for `duration`; returns at once if that is zero. Go: `time.Sleep`.
///
/// Blocks the G only. Not callable from interrupts.
///
/// # Panics
///
/// The caller is not a G with a P.
#[doc(alias = "timeSleep")]
pub fn sleep<P: Platform>(duration: Duration) {
    if !duration.is_zero() {
        let caller = Caller::<P>::new();
        let now = now_of(&caller);
        sleep_from(caller, now, now.after(duration));
    }
}

/// Lets the calling G sleep until `when`. As [`sleep`].
///
/// # Panics
///
/// As [`sleep`].
pub fn sleep_until<P: Platform>(when: Instant) {
    let caller = Caller::<P>::new();
    let now = now_of(&caller);
    sleep_from(caller, now, when);
}

/// By the clock that the caller's timers go by.
#[inline(always)]
fn now_of<P: Platform>(caller: &Caller<P>) -> Instant {
    match caller.me.bubble() {
        None => P::now(),
        Some(bubble) => bubble.now(),
    }
}

/// Sleeps from `now` on until `when`.
#[inline(always)]
fn sleep_from<P: Platform>(caller: Caller<P>, now: Instant, when: Instant) {
    if P::TIMER_INTERRUPTS && caller.me.bubble().is_none() && !caller.processor.watch.wants_all() && when > now {
        return sleep_among_others(caller, now, when);
    }
    // The general way: on threads, in a bubble, while everything is watched, and for a time that is over. Armed when the G is
    // parked: a short timer would otherwise ready a G that still runs.
    let reason = WaitReason::Sleep;
    park_because(
        caller,
        reason,
        || reason,
        |pinned, me| {
            arm(pinned, me, when, &me.timer, Action::Wake(me, Ticket::SOLE));
            true
        },
    );
}

/// [`sleep_from`] among the timers of the caller's P.
///
/// It sets the timer before it leaves, and keeps their lock until it has left, so that nobody finds the timer sooner; and
/// looks under that same lock for one who is due. The scheduler's lock may be taken under it then, to wake an M for those
/// that are due besides: the other order is taken only while the world is stopped. Where many who sleep are due at once,
/// each of them waits while those before it do this.
#[inline(always)]
fn sleep_among_others<P: Platform>(caller: Caller<P>, now: Instant, when: Instant) {
    let Caller { ref pinned, processor, me, .. } = caller;
    let when = when.min(Instant::LAST);
    let mut wheel = processor.timers.lock();
    if processor.timers.insert_locked(&mut wheel, when, &me.timer, Action::Wake(me, Ticket::SOLE)) {
        P::arm_timer(pinned, processor, when);
    }
    processor.counters.parks.add(1);
    // Whoever wakes it runs it: there is nothing to watch.
    me.set_waiting(WaitReason::Sleep, processor.watch.unwatched(), processor.clock());
    let picked = if !processor.is_look_wanted() {
        pick_at_once(processor)
    } else if begin_look(&caller, false) {
        pick_besides(processor, pick_due_at(pinned, processor, now, false, || &mut *wheel))
    } else {
        None
    };
    let unlock = ManuallyDrop::new(|_: &_, _| drop(wheel));
    drop(leave_for_picked(caller, commit_closure(&unlock), picked));
}
