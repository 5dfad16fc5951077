//! Taking a trace: starting it, stopping it, and recording events.

use alloc::vec::Vec;

use crate::base::atomic::{AtomicU64, Ordering};
use crate::base::error::OutOfResources;
use crate::base::id::{GoroutineId, MachineId, ProcessorId};
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};
use crate::record::trace::{Event, EventKind, memory};
use crate::record::trace_ring::{Ring, Tracer, details_of};

impl Tracer {
    /// Records an event of the P that the caller holds. Costs one test while no trace is taken.
    #[inline(always)]
    pub(crate) fn note<P: Platform>(&self, kind: EventKind, goroutine: Option<GoroutineId>, detail: u64) {
        // Ordering: Acquire, because the ring may be new. Partner: the Release in `start_trace`.
        if let Some(ring) = self.active.load(Ordering::Acquire) {
            write::<P>(ring, kind, goroutine, detail);
        }
    }
}

impl Tracer {
    /// Like [`note`](Self::note), for fast paths: `details` returns the G and the detail, and is called only if a trace
    /// is taken.
    #[inline(always)]
    pub(crate) fn note_with<P: Platform>(&self, kind: EventKind, details: impl FnOnce() -> (Option<GoroutineId>, u64)) {
        if let Some(ring) = self.active.load(Ordering::Acquire) {
            let (goroutine, detail) = details();
            write::<P>(ring, kind, goroutine, detail);
        }
    }

    /// Records that an M takes an idle P, to run Gs or to search for them.
    pub(crate) fn note_busy<P: Platform>(&self, machine: MachineId, searches: bool) {
        self.note::<P>(EventKind::Busy, None, machine.get().into());
        if searches {
            self.note::<P>(EventKind::Spin, None, 0);
        }
    }

    /// Records the birth of a G: the G that spawned it, its name, and the function that it executes. `function` is
    /// empty if it is unknown.
    pub(crate) fn note_birth<P: Platform>(&self, goroutine: &Goroutine<P>, by: u64, function: &'static str) {
        let Some(ring) = self.active.load(Ordering::Acquire) else { return };
        let (when, id) = (P::now(), Some(goroutine.id()));
        let write = |kind, detail| ring.write(Event { when, kind, goroutine: id, detail });
        write(EventKind::Spawn, by);
        if !function.is_empty() {
            write(EventKind::Function, ring.number_of(function, when));
        }
        if let Some(name) = goroutine.name() {
            details_of(name.as_str()).for_each(|detail| write(EventKind::Name, detail));
        }
    }
}

/// The events of one P, and how many events of the P were lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessorTrace {
    /// The P.
    pub processor: ProcessorId,
    /// The events that have not been overwritten, oldest first.
    pub events: Vec<Event>,
    /// How many older events were overwritten since the trace was started.
    pub lost: u64,
}

#[cold]
#[inline(never)]
fn write<P: Platform>(ring: &Ring, kind: EventKind, goroutine: Option<GoroutineId>, detail: u64) {
    ring.write(Event { when: P::now(), kind, goroutine, detail });
}

