//! Sampling: measures how long Gs are runnable before they run, at next to no cost for the Gs that are not sampled.
//!
//! A sampled G stores the time at which it became runnable, and gets a
//! [detour](crate::context::SavedContext::add_detour): when it is resumed, it first calls a function that records the
//! latency ([`crate::record::latency`]) and the trace event ([`crate::record::trace`]). While a trace is taken, every G
//! is sampled ([`Extent`]). Otherwise about one G in 122 is sampled: every second check of the global queue, and every
//! second check of the slice, selects one more G. The selected G is the next one that is spawned on the P of that
//! check, or that parks on this P and is readied later. A sleeper has a latency near zero if a pick finds its timer
//! due, because the M that finds the timer runs the G at once.

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

impl<Plat: Platform> Scheduler<Plat> {
    /// Determines which Gs of `processor` are sampled.
    pub(crate) fn sample(&self, processor: &Processor<Plat>, extent: Extent) {
        processor.sampler.set(extent);
        // The request for a slow pick is lost if the holder of the P executes a slow pick at the same time. If every G
        // is sampled, `running` requests another slow pick when the next sampled G of the P begins to run. Otherwise
        // the next slow pick comes a little later, which does no harm.
        if extent != Extent::Exact {
            processor.request_slow_pick();
        }
    }
}

/// If every G is sampled, samples a G that gave way and is about to be enqueued again.
#[inline(always)]
pub(crate) fn runnable_again<Plat: Platform>(processor: &Processor<Plat>, goroutine: &Goroutine<Plat>) {
    if processor.sampler.samples_all() {
        stamp(goroutine);
    }
}

/// Samples `goroutine`, which becomes runnable now: stores the time, and gives the G a detour, so that it calls
/// [`running`] when it is resumed.
#[cold]
fn stamp<Plat: Platform>(goroutine: &Goroutine<Plat>) {
    goroutine.set_runnable_since(Plat::now());
    goroutine.context.add_detour::<Detour<Plat>>();
}

/// If `goroutine` is sampled, records that it becomes runnable, because its wait ends. `here` is the calling M if this M
/// belongs to the scheduler of the G, otherwise `None`.
#[cold]
pub(crate) fn readied<Plat: Platform>(here: Option<&'static Machine<Plat>>, goroutine: &'static Goroutine<Plat>) {
    if !goroutine.is_waiting_sampled() {
        return;
    }
    stamp(goroutine);
    match here.and_then(Machine::processor) {
        Some(processor) => {
            processor.sampler.found();
            processor.tracer.note_ready(goroutine, caller(here));
        }
        None => goroutine.scheduler().note_ready_outside(goroutine, caller(here)),
    }
}

/// If a trace is taken, records that a new G becomes runnable. The caller holds no P, or is not an M of the G's
/// scheduler. `here` is the calling M if this M belongs to that scheduler, otherwise `None`.
pub(crate) fn spawned_outside<Plat: Platform>(
    here: Option<&'static Machine<Plat>>,
    goroutine: &'static Goroutine<Plat>,
) {
    if goroutine.scheduler().records_events() {
        stamp(goroutine);
        goroutine.scheduler().note_birth_outside(goroutine, caller(here));
    }
}

/// If a trace is taken, records that a G becomes runnable, because it returns from a system call on `machine` and finds
/// no P.
pub(crate) fn returned<Plat: Platform>(machine: &'static Machine<Plat>, goroutine: &'static Goroutine<Plat>) {
    let scheduler = machine.scheduler();
    if scheduler.records_events() {
        stamp(goroutine);
        scheduler.note_outside(EventKind::SyscallReturn, goroutine, machine.id().get().into());
    }
}

/// Returns the number of the G that runs on `machine`, or 0 if none does.
fn caller<Plat: Platform>(machine: Option<&'static Machine<Plat>>) -> u64 {
    machine.and_then(Machine::current_goroutine).map_or(0, |by| by.id().get())
}

/// If the next G that is spawned on `processor` is to be sampled, samples `goroutine`, which is new and becomes runnable.
#[inline(always)]
pub(crate) fn spawned<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    goroutine: &'static Goroutine<Plat>,
) {
    if processor.sampler.samples_next() {
        sample_new(machine, processor, goroutine);
    }
}

#[cold]
#[inline(never)]
fn sample_new<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    goroutine: &'static Goroutine<Plat>,
) {
    stamp(goroutine);
    processor.sampler.found();
    processor.tracer.note_birth(goroutine, caller(Some(machine)));
}

/// Contains the function that a sampled G calls when it is resumed.
struct Detour<Plat>(PhantomData<Plat>);

impl<Plat: Platform> Visit for Detour<Plat> {
    extern "sysv64" fn visit(_: usize) {
        // The near side of the switch pinned this M, and the far side unpins it after this function. So `pinned` must
        // not be dropped.
        let pinned = ManuallyDrop::new(Pinned::<Plat>::assume());
        let machine = pinned.machine();
        running(machine.held_processor(), machine.running_goroutine());
    }
}

/// Records that a sampled G begins to run.
fn running<Plat: Platform>(processor: &'static Processor<Plat>, goroutine: &'static Goroutine<Plat>) {
    let latency = Plat::now().as_nanos().saturating_sub(goroutine.runnable_since().as_nanos());
    processor.latency.add(latency);
    processor.tracer.note::<Plat>(EventKind::Start, Some(goroutine.id()), latency);
    if processor.sampler.wants_slow_picks() {
        // This request makes a slow pick follow when the G leaves. That pick records how the G left.
        processor.request_slow_pick();
    }
}
