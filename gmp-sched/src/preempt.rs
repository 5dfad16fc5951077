//! Preemption: when a G has to give way, and what happens then.
//!
//! The platform supplies two moments: a tick (its timer's interrupt handler calls [`tick`]), and a place in the
//! interrupted G where it can be left (it calls [`give_way`] there, pinned once).
//!
//! # Slices
//!
//! Nothing is armed or read when a G is switched to. While a CPU runs a thread its timer fires once a slice at least, and
//! the handler compares the P's tick with what it saw last: if it is the same, one slice has gone on all the time (Go's
//! sysmon does the same from a thread of its own, `retake`). So a G runs between one and two slices before it has to give
//! way. An idle CPU has no tick.

use crate::find::run_timers;
use crate::goroutine::{Goroutine, Status};
use crate::machine::Machine;
use crate::observe;
use crate::park::put_next;
use crate::platform::{Pinned, Platform};
use crate::primitives::{AtomicU32, AtomicU64, Ordering};
use crate::processor::Processor;
use crate::schedule::requeue_global;
use crate::switch::{Commit, Leave, leave, leave_for, leave_for_g0, pick_local};
use crate::time::Instant;
use crate::trace::EventKind;

/// What is known of the slice that goes on on a P.
#[derive(Debug)]
pub(crate) struct SliceWatch {
    /// The P's tick when the tick handler looked last.
    seen: AtomicU32,
    /// When that tick was seen first.
    since: AtomicU64,
    /// The tick whose slice is to end, [`NONE`] if none is: a G that takes its turn in between is not meant.
    ends: AtomicU64,
}

/// No tick, which has 32 bits.
const NONE: u64 = u64::MAX;

impl SliceWatch {
    pub(crate) fn new() -> Self {
        Self { seen: AtomicU32::new(0), since: AtomicU64::new(0), ends: AtomicU64::new(NONE) }
    }
}

impl<P: Platform> Processor<P> {
    /// Looks whether one slice has gone on too long, and then lets it end.
    pub(crate) fn watch_slice(&self, now: Instant) {
        self.set_clock(now);
        self.watch.take_turn();
        let tick = self.tick();
        if self.slice.seen.load(Ordering::Relaxed) != tick {
            self.slice.seen.store(tick, Ordering::Relaxed);
            self.slice.since.store(now.as_nanos(), Ordering::Relaxed);
        } else if now.since(Instant::from_nanos(self.slice.since.load(Ordering::Relaxed))) >= P::slice() {
            self.slice.ends.store(u64::from(tick), Ordering::Relaxed);
        }
    }

    fn is_slice_over(&self) -> bool {
        self.slice.ends.load(Ordering::Relaxed) == u64::from(self.tick())
    }
}

/// When the timer of a CPU is to fire again for the M that runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextTick {
    /// No later than this.
    pub at: Instant,
    /// The G there is to come to [`give_way`] as soon as it can be left.
    pub gives_way: bool,
}

/// The timer of a CPU has fired that runs a thread: that of `machine`, or one that is no M. Called from the interrupt
/// handler; takes no lock.
pub fn tick<P: Platform>(machine: Option<&Machine<P>>, now: Instant) -> NextTick {
    let next_slice = now.after(P::slice());
    // In a system call without a P there is nothing to preempt.
    let Some(processor) = machine.and_then(Machine::processor) else {
        return NextTick { at: next_slice, gives_way: false };
    };
    processor.watch_slice(now);
    let is_ready = machine.is_some_and(|machine| machine.scheduler().poller.is_ready());
    let earliest = processor.timers.earliest();
    let is_stopping = machine.is_some_and(|machine| machine.scheduler().is_stopping());
    let due = earliest <= now;
    // A timer that is due is run where the G gives way; the next one is armed there.
    let at = if due { next_slice } else { earliest.min(next_slice) };
    NextTick { at, gives_way: due || processor.is_slice_over() || is_ready || is_stopping }
}

