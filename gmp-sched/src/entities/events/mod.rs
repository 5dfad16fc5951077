//! Recording events in the rings of a trace.

mod call_stacks;

use crate::base::atomic::Ordering;
use crate::base::id::GoroutineId;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;
use crate::record::trace::{Event, EventKind, PreemptReason};
use crate::record::trace_ring::{Ring, Tracer, details_of};

impl Tracer {
    /// Returns the ring into which events go, or `None` while no trace is taken. Without the feature `refinements` there
    /// are no traces.
    #[inline(always)]
    fn recording(&self) -> Option<&'static Ring> {
        // Ordering: Acquire, because the ring may be new. Partner: the Release in `begin`.
        if cfg!(feature = "refinements") { self.active.load(Ordering::Acquire) } else { None }
    }

    /// Records an event of the P that the caller holds. Costs one test while no trace is taken.
    #[inline(always)]
    pub(crate) fn note<Plat: Platform>(&self, kind: EventKind, goroutine: Option<GoroutineId>, detail: u64) {
        if let Some(ring) = self.recording() {
            write::<Plat>(ring, kind, goroutine, detail);
        }
    }

    /// Like [`note`](Self::note), for fast paths: `details` returns the G and the detail, and is called only if a trace
    /// is taken.
    #[inline(always)]
    pub(crate) fn note_with<Plat: Platform>(
        &self,
        kind: EventKind,
        details: impl FnOnce() -> (Option<GoroutineId>, u64),
    ) {
        if let Some(ring) = self.recording() {
            let (goroutine, detail) = details();
            write::<Plat>(ring, kind, goroutine, detail);
        }
    }

    /// Records the birth of `goroutine`: the number of its creator (`by`), its own name, if any, and the function that
    /// it executes.
    pub(crate) fn note_birth<Plat: Platform>(&self, goroutine: &Goroutine<Plat>, by: u64) {
        if let Some(ring) = self.recording() {
            write_birth(ring, goroutine, by);
        }
    }
}

/// How a G leaves its M.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leave {
    /// It parks.
    #[cfg_attr(gmp_loom, expect(dead_code, reason = "under loom a park switches no stacks"))]
    Park,
    /// It yields.
    Yield,
    /// It ends.
    End,
    /// It gives way, because it has to.
    GiveWay(PreemptReason),
    /// It switches to the other G of a coroutine, which has this id.
    #[cfg(feature = "extras")]
    Switch(GoroutineId),
    /// In a way that the caller records.
    Recorded,
}

impl<Plat: Platform> Machine<Plat> {
    /// Records how `me`, the G that runs on this M, leaves: for g0, or for `next`. A fast path, by which a G parks, yields
    /// or ends for another G, is recorded only in an exact trace: while any other trace is taken, g0 makes each pick.
    #[inline(always)]
    pub(crate) fn note_leave(&self, me: &Goroutine<Plat>, next: Option<&Goroutine<Plat>>, how: Leave) {
        let is_fast = next.is_some() && matches!(how, Leave::Park | Leave::Yield | Leave::End);
        if is_fast && !Plat::EXACT_TRACES || matches!(how, Leave::Recorded) {
            return;
        }
        let Some(processor) = self.processor() else { return };
        if processor.tracer.recording().is_some() && (!is_fast || processor.sampler.is_exact()) {
            // Passes two words instead of `how`, because each park, traced or not, would write `how` to memory to pass it.
            let (kind, detail) = match how {
                Leave::Park => (EventKind::Park, me.wait_reason() as u64),
                Leave::Yield => (EventKind::Yield, 0),
                Leave::End => (EventKind::End, 0),
                Leave::GiveWay(reason) => (EventKind::Preempt, reason as u64),
                #[cfg(feature = "extras")]
                Leave::Switch(next) => (EventKind::Switch, next.get()),
                Leave::Recorded => return,
            };
            write_leave(processor, me, kind, detail);
        }
    }
}

