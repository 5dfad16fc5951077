//! Watching Gs become runnable and run, at next to no cost for those that are not watched.
//!
//! A G that is watched carries a stamp, the time at which it became runnable, and when it is resumed it makes a
//! [detour](crate::context::SavedContext::divert), on which it notes what there is to note; see [`crate::record::latency`] and
//! [`crate::record::trace`]. While a trace is taken every G is watched. Else it is the next that is spawned, or parks and becomes
//! runnable, after every other turn of the global queue (that is, about one in 122) and every other look at the slice; but
//! none that sleeps, for whoever wakes it runs it.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use crate::base::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::context::Visit;
use crate::entities::goroutine::{Goroutine, ParkedStatus};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// Which Gs of a P are watched.
#[derive(Debug)]
pub(crate) struct Watch {
    /// What Gs that park here get as their status: a [`ParkedStatus`].
    parked: AtomicU32,
    all: AtomicBool,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { parked: AtomicU32::new(0), all: AtomicBool::new(false) }
    }

    /// The P is one of `scheduler`. To be said once, before it is used.
    pub(crate) fn belong_to<P: Platform>(&self, scheduler: &Scheduler<P>) {
        self.set_parked_status(ParkedStatus::unwatched(scheduler.number()));
    }

    /// The status of a G that parks here.
    #[inline(always)]
    pub(crate) fn parked_status(&self) -> ParkedStatus {
        ParkedStatus::from_bits(self.parked.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn set_parked_status(&self, status: ParkedStatus) {
        self.parked.store(status.to_bits(), Ordering::Relaxed);
    }

    /// The status of a parked G of this P's scheduler of which nothing has to be noted when it becomes runnable.
    #[inline(always)]
    pub(crate) fn unwatched(&self) -> ParkedStatus {
        self.parked_status().without_watch()
    }

    /// Whether a G that is spawned here is watched.
    #[inline(always)]
    pub(crate) fn wants_next(&self) -> bool {
        self.parked_status().is_watched()
    }

    /// Whether every G is.
    #[inline(always)]
    pub(crate) fn wants_all(&self) -> bool {
        self.all.load(Ordering::Relaxed)
    }

    /// Some time has gone by: begins to watch for the next G, or ends it, if that G became runnable on another P and this
    /// one has not heard of it. Inlined: a call here would make every yield save registers.
    #[inline(always)]
    pub(crate) fn take_turn(&self) {
        let next =
            if self.wants_all() || !self.wants_next() { self.parked_status().watched() } else { self.unwatched() };
        self.set_parked_status(next);
    }

    /// One has been found.
    fn found(&self) {
        if !self.wants_all() {
            self.set_parked_status(self.unwatched());
        }
    }

    fn set_all(&self, all: bool) {
        self.all.store(all, Ordering::Relaxed);
        self.set_parked_status(if all { self.parked_status().watched() } else { self.unwatched() });
    }
}

impl<P: Platform> Scheduler<P> {
    /// Has every G of `processor` watched, or only a sample.
    pub(crate) fn observe_all(&self, processor: &Processor<P>, all: bool) {
        processor.watch.set_all(all);
        self.choose_requeue(processor);
        // Should that be lost, the next G of that P that is watched says it again.
        processor.look_at_next_pick();
    }
}

/// The calling side of a G that gave way and is about to be put on a queue again.
#[inline(always)]
pub(crate) fn runnable_again<P: Platform>(processor: &Processor<P>, goroutine: &Goroutine<P>) {
    if processor.watch.wants_all() {
        stamp(goroutine);
    }
}

#[cold]
pub(crate) fn stamp<P: Platform>(goroutine: &Goroutine<P>) {
    goroutine.set_runnable_since(P::now());
    goroutine.context.divert::<Detour<P>>();
}

/// A G of `processor` that is watched becomes runnable.
#[cold]
#[inline(never)]
pub(crate) fn runnable<P: Platform>(
    machine: &'static Machine<P>,
    processor: &'static Processor<P>,
    goroutine: &'static Goroutine<P>,
    kind: EventKind,
) {
    stamp(goroutine);
    processor.watch.found();
    let by = machine.current_goroutine().map_or(0, |by| by.id().get());
    processor.tracer.note::<P>(kind, Some(goroutine.id()), by);
}

/// What a G that is watched does before it goes on.
struct Detour<P>(PhantomData<P>);

impl<P: Platform> Visit for Detour<P> {
    extern "sysv64" fn visit(_: usize) {
        // The pin was raised by whoever left, and is not ours to lower.
        let pinned = ManuallyDrop::new(Pinned::<P>::assume());
        running(pinned.processor(), pinned.goroutine());
    }
}

/// A G that is watched runs.
fn running<P: Platform>(processor: &'static Processor<P>, goroutine: &'static Goroutine<P>) {
    processor.latency.add(P::now().since(goroutine.runnable_since()));
    processor.tracer.note::<P>(EventKind::Start, Some(goroutine.id()), 0);
    if processor.watch.wants_all() {
        // Where it tells how it leaves.
        processor.look_at_next_pick();
    }
}