impl<P: Platform> Scheduler<P> {
    /// Starts to record the events of each P and keeps the last `capacity` of them. If a trace was taken before in the
    /// same run of the scheduler, its rings are used again, with the capacity that they already have. The rings are
    /// never freed.
    ///
    /// While a trace is taken, every operation takes longer, but Gs run in the same order.
    ///
    /// # Errors
    ///
    /// There is no memory for the rings.
    ///
    /// # Panics
    ///
    /// `capacity` is 0.
    #[track_caller]
    pub fn start_trace(&'static self, capacity: usize) -> Result<(), OutOfResources> {
        assert!(capacity > 0, "a trace of no events");
        for processor in self.processors() {
            processor.tracer.forget_last_run(capacity);
            if processor.tracer.ring.load(Ordering::Acquire).is_none() {
                // If another G has stored its ring first, the P uses that ring, and the ring made here is leaked.
                let ring = Some(Ring::allocate(capacity)?);
                processor.tracer.ring.replace(None, ring, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        self.begin_trace();
        Ok(())
    }

    /// Like [`start_trace`](Self::start_trace), but the rings are in `memory`, which another program may read meanwhile
    /// or when this program has ended. Each P gets a ring of the same size. The layout is described in
    /// [`trace::memory`](crate::trace::memory). The rings replace those of earlier traces, and later traces use them
    /// again. A P that [`set_procs`](crate::procs::set_procs) adds later has no ring. The trace ends with the run of the
    /// scheduler.
    ///
    /// ```
    /// use gmp_sched::native;
    /// use gmp_sched::trace::memory::{HEADER_WORDS, MAGIC};
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let memory: &'static [AtomicU64] = (0..1000).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    /// unsafe { native::enter() }.run_with(1, move |scheduler| {
    ///     scheduler.start_trace_in(memory).unwrap();
    ///     native::go(|| ()).join().unwrap();
    ///     scheduler.stop_trace();
    ///     assert!(scheduler.is_tracing(), "the other program still reads");
    /// });
    /// assert_eq!(memory[0].load(Ordering::Relaxed), MAGIC);
    /// let events = memory[HEADER_WORDS + 1].load(Ordering::Relaxed);
    /// assert!(events > 5, "{events} events were written");
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory on the heap for the descriptions of the rings.
    ///
    /// # Panics
    ///
    /// `memory` has no room for one event of each P.
    #[track_caller]
    pub fn start_trace_in(&'static self, memory: &'static [AtomicU64]) -> Result<(), OutOfResources> {
        let (header, rings) = memory.split_at_checked(memory::HEADER_WORDS).expect("the memory has a header");
        let words = rings.len() / self.procs();
        for (processor, part) in self.processors().iter().zip(rings.chunks_exact(words.max(1))) {
            processor.tracer.ring.store(Some(Ring::over(part, true)?), Ordering::Release);
        }
        header[1].store(self.procs() as u64, Ordering::Relaxed);
        header[2].store(words as u64, Ordering::Relaxed);
        // Ordering: Release publishes the rest of the header and the empty rings to the other program, which loads this
        // word first.
        header[0].store(memory::MAGIC, Ordering::Release);
        self.begin_trace();
        Ok(())
    }

    /// Starts to record events in the rings of all Ps that have one.
    fn begin_trace(&'static self) {
        let pinned = Pinned::<P>::new();
        for processor in self.processors() {
            let ring = processor.tracer.ring.load(Ordering::Acquire);
            if let Some(ring) = ring {
                ring.restart();
            }
            // Ordering: Release publishes the ring to the holder of the P. Partner: the Acquire in `note`.
            processor.tracer.active.store(ring, Ordering::Release);
            self.sample_all(processor, true);
        }
        // Records that the caller runs, because it began to run before the trace.
        if let Some(machine) = pinned.try_machine().filter(|machine| core::ptr::eq(machine.scheduler(), self))
            && let (Some(goroutine), Some(processor)) = (machine.current_goroutine(), machine.processor())
        {
            processor.tracer.note::<P>(EventKind::Busy, None, machine.id().get().into());
            processor.tracer.note::<P>(EventKind::Start, Some(goroutine.id()), 0);
        }
    }

    /// Ends the trace that [`start_trace`](Self::start_trace) began. The recorded events stay readable. A trace in shared
    /// memory ([`start_trace_in`](Self::start_trace_in)) continues.
    pub fn stop_trace(&'static self) {
        let shared = |processor: &Processor<P>| {
            processor.tracer.active.load(Ordering::Acquire).is_some_and(|ring| ring.is_shared)
        };
        for processor in self.processors().iter().filter(|processor| !shared(processor)) {
            self.sample_all(processor, false);
            processor.tracer.active.store(None, Ordering::Relaxed);
        }
    }

    /// Returns the events of each P since the trace was started. There are none if no trace was ever started.
    /// Allocates.
    #[must_use]
    pub fn traces(&'static self) -> Vec<ProcessorTrace> {
        let read = |processor: &Processor<P>| {
            let (events, lost) =
                processor.tracer.ring.load(Ordering::Acquire).map_or_else(Default::default, Ring::read);
            ProcessorTrace { processor: processor.id(), events, lost }
        };
        self.processors().iter().map(read).collect()
    }

    /// Whether a trace is being taken.
    #[must_use]
    pub fn is_tracing(&'static self) -> bool {
        self.processors().iter().any(|processor| processor.tracer.active.load(Ordering::Relaxed).is_some())
    }
}

impl<P: Platform> Processor<P> {
    /// The last events of this P since the trace was started, oldest first; empty if no trace was ever started.
    /// Allocates.
    #[must_use]
    pub fn trace(&self) -> Vec<Event> {
        self.tracer.ring.load(Ordering::Acquire).map_or_else(Vec::new, |ring| ring.read().0)
    }
}
