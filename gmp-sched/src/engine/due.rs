//! Due timers: when the Gs that they ready get to run.
//!
//! The P's timers are their queue: a G stays there until it can run, so that those that are due at the same time run in the order
//! in which they are due, before everything else on the P, and nobody loses `runnext` to them. (Go readies all at once,
//! each into `runnext`: the last comes first, the others behind the whole ring.)
//!
//! | who comes upon a due timer | what happens |
//! |---|---|
//! | a G that leaves | its M goes on with that G ([`pick_due`]; where it goes to sleep, under the lock that it has: [`pick_due_at`]) |
//! | the M that looks for something to run | it runs the G ([`next_due`]) |
//! | the interrupt, while a G runs undisturbed for long enough | the G is displaced (`preempt`) |
//! | the interrupt, just after a displacement | the next pick of the P looks ([`Processor::look_at_next_pick`]), and at the end of the undisturbed time the G is displaced |
//! | a thief without other work | it runs the G |
//!
//! As long as a timer is due sooner than the running G may be displaced, no interrupt is asked for: each pick reads the
//! clock instead. So a thousand timers that are due at once cost no interrupts, and where none is due no pick reads the
//! clock.

use core::ops::DerefMut;
use core::time::Duration;

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::park::{make_runnable, make_unwatched_runnable, put_last};
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::timers::{Action, Wheel};
use crate::platform::{Pinned, Platform};

/// How long a P runs Gs of timers one after the other while others wait in its queue. Then one of those has a turn, and is
/// displaced again after the undisturbed time.
pub(crate) const ROW: Duration = Duration::from_micros(100);

/// The next G of the current P whose timer is due, for the caller to run; `None` also if it is the turn of others. Go:
/// `timers.check`.
pub(crate) fn next_due<P: Platform>(
    pinned: &Pinned<P>,
    processor: &'static Processor<P>,
) -> Option<&'static Goroutine<P>> {
    if processor.timers.earliest() == Instant::NEVER {
        return None;
    }
    let now = P::now();
    processor.set_clock(now);
    let is_turn_of_due = is_turn_of_due(pinned, processor, now);
    let next = if is_turn_of_due { take_due(pinned, processor, now) } else { None };
    await_next(pinned, processor, now);
    if next.is_some() {
        processor.begin_due();
    } else if !is_turn_of_due {
        let_others_run(pinned, processor);
    }
    next
}

/// Lets the ring run next, or the global queue. The G in `runnext` goes behind the ring: if the Gs of timers ready one in each
/// row, the ring would never be served. Only a displaced G goes on at once, in its slice, which ends.
#[cold]
fn let_others_run<P: Platform>(pinned: &Pinned<P>, processor: &'static Processor<P>) {
    processor.row_tick.store(processor.tick().wrapping_sub(1), Ordering::Relaxed);
    if processor.queue.next().is_some_and(|next| !processor.is_displaced(next))
        && let Some(next) = processor.queue.pop_next()
    {
        put_last(pinned.machine().scheduler(), processor, next);
    }
}

/// Whether Gs of timers may run, for it is `now`; if not, others have waited for long enough.
#[inline(always)]
fn is_turn_of_due<P: Platform>(pinned: &Pinned<P>, processor: &'static Processor<P>, now: Instant) -> bool {
    now.as_nanos() < processor.row_until.load(Ordering::Relaxed) || begin_row(pinned, processor, now)
}

/// The row is over: begins another if the others have had their turn meanwhile, or do not want one. The others are the local
/// queue, the global one and ready devices: each of them would starve if it did not count here.
#[cold]
fn begin_row<P: Platform>(pinned: &Pinned<P>, processor: &'static Processor<P>, now: Instant) -> bool {
    let others_wait = || !processor.queue.is_empty() || pinned.machine().scheduler().has_work_for_all();
    let is_turn_of_others = processor.row_tick.load(Ordering::Relaxed) == processor.tick() && others_wait();
    if !is_turn_of_others {
        processor.row_until.store(now.after(ROW).as_nanos(), Ordering::Relaxed);
    }
    !is_turn_of_others
}

