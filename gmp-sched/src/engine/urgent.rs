//! Urgent Gs: those that an event has readied, and that run before the other Gs of their P. An event is a due timer, a
//! ready device, or the end of a blocking call whose M finds no idle P. (In Go the G of an event goes to `runnext` or
//! to the global queue, and waits until the running G leaves or has used up its slice.)
//!
//! | who looks for urgent Gs | what happens |
//! |---|---|
//! | an M that picks a G, on g0 | it runs the first urgent G, unless such Gs have used up their time ([`next_urgent`]) |
//! | the timer's interrupt | if no G of the P was displaced in the last moment, the first urgent G displaces the running G (`preempt`) |
//! | a thief without other work | it takes the first urgent G of another P |
//!
//! Due timers stay in their wheel until their turn comes: a pick moves only one G of a due timer to the urgent queue
//! ([`take_first`]). So no M spends long on readying Gs while it cannot be preempted.
//!
//! While other Gs wait, urgent Gs run one after the other for at most [`URGENT_TIME`]. Then one of the others runs. It
//! runs undisturbed for a while ([`Platform::undisturbed`]), and so does the G that displaces another one. During this
//! time no interrupt is armed for the next timer; instead, each pick is a slow one, which reads the clock. So a
//! thousand timers that are due at once cost no interrupts, and while no timer is due soon, fast picks do not read the
//! clock.
//!
//! Urgent Gs continue the slice of the G that ran before them. If that slice is over, an urgent G goes to the tail of
//! the urgent queue, and one of the others runs first. A G is urgent for one slice only; later it is a G like any
//! other.

use core::time::Duration;

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::enqueue::put_next_last;
use crate::engine::ready::make_runnable;
use crate::engine::timers::take_due;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

/// How long a P runs urgent Gs one after the other while other Gs wait.
pub(crate) const URGENT_TIME: Duration = Duration::from_micros(100);

/// Returns the next urgent G of the current P; the caller runs that G. Returns `None` if there is none, or if another G
/// has to run first. Called on g0.
#[inline(always)]
pub(crate) fn next_urgent<Plat: Platform>(
    pinned: &Pinned<Plat>,
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    let scheduler = machine.scheduler();
    if processor.timers.earliest() == Instant::NEVER && processor.urgent.is_empty() && !scheduler.signals.is_ready() {
        return None;
    }
    let now = Plat::now();
    processor.set_clock(now);
    let next = if processor.may_run_urgent(scheduler, now) {
        take_first(pinned, scheduler, processor, now)
    } else {
        let_another_run(pinned, scheduler, processor, now);
        None
    };
    if next.is_some() {
        processor.urgent_tick.store(processor.tick(), Ordering::Relaxed);
    }
    await_next(pinned, processor, now);
    next
}

/// Takes the first urgent G of the current P; the caller runs that G. Before that, appends the G of the earliest due
/// timer and the Gs whose devices are ready to the urgent queue. (If the queue is empty, the first of these Gs is
/// returned and not appended, which saves two locks.)
#[inline(always)]
pub(crate) fn take_first<Plat: Platform>(
    pinned: &Pinned<Plat>,
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
    now: Instant,
) -> Option<&'static Goroutine<Plat>> {
    if let Some(goroutine) = take_due(pinned, processor, now) {
        goroutine.make_urgent(now);
        if processor.urgent.is_empty() && !scheduler.signals.is_ready() {
            return Some(goroutine);
        }
        processor.put_urgent(goroutine);
    }
    let mut first = None;
    scheduler.poll_each(pinned, |goroutine| {
        let Some(goroutine) = make_runnable(pinned, goroutine) else { return };
        goroutine.make_urgent(now);
        if first.is_none() && processor.urgent.is_empty() {
            first = Some(goroutine);
        } else {
            processor.put_urgent(goroutine);
        }
    });
    first.or_else(|| processor.urgent.pop_front())
}

