//! Preemption: when a G has to give way, and what happens then.
//!
//! The platform supplies two moments: a tick (its timer's interrupt handler calls [`tick`]), and a place in the
//! interrupted G where it can be left (it calls [`give_way`] there, pinned once).
//!
//! # Slices
//!
//! Nothing is armed or read when a G is switched to. While a CPU runs a thread its timer fires once a slice at least, and
//! the handler compares the P's tick with what it saw last: if it is the same, one slice has gone on all the time (Go's
//! sysmon does the same from a thread of its own, `retake`). So a G runs between one and three slices before it has to give
//! way: the handler may come a slice after the G has begun, and just before the slice is over. An idle CPU has no tick.
//!
//! What shares the slice, a G from `runnext` or one that has displaced another, may prolong it, but once in a tick. The next
//! time the slice ends, the G in `runnext` goes behind the ring. So a tick lasts at most five slices while others wait: the
//! bound of `sim::slices`.
//!
//! A slice goes on during a system call. The G gives way at the end of the call; if that takes long, sysmon takes the P away
//! from it. Where no interrupts come ([`Platform::TIMER_INTERRUPTS`]) sysmon looks in place of the tick, and a slice that is
//! over ends when a G leaves next, by itself: see `pass_turn` in `schedule`.
//!
//! # Displacement
//!
//! A G whose timer is due does not wait for the slice to end: it displaces the running one, which goes on next, in the rest
//! of the slice they now share. After a displacement the P runs undisturbed for a while ([`Platform::undisturbed`]), so the
//! number of displacements in a slice is bounded. (Not after a slice begins: a timer due then would be late although nothing
//! was displaced.) What happens in the meantime, and to many timers due at once: see `due`.

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::caller::Caller;
use crate::engine::due::{await_next, take_due};
use crate::engine::observe;
use crate::engine::park::{put_last, put_next};
use crate::engine::schedule::requeue_global;
use crate::engine::switch::{Commit, Leave, leave, leave_for, leave_for_g0};
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::slice::NONE;
use crate::entities::status::Status;
use crate::entities::timers::Action;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

impl<P: Platform> Processor<P> {
    /// Ends the slice that goes on if it has lasted too long. `running` is the G that runs in it, if known.
    pub(crate) fn watch_slice(&self, now: Instant, running: Option<&'static Goroutine<P>>) {
        self.set_clock(now);
        self.watch.take_turn();
        let (slice, tick) = (&self.slice, self.tick());
        if slice.seen.load(Ordering::Relaxed) != tick {
            slice.begin(tick, now);
        } else if now.since(Instant::from_nanos(slice.since.load(Ordering::Relaxed))) >= P::slice() {
            let displaced_at = Instant::from_nanos(slice.displaced_at.load(Ordering::Relaxed));
            // It has not had a slice of its own yet: it goes on in the time that the displaced G did not have.
            let has_just_begun =
                running.is_some_and(|running| slice.is_of_another(running)) && now.since(displaced_at) < P::slice();
            if !(has_just_begun && slice.prolong(tick, displaced_at)) {
                self.end_slice();
            }
        }
    }

    /// The slice that goes on is over: its G gives way where it can be left.
    fn end_slice(&self) {
        self.slice.ends.store(u64::from(self.tick()), Ordering::Relaxed);
        if !P::TIMER_INTERRUPTS {
            // Asked for again by sysmon, if it is lost because the holder of the P ends a look of its own at this moment.
            self.look_at_next_pick();
        }
    }

    /// The G that runs leaves by itself, so the slice needs no end.
    pub(crate) fn forget_slice(&self) {
        self.slice.ends.store(NONE, Ordering::Relaxed);
    }

    /// A G whose timer was due begins to run: in a slice of its own, unless a displaced G is to go on in the present one.
    pub(crate) fn begin_due(&self) {
        let is_shared = self.slice.seen.load(Ordering::Relaxed) == self.tick()
            && self.slice.displaced.load(Ordering::Relaxed).is_some();
        if !is_shared {
            self.advance_tick();
            self.slice.of_due.store(u64::from(self.tick()), Ordering::Relaxed);
        }
        self.row_tick.store(self.tick(), Ordering::Relaxed);
    }