/// Takes the first G whose timer on `of`, not necessarily the current P, is due.
pub(crate) fn take_due<P: Platform>(
    pinned: &Pinned<P>,
    of: &'static Processor<P>,
    now: Instant,
) -> Option<&'static Goroutine<P>> {
    while let Some(action) = of.timers.pop_due(now) {
        let readied = action.run(pinned, now);
        if readied.is_some() {
            return readied;
        }
    }
    None
}

/// A G begins to run on the current P, undisturbed for a while: sees to it that the timer that is next is not missed.
#[inline(always)]
pub(crate) fn await_next<P: Platform>(pinned: &Pinned<P>, processor: &'static Processor<P>, now: Instant) {
    let earliest = processor.timers.earliest();
    if earliest <= now && !processor.is_alone() {
        // More than this P can do at once.
        pinned.machine().scheduler().submitted_among_others();
    }
    if !P::TIMER_INTERRUPTS {
        return;
    }
    let undisturbed_until = now.after(P::undisturbed());
    if earliest < undisturbed_until {
        processor.look_at_next_pick();
        P::arm_timer(pinned, processor, undisturbed_until);
    } else if earliest != Instant::NEVER {
        P::arm_timer(pinned, processor, earliest);
    }
}

/// What a G that leaves finds among the timers of its P.
pub(crate) enum Due<P: Platform> {
    /// None is due, and the next one will not be missed.
    Nothing,
    /// A G that is to run now.
    Goroutine(&'static Goroutine<P>),
    /// Something that is for g0.
    Other,
}

/// Looks for a G that is due in place of one that leaves. That one may hold a lock until the far side: only what takes none
/// can be done here, which is to wake one that any M may run and no bubble counts; and none of which a trace would tell,
/// where it would look as if the one that leaves had woken it.
#[inline(always)]
pub(crate) fn pick_due<P: Platform>(pinned: &Pinned<P>, processor: &'static Processor<P>, is_traced: bool) -> Due<P> {
    if processor.timers.earliest() == Instant::NEVER {
        return Due::Nothing;
    }
    pick_due_at(pinned, processor, P::now(), !is_traced, || processor.timers.lock())
}

/// [`pick_due`] where there are timers, it is `now`, and they are locked by `lock`; for a G that is watched only if asked for.
#[inline(always)]
pub(crate) fn pick_due_at<P: Platform, W: DerefMut<Target = Wheel<P>>>(
    pinned: &Pinned<P>,
    processor: &'static Processor<P>,
    now: Instant,
    with_watched: bool,
    lock: impl FnOnce() -> W,
) -> Due<P> {
    if processor.timers.earliest() > now {
        await_next(pinned, processor, now);
        return Due::Nothing;
    }
    if !P::TIMER_INTERRUPTS || !is_turn_of_due(pinned, processor, now) {
        return Due::Other;
    }
    let is_simple = |action| match action {
        Action::Wake(goroutine, _) => {
            let unwatched = processor.watch.unwatched();
            goroutine.is_parked_as(unwatched) || with_watched && goroutine.is_parked_as(unwatched.watched())
        }
        Action::Fire(..) | Action::Resume(_) => false,
    };
    let popped = processor.timers.pop_due_if(&mut lock(), now, is_simple);
    let Some(Action::Wake(goroutine, ticket)) = popped else { return Due::Other };
    if !goroutine.claim(ticket) {
        return Due::Other;
    }
    if !with_watched {
        make_unwatched_runnable(processor, goroutine);
    } else if make_runnable(pinned, goroutine).is_none() {
        return Due::Other;
    }
    processor.set_clock(now);
    await_next(pinned, processor, now);
    processor.begin_due();
    Due::Goroutine(goroutine)
}

/// Whether any P has a timer that is due.
pub(crate) fn is_timer_due<P: Platform>(scheduler: &'static Scheduler<P>) -> bool {
    let earliest = scheduler.processors().iter().map(|processor| processor.timers.earliest()).min();
    earliest.is_some_and(|earliest| earliest != Instant::NEVER && earliest <= P::now())
}