impl<Plat: Platform> Processor<Plat> {
    /// Whether urgent Gs may run before other Gs. Their time begins anew if another G has run since they ran last, or
    /// if no other G waits.
    #[inline(always)]
    fn may_run_urgent(&self, scheduler: &Scheduler<Plat>, now: Instant) -> bool {
        if now.as_nanos() < self.urgent_until.load(Ordering::Relaxed) {
            return true;
        }
        let others_wait = || !self.queue.is_empty() || scheduler.global_length.load(Ordering::Relaxed) != 0;
        if self.has_picked_urgent() && others_wait() {
            return false;
        }
        if self.is_slice_over() {
            // The urgent G begins the next slice.
            self.advance_tick();
        }
        self.urgent_until.store((now + URGENT_TIME).as_nanos(), Ordering::Relaxed);
        true
    }

    /// Whether the P has picked no G with a slice of its own since it last picked an urgent G.
    #[inline(always)]
    pub(crate) fn has_picked_urgent(&self) -> bool {
        self.urgent_tick.load(Ordering::Relaxed) == self.tick()
    }

    /// Begins the time of urgent Gs, because an urgent G displaces a G that is not urgent, or that has not just been
    /// picked as an urgent one.
    pub(crate) fn begin_urgent_time(&self, now: Instant) {
        self.urgent_until.store((now + URGENT_TIME).as_nanos(), Ordering::Relaxed);
        self.urgent_tick.store(self.tick(), Ordering::Relaxed);
    }

    /// Lets urgent Gs have their time again, because another G runs or has used up its slice.
    pub(crate) fn renew_urgent_time(&self) {
        self.urgent_until.store(0, Ordering::Relaxed);
        self.urgent_tick.store(self.tick().wrapping_sub(1), Ordering::Relaxed);
    }

    /// Makes another G run before the urgent ones, if one waits.
    pub(crate) fn use_up_urgent_time(&self) {
        self.urgent_until.store(0, Ordering::Relaxed);
        self.urgent_tick.store(self.tick(), Ordering::Relaxed);
    }
}

/// Called when urgent Gs have used up their time. The G that runs next is not displaced for a while. After that G,
/// urgent Gs may run again. The G in `runnext` goes to the tail of the ring, because the ring would starve if urgent Gs
/// put another G into `runnext` each time.
#[cold]
#[inline(never)]
fn let_another_run<Plat: Platform>(
    pinned: &Pinned<Plat>,
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
    now: Instant,
) {
    // The raise of a signal may have relied on this M, so it polls now. If another P is idle, the caller then wakes an M,
    // which takes that P and runs these Gs.
    scheduler.poll_each(pinned, |goroutine| {
        if let Some(goroutine) = make_runnable(pinned, goroutine) {
            goroutine.make_urgent(now);
            processor.put_urgent(goroutine);
        }
    });
    put_next_last(scheduler, processor);
    processor.slice.undisturbed_since.store(now.as_nanos(), Ordering::Relaxed);
    processor.renew_urgent_time();
}

/// Returns an urgent G of the P `of`, which another M holds or which is idle; the caller must run or enqueue that G.
pub(crate) fn take_urgent<Plat: Platform>(
    pinned: &Pinned<Plat>,
    of: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    of.urgent.pop_front().or_else(|| {
        if of.timers.earliest() == Instant::NEVER {
            return None;
        }
        let now = Plat::now();
        take_due(pinned, of, now).inspect(|goroutine| goroutine.make_urgent(now))
    })
}

/// Makes sure that the next urgent G is noticed in time. Called when a G is about to run on the current P, and no
/// urgent G may displace that G for a while.
#[inline]
pub(crate) fn await_next<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>, now: Instant) {
    let scheduler = pinned.machine().scheduler();
    let earliest = processor.timers.earliest();
    let is_any_waiting = !processor.urgent.is_empty() || scheduler.signals.is_ready();
    if (!processor.urgent.is_empty() || earliest <= now) && !processor.is_alone() {
        // If a P is idle, this call wakes an M, which takes that P and runs the urgent G. (The raise of a signal has
        // made sure itself that an M notices it.)
        scheduler.submitted();
    }
    let undisturbed_until = now + Plat::undisturbed();
    if is_any_waiting || Plat::TIMER_INTERRUPTS && earliest < undisturbed_until {
        processor.request_slow_pick();
        processor.check_at(pinned, undisturbed_until);
    } else if Plat::TIMER_INTERRUPTS && earliest != Instant::NEVER {
        processor.check_at(pinned, earliest);
    }
}
