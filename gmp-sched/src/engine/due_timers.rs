//! Due timers, and when their Gs run. (`timekeeper` has the M that sleeps until the next timer of an idle P.)
//!
//! The timing wheel of a P is the queue of the Gs that its due timers ready: a G stays in the wheel until it can run.
//! So Gs whose timers are due together run in the order of their times, and before the Gs in the queues of the P as
//! long as the batch budget lasts. None of them pushes another one out of `runnext`. If there are timer interrupts, a G
//! that returns from a blocking call and finds no idle P is put into the wheel, too, as if it had a timer that is due
//! now (see `syscall`). (Go readies the Gs of all due timers at once, each into `runnext`. So the last of these Gs runs
//! first, and the others run after all Gs of the ring.)
//!
//! | who finds a due timer | what happens |
//! |---|---|
//! | an M that picks a G, on g0 | it runs the G, within the batch budget ([`next_due`]) |
//! | the timer's interrupt, when the running G has run undisturbed for long enough | the G of the timer displaces it (`preempt`) |
//! | the timer's interrupt, just after a displacement | the next pick is a slow one ([`Processor::request_slow_pick`]), and at the end of the undisturbed time the running G is displaced |
//! | a thief without other work | it runs the G |
//!
//! After a displacement, the P runs undisturbed for a while, that is, no other displacement follows
//! ([`Platform::undisturbed`]). If a timer is due within this time, no interrupt is armed for the time of that timer.
//! Instead, each pick is a slow one, which reads the clock. So a thousand timers that are due at once cost no
//! interrupts. While no timer is due soon, fast picks do not read the clock. (Without [timer
//! interrupts](Platform::TIMER_INTERRUPTS), every pick reads the clock while a timer is armed.)

use core::time::Duration;

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::enqueue::put_next_last;
use crate::engine::windows::{At, Window};
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// The batch budget, which is how long a P runs the Gs of due timers one after the other while other Gs wait. When
/// the budget is used up, one of the other Gs runs. A due timer may displace that G only after the [undisturbed
/// time](Platform::undisturbed).
pub(crate) const BATCH_BUDGET: Duration = Duration::from_micros(100);

/// Returns the next G of the current P whose timer is due; the caller runs that G. Returns `None` if no timer is due or
/// if the batch budget is used up. Called on g0. Go: `timers.check`.
#[inline(always)]
pub(crate) fn next_due<Plat: Platform>(
    pinned: &Pinned<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    if processor.timers.earliest() == Instant::NEVER {
        return None;
    }
    let now = Plat::now();
    processor.set_clock(now);
    let has_budget = has_budget(pinned, processor, now);
    let next = if has_budget { take_due(pinned, processor, now) } else { None };
    await_next(pinned, processor, now);
    if next.is_some() {
        processor.begin_due();
    } else if !has_budget {
        end_batch(pinned, processor, now);
    }
    next
}

/// Called when the batch budget is used up. The next G then comes from the local or the global queue and runs
/// undisturbed for a while, even if a timer is due at once. The G in `runnext` goes to the tail of the ring, because
/// the ring would starve if each batch put another G into `runnext`. Only a displaced G stays in `runnext`, because it
/// runs at most for the rest of its slice.
#[cold]
fn end_batch<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>, now: Instant) {
    processor.slice.undisturbed_since.store(now.as_nanos(), Ordering::Relaxed);
    processor.due_batch_tick.store(processor.tick().wrapping_sub(1), Ordering::Relaxed);
    if processor.queue.next().is_some_and(|next| !processor.is_displaced(next)) {
        put_next_last(pinned.machine().scheduler(), processor);
    }
}

/// Whether the Gs of due timers may run before other Gs. If the budget is used up, tries to begin the next batch.
fn has_budget<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>, now: Instant) -> bool {
    now.as_nanos() < processor.due_batch_until.load(Ordering::Relaxed) || begin_batch(pinned, processor, now)
}

/// Called when the budget is used up. Begins the next batch if a G without a due timer has run since the last batch, or
/// if no such G is waiting to run. Returns whether a batch began. A G without a due timer comes from the local queue,
/// the global queue or a ready device. If this function ignored one of these sources, the Gs of that source would
/// starve.
fn begin_batch<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>, now: Instant) -> bool {
    let others_wait = || !processor.queue.is_empty() || pinned.machine().scheduler().has_shared_work();
    let others_are_next = processor.due_batch_tick.load(Ordering::Relaxed) == processor.tick() && others_wait();
    if !others_are_next {
        processor.due_batch_until.store((now + BATCH_BUDGET).as_nanos(), Ordering::Relaxed);
    }
    !others_are_next
}

/// Fires due timers of the P `of` until one of them makes a G runnable that this M may run. Returns that G, which the
/// caller must run or enqueue, or `None` if there is no such G. `of` need not be the current P.
#[inline(always)]
pub(crate) fn take_due<Plat: Platform>(
    pinned: &Pinned<Plat>,
    of: &'static Processor<Plat>,
    now: Instant,
) -> Option<&'static Goroutine<Plat>> {
    while let Some(action) = of.timers.pop_due(now) {
        let window = Window::<Plat>::open(At::DueTimer);
        if let Some(processor) = pinned.machine().processor() {
            processor.tracer.note::<Plat>(EventKind::Timer, None, of.id().get().into());
        }
        let readied = action.run(pinned, now);
        window.close();
        if readied.is_some() {
            return readied;
        }
    }
    None
}

/// Makes sure that the next timer is noticed when it is due. Called when a G is about to run on the current P, and no
/// due timer may displace that G for a while.
#[inline]
pub(crate) fn await_next<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>, now: Instant) {
    let earliest = processor.timers.earliest();
    if earliest <= now && !processor.is_alone() {
        // A further timer is already due. If a P is idle, this call wakes an M, which takes that P and runs the G of
        // the timer.
        pinned.machine().scheduler().submitted_among_others();
    }
    if !Plat::TIMER_INTERRUPTS {
        return;
    }
    let undisturbed_until = now + Plat::undisturbed();
    if earliest < undisturbed_until {
        processor.request_slow_pick();
        Plat::arm_timer(pinned, processor, undisturbed_until);
    } else if earliest != Instant::NEVER {
        Plat::arm_timer(pinned, processor, earliest);
    }
}

/// Whether any P has a timer that is due.
pub(crate) fn is_timer_due<Plat: Platform>(scheduler: &'static Scheduler<Plat>) -> bool {
    let earliest = scheduler.processors().iter().map(|processor| processor.timers.earliest()).min();
    earliest.is_some_and(|earliest| earliest != Instant::NEVER && earliest <= Plat::now())
}