    /// Whether the slice that goes on is that of `goroutine`, which was displaced, and did not begin with a G whose timer was
    /// due.
    pub(crate) fn is_displaced(&self, goroutine: &'static Goroutine<P>) -> bool {
        let (slice, tick) = (&self.slice, self.tick());
        slice.seen.load(Ordering::Relaxed) == tick
            && slice.of_due.load(Ordering::Relaxed) != u64::from(tick)
            && slice.displaced.load(Ordering::Relaxed).is_some_and(|owner| core::ptr::eq(owner, goroutine))
    }

    /// The G that runs has used up the slice. The G in `runnext` prolongs it, if nothing has before; else it goes behind the
    /// ring, whose first G begins the next slice.
    fn pass_slice_on(&'static self, scheduler: &'static Scheduler<P>) {
        let (tick, now) = (self.tick(), P::now());
        if self.queue.next().is_some() && self.slice.prolong(tick, now) {
            self.slice.displaced.store(None, Ordering::Relaxed);
        } else {
            if let Some(next) = self.queue.pop_next() {
                put_last(scheduler, self, next);
            }
            self.slice.begin(tick.wrapping_add(1), now);
        }
        // Last: until the slice is prolonged, the handler of a tick may end it once more.
        self.forget_slice();
    }

    /// Until when no timer may displace the running G.
    fn undisturbed_until(&self) -> Instant {
        Instant::from_nanos(self.slice.displaced_at.load(Ordering::Relaxed)).after(P::undisturbed())
    }

