//! Sampling: measures how long Gs are runnable before they run, at next to no cost for the Gs that are not sampled.
//!
//! A sampled G stores the time at which it became runnable, and is [diverted](crate::context::SavedContext::divert):
//! when it is resumed, it first calls a function that records the latency ([`crate::record::latency`]) and the trace
//! event ([`crate::record::trace`]). While a trace is taken, every G is sampled ([`Extent`]). Otherwise about one G in
//! 122 is sampled: every second check of the global queue, and every second check of the slice, selects one more G. The
//! selected G is the next one that is spawned on the P of that check, or that parks on this P and is readied later.
//! Sleepers are not sampled, because the M that finds their timer due runs them at once.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use crate::context::Visit;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::sampler::Extent;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

impl<P: Platform> Scheduler<P> {
    /// Determines which Gs of `processor` are sampled.
    pub(crate) fn sample(&self, processor: &Processor<P>, extent: Extent) {
        processor.sampler.set(extent);
        // The request for a slow pick is lost if the holder of the P executes a slow pick at the same time. If every G
        // is sampled, `running` requests another slow pick when the next sampled G of the P begins to run. Otherwise
        // the next slow pick comes a little later, which does no harm.
        if extent != Extent::Exact {
            processor.request_slow_pick();
        }
    }
}

/// Whether a fast path on `processor` has to record how a G leaves. Costs nothing on platforms without exact traces.
#[inline(always)]
pub(crate) fn is_exact<P: Platform>(processor: &Processor<P>) -> bool {
    P::EXACT_TRACES && processor.sampler.is_exact()
}

/// If every G is sampled, samples a G that gave way and is about to be enqueued again.
#[inline(always)]
pub(crate) fn runnable_again<P: Platform>(processor: &Processor<P>, goroutine: &Goroutine<P>) {
    if processor.sampler.samples_all() {
        stamp(goroutine);
    }
}

/// Samples `goroutine`, which becomes runnable now: stores the time, and diverts the G, so that [`running`] is called
/// when the G is resumed.
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
    processor.tracer.note_ready(goroutine, by);
}

/// Records that a sampled G becomes runnable, because its wait ends. The caller holds no P, or is not an M of the G's
/// scheduler. `here` is the calling M if this M belongs to that scheduler, otherwise `None`.
#[cold]
#[inline(never)]
pub(crate) fn readied_outside<P: Platform>(here: Option<&'static Machine<P>>, goroutine: &'static Goroutine<P>) {
    stamp(goroutine);
    goroutine.scheduler().note_ready_outside(goroutine, caller(here));
}

/// If a trace is taken, records that a new G, which executes `function`, becomes runnable. The caller holds no P, or is
/// not an M of the G's scheduler. `here` is the calling M if this M belongs to that scheduler, otherwise `None`.
pub(crate) fn spawned_outside<P: Platform>(
    here: Option<&'static Machine<P>>,
    goroutine: &'static Goroutine<P>,
    function: &'static str,
) {
    if goroutine.scheduler().is_tracing() {
        stamp(goroutine);
        goroutine.scheduler().note_birth_outside(goroutine, caller(here), function);
    }
}

/// If a trace is taken, records that a G becomes runnable, because it returns from a system call on `machine` and finds
/// no P.
pub(crate) fn returned<P: Platform>(machine: &'static Machine<P>, goroutine: &'static Goroutine<P>) {
    let scheduler = machine.scheduler();
    if scheduler.is_tracing() {
        stamp(goroutine);
        scheduler.note_outside(EventKind::SyscallReturn, goroutine, machine.id().get().into());
    }
}

/// Returns the number of the G that runs on `machine`, or 0 if none does.
fn caller<P: Platform>(machine: Option<&'static Machine<P>>) -> u64 {
    machine.and_then(Machine::current_goroutine).map_or(0, |by| by.id().get())
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
    caller(Some(machine))
}

/// Contains the function that a sampled G calls when it is resumed.
struct Detour<P>(PhantomData<P>);

impl<P: Platform> Visit for Detour<P> {
    extern "sysv64" fn visit(_: usize) {
        // The near side of the switch pinned this M, and the far side unpins it after this function. So `pinned` must
        // not be dropped.
        let pinned = ManuallyDrop::new(Pinned::<P>::assume());
        running(pinned.processor(), pinned.goroutine());
    }
}

/// Records that a sampled G begins to run.
fn running<P: Platform>(processor: &'static Processor<P>, goroutine: &'static Goroutine<P>) {
    let latency = P::now() - goroutine.runnable_since();
    processor.latency.add(latency);
    processor.tracer.note::<P>(EventKind::Start, Some(goroutine.id()), latency.as_nanos() as u64);
    if processor.sampler.wants_slow_picks() {
        // This request makes a slow pick follow when the G leaves. That pick records how the G left.
        processor.request_slow_pick();
    }
}
