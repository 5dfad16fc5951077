//! Sampling: measures how long Gs are runnable before they run, at next to no cost for the Gs that are not sampled.
//!
//! A sampled G stores the time at which it became runnable. When it is resumed it takes a
//! [detour](crate::context::SavedContext::divert), which records the latency ([`crate::record::latency`]) and the
//! trace event ([`crate::record::trace`]). While a trace is taken, every G is sampled. Otherwise about one G in 122
//! is sampled: every second check of the global queue, and every second check of the slice, selects one more G. This
//! is the next G of the P that is spawned, or that parks and is then readied. Sleepers are not sampled, because the M
//! that finds their timer due runs them at once.

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
    /// Samples every G of `processor` if `all` is set, otherwise about one in 122.
    pub(crate) fn sample_all(&self, processor: &Processor<P>, all: bool) {
        processor.sampler.set_all(all);
        // This request is lost if the holder of the P executes a slow pick at the same time. If `all` is set, `running`
        // requests a slow pick again for the next sampled G of the P. Otherwise the next slow pick comes a little later,
        // which does no harm.
        processor.request_slow_pick();
    }
}

/// If every G is sampled, samples a G that gave way and is about to be enqueued again.
#[inline(always)]
pub(crate) fn runnable_again<P: Platform>(processor: &Processor<P>, goroutine: &Goroutine<P>) {
    if processor.sampler.samples_all() {
        stamp(goroutine);
    }
}

/// Samples `goroutine`, which becomes runnable now: stores the time, and makes the G take the detour when it is
/// resumed.
#[cold]
pub(crate) fn stamp<P: Platform>(goroutine: &Goroutine<P>) {
    goroutine.set_runnable_since(P::now());
    goroutine.context.divert::<Detour<P>>();
}

/// Records that a sampled G of `processor` becomes runnable, because its wait ends.
#[cold]
#[inline(never)]
pub(crate) fn readied<P: Platform>(
    machine: &'static Machine<P>,
    processor: &'static Processor<P>,
    goroutine: &'static Goroutine<P>,
) {
    let by = stamp_by(machine, processor, goroutine);
    processor.tracer.note::<P>(EventKind::Ready, Some(goroutine.id()), by);
}

/// Records that a sampled G of `processor`, which is new and executes `function`, becomes runnable.
#[cold]
#[inline(never)]
pub(crate) fn spawned<P: Platform>(
    machine: &'static Machine<P>,
    processor: &'static Processor<P>,
    goroutine: &'static Goroutine<P>,
    function: &'static str,
) {
    let by = stamp_by(machine, processor, goroutine);
    processor.tracer.note_birth(goroutine, by, function);
}

/// Stores the time at which a sampled G becomes runnable. Returns the number of the G that runs on `machine`, or 0 if
/// none does.
fn stamp_by<P: Platform>(
    machine: &'static Machine<P>,
    processor: &'static Processor<P>,
    goroutine: &'static Goroutine<P>,
) -> u64 {
    stamp(goroutine);
    processor.sampler.found();
    machine.current_goroutine().map_or(0, |by| by.id().get())
}

/// What a sampled G executes when it is resumed.
struct Detour<P>(PhantomData<P>);

impl<P: Platform> Visit for Detour<P> {
    extern "sysv64" fn visit(_: usize) {
        // The near side of the switch pinned this M, and the far side unpins it after this function. So this value must
        // not be dropped.
        let pinned = ManuallyDrop::new(Pinned::<P>::assume());
        running(pinned.processor(), pinned.goroutine());
    }
}

/// Records that a sampled G runs.
fn running<P: Platform>(processor: &'static Processor<P>, goroutine: &'static Goroutine<P>) {
    let latency = P::now() - goroutine.runnable_since();
    processor.latency.add(latency);
    processor.tracer.note::<P>(EventKind::Start, Some(goroutine.id()), latency.as_nanos() as u64);
    if processor.sampler.samples_all() {
        // When the G leaves, a slow pick follows, which records how the G left.
        processor.request_slow_pick();
    }
}