    /// Whether a slice goes on that was to end. From another M the answer may be old.
    pub(crate) fn is_slice_over(&self) -> bool {
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
pub fn tick<P: Platform>(machine: Option<&Machine<P>>) -> NextTick {
    // Not a time that the caller says it is: a slice that began in the future would not end.
    let now = P::now();
    let next_slice = now.after(P::slice());
    let running = machine.and_then(Machine::current_goroutine);
    let Some(processor) = machine.and_then(Machine::processor) else {
        // Nothing to preempt; but the slice of a G in a system call goes on, and is ended when the call is.
        if let Some(left) = machine.and_then(Machine::processor_of_slice) {
            left.watch_slice(now, running);
        }
        return NextTick { at: next_slice, gives_way: false };
    };
    processor.watch_slice(now, running);
    let is_ready = machine.is_some_and(|machine| machine.scheduler().poller.is_ready());
    let earliest = processor.timers.earliest();
    let has_to = processor.is_slice_over() || machine.is_some_and(|machine| machine.scheduler().is_stopping());
    if earliest > now && !is_ready {
        return NextTick { at: earliest.min(next_slice), gives_way: has_to };
    }
    processor.look_at_next_pick();
    let undisturbed_until = processor.undisturbed_until();
    if undisturbed_until <= now || has_to {
        // The next timer is armed where the G gives way.
        return NextTick { at: next_slice, gives_way: true };
    }
    NextTick { at: undisturbed_until.min(next_slice), gives_way: false }
}

/// When the timer of a CPU is to fire that begins to run a thread: that of `machine`, or one that is no M.
pub fn first_tick<P: Platform>(machine: Option<&Machine<P>>, now: Instant) -> Instant {
    let earliest = machine.and_then(Machine::processor).map_or(Instant::NEVER, |processor| processor.timers.earliest());
    earliest.min(now.after(P::slice()))
}

/// Ends the slice of the G that runs on `machine` or is in a system call there, as if its time were over. Callable from
/// interrupts; on another CPU the platform has to be told as well, see [`request`].
pub fn end_slice<P: Platform>(machine: &Machine<P>) {
    if let Some(processor) = machine.processor_of_slice() {
        processor.end_slice();
    }
}

/// Makes the G that runs on `machine`, on whatever CPU, give way as soon as it can be left. Best effort: a G that leaves of
/// its own accord in the meantime takes the request along. Does not block. Go: `preemptone`.
#[doc(alias = "preemptone")]
pub fn request<P: Platform>(machine: &'static Machine<P>) {
    end_slice(machine);
    P::request_preemption(machine);
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
/// at the end of a pinned section in which a request came; the end of a system call calls it, too. The pin is raised once,
/// before and after, perhaps on another M.
///
/// # Panics
///
/// The caller may not block here: it is pinned more than once, for example.
#[track_caller]
pub fn give_way<P: Platform>(pinned: Pinned<P>) -> Pinned<P> {
    P::assert_pinned_once();
    let Some(machine) = pinned.try_machine() else { return pinned };
    // On g0 the search for work is under way; in a system call without a P there is nothing to give.
    let (Some(me), Some(processor)) = (machine.current_goroutine(), machine.processor()) else { return pinned };
    if me.status() != Status::Running {
        return pinned;
    }
    if machine.scheduler().is_stopping() {
        return stop_here(pinned, me);
    }
    let caller = Caller { pinned, machine, processor, me };
    if processor.is_slice_over() {
        return preempt(caller);
    }
    displace_for_events(caller)
}

/// The slice is over: to the tail of the global queue. Go: `gopreempt_m`.
#[doc(alias = "gopreempt_m")]
fn preempt<P: Platform>(caller: Caller<P>) -> Pinned<P> {
    let processor = caller.processor;
    processor.counters.preemptions.add(1);
    processor.look_at_next_pick();
    processor.pass_slice_on(caller.machine.scheduler());
    leave(caller, Leave::Preempt, Commit::new(requeue_global, 0))
}

/// The world is to stop: `me`, the calling G, goes first when it starts again. Go 1.26: `goschedImpl` with `preempted`.
#[cold]
pub(crate) fn stop_here<P: Platform>(pinned: Pinned<P>, me: &'static Goroutine<P>) -> Pinned<P> {
    pinned.processor().tracer.note::<P>(EventKind::Preempt, Some(me.id()), 0);
    leave_for_g0(pinned, me, Commit::new(requeue_next, 0))
}

/// If a timer is due or a device ready, and the calling G has been undisturbed for long enough, the G of the timer or device
/// runs first, and the calling one, which has not used its slice up, comes next.
fn displace_for_events<P: Platform>(caller: Caller<P>) -> Pinned<P> {
    let Caller { pinned, machine, processor, me } = caller;
    let scheduler = machine.scheduler();
    let (is_ready, earliest) = (scheduler.poller.is_ready(), processor.timers.earliest());
    if earliest == Instant::NEVER && !is_ready {
        return pinned;
    }
    let now = P::now();
    if earliest > now && !is_ready {
        // It has its interrupt.
        return pinned;
    }
    if processor.undisturbed_until() > now {
        processor.look_at_next_pick();
        P::arm_timer(&pinned, processor, processor.undisturbed_until());
        return pinned;
    }
    if me.is_locked() {
        // Its M runs no other G: the way is over g0.
        return leave_for_g0(pinned, me, Commit::new(requeue_global, 0));
    }
    let due = take_due(&pinned, processor, now);
    let next = due.or_else(|| {
        let any = scheduler.poll(&pinned);
        any.then(|| processor.pop_local()).flatten().map(|(goroutine, _)| goroutine)
    });
    await_next(&pinned, processor, now);
    match next {
        Some(next) => {
            processor.counters.displacements.add(1);
            processor.tracer.note::<P>(EventKind::Preempt, Some(me.id()), 0);
            let is_own_slice = processor.slice.displace(me, processor.tick(), now);
            // Its timer stands for it, unless that is still set for a wait that something else has ended.
            let is_in_turn = !is_own_slice && due.is_some() && !me.timer.is_armed();
            let commit = if is_in_turn { requeue_due } else { requeue_next };
            leave_for(Caller { pinned, machine, processor, me }, next, Commit::new(commit, 0))
        }
        None => pinned,
    }
}

/// Far side of the displacement of a G that displaced another before: it takes turns with the others whose timers are due.
/// (In `runnext` it would push that other one out, or be pushed out, to behind the whole ring.)
fn requeue_due<P: Platform>(pinned: Pinned<P>, goroutine: &'static Goroutine<P>, _: usize) -> Pinned<P> {
    goroutine.set_status(Status::Runnable);
    observe::runnable_again(pinned.processor(), goroutine);
    pinned.processor().timers.insert(P::now(), &goroutine.timer, Action::Resume(goroutine));
    pinned.machine().scheduler().submitted();
    pinned
}

/// Far side of a displacement: first in line.
pub(crate) fn requeue_next<P: Platform>(pinned: Pinned<P>, goroutine: &'static Goroutine<P>, _: usize) -> Pinned<P> {
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