#[cold]
#[inline(never)]
fn write_leave<Plat: Platform>(processor: &Processor<Plat>, me: &Goroutine<Plat>, kind: EventKind, detail: u64) {
    processor.tracer.note::<Plat>(kind, Some(me.id()), detail);
}

fn write_birth<Plat: Platform>(ring: &Ring, goroutine: &Goroutine<Plat>, by: u64) {
    let (when, id) = (Plat::now(), Some(goroutine.id()));
    let write = |kind, detail| ring.write(Event { when, kind, goroutine: id, detail });
    write_event::<Plat>(ring, Event { when, kind: EventKind::Spawn, goroutine: id, detail: by });
    if let Some(functions) = goroutine.body_functions.load(Ordering::Relaxed) {
        write(EventKind::Function, ring.number_of((functions.name)(), when));
    }
    if let Some(name) = goroutine.name() {
        details_of(name.as_str()).for_each(|detail| write(EventKind::Name, detail));
    }
}

impl Tracer {
    /// Records that the wait of `goroutine` ends. `by` is the number of the calling G, or 0 if there is none.
    #[inline(always)]
    pub(crate) fn note_ready<Plat: Platform>(&self, goroutine: &Goroutine<Plat>, by: u64) {
        if let Some(ring) = self.recording() {
            call_stacks::write_ready(ring, goroutine, by);
        }
    }
}

/// Events of callers that hold no P, and of interrupt handlers. Each of these functions except `note_raise` and
/// `records_events` takes a lock if a trace is being taken, and only then, and is not callable from interrupts.
impl<Plat: Platform> Scheduler<Plat> {
    /// Records an event of `goroutine`.
    #[cold]
    pub(crate) fn note_outside(&self, kind: EventKind, goroutine: &Goroutine<Plat>, detail: u64) {
        self.write_outside(|ring| write::<Plat>(ring, kind, Some(goroutine.id()), detail));
    }

    /// Records that the wait of `goroutine` ends, as [`Tracer::note_ready`] does.
    #[cold]
    pub(crate) fn note_ready_outside(&self, goroutine: &Goroutine<Plat>, by: u64) {
        self.write_outside(|ring| call_stacks::write_ready(ring, goroutine, by));
    }

    /// Records the birth of a G, as [`Tracer::note_birth`] does.
    #[cold]
    pub(crate) fn note_birth_outside(&self, goroutine: &Goroutine<Plat>, by: u64) {
        self.write_outside(|ring| write_birth(ring, goroutine, by));
    }

    fn write_outside(&self, write: impl FnOnce(&Ring)) {
        if let Some(ring) = self.outside.tracer.recording() {
            // The clock is read under the lock, so that the times of the events ascend.
            let _writer = self.outside.writer.lock();
            write(ring);
        }
    }

    /// Whether events are recorded in a trace or shown to the platform.
    #[inline(always)]
    pub(crate) fn records_events(&self) -> bool {
        self.outside.tracer.recording().is_some()
    }

    /// Records that the signal for which `goroutine` waits is raised. Callable from interrupts. Does nothing if the
    /// platform has no CPUs.
    #[inline(always)]
    pub(crate) fn note_raise(&self, goroutine: GoroutineId) {
        if self.records_events() {
            Plat::with_cpu_tracer(|cpu| cpu.note(EventKind::Raise, Plat::now(), Some(goroutine), 0));
        }
    }
}

#[cold]
#[inline(never)]
fn write<Plat: Platform>(ring: &Ring, kind: EventKind, goroutine: Option<GoroutineId>, detail: u64) {
    let when = Plat::now();
    write_event::<Plat>(ring, Event { when, kind, goroutine, detail });
    if kind == EventKind::Park && ring.records_call_stacks() {
        call_stacks::write_park::<Plat>(ring, when);
    }
}

/// Records an event of a G or a P, or shows it to the platform if `ring` is that of an observer.
pub(super) fn write_event<Plat: Platform>(ring: &Ring, event: Event) {
    match ring.observer {
        None => ring.write(event),
        Some((number, track)) => Plat::observe(number, track, event),
    }
}
