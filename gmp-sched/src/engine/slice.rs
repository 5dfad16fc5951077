//! Time slices: how long the G on a P may run while others wait.
//!
//! An ordinary switch measures no time: it arms no timer and reads no clock. While a CPU runs a thread, the timer of
//! the CPU fires at least once per slice length. Its interrupt handler compares the P's tick, which counts slices, with
//! the tick that it saw last time. If the two are equal, the same slice has lasted since then. (In Go, sysmon makes
//! this comparison, on a thread of its own: `retake`.)
//!
//! So a slice lasts between one and three times its length before its G is preempted. The handler may see the G's slice
//! for the first time only after one slice length, and the measured time begins at that moment. The handler may run
//! again just before the measured slice is over, and ends the slice only when it runs the next time. An idle CPU has no
//! timer tick.
//!
//! If a G shares a slice, because it was in `runnext` or has displaced another G, the slice may be prolonged, once in
//! each tick of the P. When the slice ends again, the G in `runnext` goes to the tail of the ring. A prolongation adds
//! at most two slice lengths, because its measured time begins at once. So a tick of the P lasts at most five slice
//! lengths (three plus two) while other Gs wait; `sim::slices` checks this bound.
//!
//! A slice continues during a system call. If the slice ends during the call, the G gives way when the call ends,
//! unless sysmon has taken the P before. Where there are no timer interrupts ([`Platform::TIMER_INTERRUPTS`]), sysmon
//! checks in place of the handler. There a slice that is over ends when the G leaves or returns from a system call: see
//! [`end_inherited_slice`] and [`begin_next_slice`].

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::enqueue::{put_last, put_next_last};
use crate::engine::steal::steal_at_once;
use crate::entities::current_slice::NONE;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

impl<Plat: Platform> Processor<Plat> {
    /// Ends the current slice if it has lasted too long. `running` is the G that runs in that slice, if known.
    pub(crate) fn check_slice(&self, now: Instant, running: Option<&'static Goroutine<Plat>>) {
        self.set_clock(now);
        self.sampler.advance();
        let (slice, tick) = (&self.slice, self.tick());
        if slice.seen.load(Ordering::Relaxed) != tick {
            slice.begin(tick, now);
        } else if now - Instant::from_nanos(slice.since.load(Ordering::Relaxed)) >= Plat::slice() {
            let undisturbed_since = Instant::from_nanos(slice.undisturbed_since.load(Ordering::Relaxed));
            // If the running G displaced another G less than a slice ago, the slice may be prolonged once, so that
            // the time of the running G counts from the displacement.
            let has_just_begun =
                running.is_some_and(|running| slice.is_of_another(running)) && now - undisturbed_since < Plat::slice();
            if !(has_just_begun && slice.prolong(tick, undisturbed_since)) {
                self.end_slice();
            }
        }
    }

    /// Ends the current slice, so that its G is preempted at the next point where the G can be switched out.
    pub(crate) fn end_slice(&self) {
        self.slice.ends.store(self.tick(), Ordering::Relaxed);
        if !Plat::TIMER_INTERRUPTS {
            // If the holder of the P begins a slow pick at the same time, the request may be lost. In that case sysmon
            // repeats it.
            self.request_slow_pick();
        }
    }

    /// Clears the mark that the current slice is over.
    pub(crate) fn forget_slice(&self) {
        self.slice.ends.store(NONE, Ordering::Relaxed);
    }

    /// Records that a G whose timer was due is to run. This G shares the current slice if a displaced G is to
    /// continue that slice. Otherwise it begins a slice of its own.
    pub(crate) fn begin_due(&self) {
        let is_shared = self.slice.seen.load(Ordering::Relaxed) == self.tick()
            && self.slice.owner.load(Ordering::Relaxed).is_some();
        if !is_shared {
            self.advance_tick();
            self.slice.of_due.store(self.tick(), Ordering::Relaxed);
        }
        self.due_batch_tick.store(self.tick(), Ordering::Relaxed);
    }