/// When the timer of a CPU is to fire that begins to run a thread: that of `machine`, or one that is no M.
pub fn first_tick<P: Platform>(machine: Option<&Machine<P>>, now: Instant) -> Instant {
    let earliest = machine.and_then(Machine::processor).map_or(Instant::NEVER, |processor| processor.timers.earliest());
    earliest.min(now.after(P::slice()))
}

/// Whether the G on `machine` is to come to [`give_way`], asked by the handler of the interrupt that follows
/// [`Platform::request_preemption`].
pub fn is_wanted<P: Platform>(machine: &Machine<P>) -> bool {
    let scheduler = machine.scheduler();
    machine.processor().is_some_and(Processor::is_slice_over) || scheduler.poller.is_ready() || scheduler.is_stopping()
}

/// Lets the calling G give way if it has to: its slice is over, or a timer is due or a device ready whose G comes first.
///
/// The platform calls this where it interrupted a G in user code, after saving all its registers on its own stack, or
/// at the end of a pinned section in which a request came. The pin is raised once, before and after, perhaps on another
/// M.
pub fn give_way<P: Platform>(pinned: Pinned<P>) -> Pinned<P> {
    let Some(machine) = pinned.try_machine() else { return pinned };
    // On g0 the search for work is under way; in a system call without a P there is nothing to give.
    let (Some(me), Some(processor)) = (machine.current_goroutine(), machine.processor()) else { return pinned };
    if me.status() != Status::Running {
        return pinned;
    }
    if machine.scheduler().is_stopping() {
        return stop_here(pinned, me);
    }
    if processor.is_slice_over() {
        return preempt(pinned, machine, processor, me);
    }
    displace_for_timers(pinned, machine, processor, me)
}

/// The slice is over: to the tail of the global queue. Go: `gopreempt_m`.
#[doc(alias = "gopreempt_m")]
fn preempt<P: Platform>(
    pinned: Pinned<P>,
    machine: &'static Machine<P>,
    processor: &'static Processor<P>,
    me: &'static Goroutine<P>,
) -> Pinned<P> {
    processor.slice.ends.store(NONE, Ordering::Relaxed);
    processor.counters.preemptions.add(1);
    leave(pinned, machine, processor, me, Leave::Preempt, Commit::new(requeue_global, 0))
}

/// The world is to stop: `me`, the calling G, goes first when it starts again. Go 1.26: `goschedImpl` with `preempted`.
#[cold]
pub(crate) fn stop_here<P: Platform>(pinned: Pinned<P>, me: &'static Goroutine<P>) -> Pinned<P> {
    pinned.processor().tracer.note::<P>(EventKind::Preempt, Some(me.id()), 0);
    leave_for_g0(pinned, me, Commit::new(requeue_next, 0))
}

/// Runs the due timers of this P; if that readied a G, it runs first, and the calling one, which has not used its slice
/// up, comes next.
fn displace_for_timers<P: Platform>(
    pinned: Pinned<P>,
    machine: &'static Machine<P>,
    processor: &'static Processor<P>,
    me: &'static Goroutine<P>,
) -> Pinned<P> {
    let scheduler = machine.scheduler();
    if !(run_timers(&pinned, processor) | scheduler.poll(&pinned)) {
        return pinned;
    }
    match pick_local(machine, processor) {
        Some(next) => {
            processor.tracer.note::<P>(EventKind::Preempt, Some(me.id()), 0);
            leave_for(pinned, machine, me, next, Commit::new(requeue_next, 0))
        }
        None if me.is_locked() => leave_for_g0(pinned, me, Commit::new(requeue_global, 0)),
        None => pinned,
    }
}

/// Far side of a displacement: first in line.
fn requeue_next<P: Platform>(pinned: Pinned<P>, goroutine: &'static Goroutine<P>, _: usize) -> Pinned<P> {
    if goroutine.is_locked() {
        return requeue_global(pinned, goroutine, 0);
    }
    goroutine.set_status(Status::Runnable);
    let machine = pinned.machine();
    let processor = machine.held_processor();
    observe::runnable_again(processor, goroutine);
    put_next(machine, processor, goroutine);
    pinned
}
