//! Watching Gs become runnable and run, at next to no cost for those that are not watched.
//!
//! A G that is watched carries a stamp, the time at which it became runnable, and when it is resumed it makes a
//! [detour](crate::context::SavedContext::divert), on which it notes what there is to note; see [`crate::record::latency`] and
//! [`crate::record::trace`]. While a trace is taken every G is watched. Else it is the next that is spawned, or parks and becomes
//! runnable, after every other turn of the global queue (that is, about one in 122) and every other look at the slice; but
//! none that sleeps, for whoever wakes it runs it.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use crate::context::Visit;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

impl<P: Platform> Scheduler<P> {
    /// Has every G of `processor` watched, or only a sample.
    pub(crate) fn observe_all(&self, processor: &Processor<P>, all: bool) {
        processor.watch.set_all(all);
        // Should that be lost, the next G of that P that is watched says it again.
        processor.request_slow_pick();
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
        processor.request_slow_pick();
    }
}