    /// Whether `goroutine` was displaced and is to continue the current slice. `false` if this slice began with a G
    /// whose timer was due.
    pub(crate) fn is_displaced(&self, goroutine: &'static Goroutine<Plat>) -> bool {
        let (slice, tick) = (&self.slice, self.tick());
        slice.seen.load(Ordering::Relaxed) == tick
            && slice.of_due.load(Ordering::Relaxed) != tick
            && slice.owner.load(Ordering::Relaxed).is_some_and(|owner| core::ptr::eq(owner, goroutine))
    }

    /// Called when the running G has used up the slice. The G in `runnext` runs in a prolongation of the slice if the
    /// slice has not been prolonged before. Otherwise that G goes to the tail of the ring, and the first G of the ring
    /// begins the next slice.
    pub(crate) fn pass_slice_on(&'static self, scheduler: &'static Scheduler<Plat>) {
        let (tick, now) = (self.tick(), Plat::now());
        if self.queue.next().is_some() && self.slice.prolong(tick, now) {
            self.slice.owner.store(None, Ordering::Relaxed);
        } else {
            put_next_last(scheduler, self);
            // The next pick from a queue advances the tick.
            self.slice.begin(tick + 1, now);
        }
        // The mark that the slice is over is cleared last, because the timer's interrupt handler may set it again until
        // the code above has changed the slice.
        self.forget_slice();
    }

    /// Returns the time until which no other G may displace the running G.
    pub(crate) fn undisturbed_until(&self) -> Instant {
        Instant::from_nanos(self.slice.undisturbed_since.load(Ordering::Relaxed)) + Plat::undisturbed()
    }

    /// Whether the current slice is over. From another M the answer may be stale.
    #[inline(always)]
    pub(crate) fn is_slice_over(&self) -> bool {
        self.slice.ends.load(Ordering::Relaxed) == self.tick()
    }
}

/// Called when a G leaves for g0, because a slow pick is requested. On platforms on which interrupts preempt Gs, does
/// nothing. On other platforms, if the slice of the leaving G is over, the G in `runnext` does not inherit that slice,
/// but goes to the tail of the ring. So the Gs of the ring run first, as after a preemption. If the ring is empty, Gs
/// are stolen from another P before that. Then g0 calls [`begin_next_slice`].
#[inline(always)]
pub(crate) fn end_inherited_slice<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) {
    if !Plat::TIMER_INTERRUPTS && processor.is_slice_over() {
        put_runnext_last(pinned, processor);
    }
}

/// Called on g0 before each pick. On platforms on which interrupts preempt Gs, does nothing. On other platforms, if the
/// slice of the G that has left is over, begins a new slice: the G in `runnext`, if there is one, goes to the tail of
/// the ring, the mark that the slice is over is cleared, and the pick checks the global queue before the local one. (If
/// [`end_inherited_slice`] has stolen Gs, the theft has begun a new slice already.)
///
/// A G may be in `runnext` although [`end_inherited_slice`] has emptied it, because the commit of the leaving G may
/// have readied a G. If that G inherited the slice, two Gs that ready each other in their commits would starve the
/// ring.
#[inline(always)]
pub(crate) fn begin_next_slice<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) {
    if !Plat::TIMER_INTERRUPTS && processor.is_slice_over() {
        if processor.queue.next().is_some() {
            put_runnext_last(pinned, processor);
        }
        processor.forget_slice();
        processor.request_global_check();
    }
}

/// Puts the G in `runnext` at the tail of the ring, because the slice is over. The leaving G may hold locks that its
/// commit releases on the far side. This function takes none of these locks.
#[cold]
#[inline(never)]
fn put_runnext_last<Plat: Platform>(pinned: &Pinned<Plat>, processor: &'static Processor<Plat>) {
    let scheduler = pinned.machine().scheduler();
    if processor.queue_length() == 0
        && let Some(stolen) = steal_at_once(pinned, processor)
    {
        processor.tracer.note::<Plat>(EventKind::Kick, Some(stolen.id()), 0);
        put_last(scheduler, processor, stolen);
    }
    if put_next_last(scheduler, processor) {
        processor.counters.preemptions.add(1);
    }
}
