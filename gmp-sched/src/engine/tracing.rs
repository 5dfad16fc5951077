//! Taking a trace: starting it, stopping it, and recording events.

use alloc::vec::Vec;

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::base::id::GoroutineId;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;
use crate::record::trace::{Event, EventKind, Ring, Tracer};

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

#[cold]
#[inline(never)]
fn write<P: Platform>(ring: &Ring, kind: EventKind, goroutine: Option<GoroutineId>, detail: u64) {
    ring.write(Event { when: P::now(), kind, goroutine, detail });
}

impl<P: Platform> Scheduler<P> {
    /// Starts to record the events of each P and keeps the last `capacity` of them. If a trace was taken before, its
    /// rings are used again, with the capacity that they already have. The rings are never freed.
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
                let mut allocation = Vec::new();
                allocation.try_reserve_exact(1).map_err(|_| OutOfResources)?;
                allocation.push(Ring::new(capacity)?);
                let ring: &'static Ring = &allocation.leak()[0];
                // If another G has stored its ring first, that ring is used, and this one is leaked.
                processor.tracer.ring.replace(None, Some(ring), Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        for processor in self.processors() {
            let ring = processor.tracer.ring.load(Ordering::Acquire);
            if let Some(ring) = ring {
                ring.start.store(ring.written.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            // Ordering: Release publishes the ring to the holder of the P.
            processor.tracer.active.store(ring, Ordering::Release);
            self.sample_all(processor, true);
        }
        Ok(())
    }

    /// Ends the trace that [`start_trace`](Self::start_trace) began. The recorded events stay readable.
    pub fn stop_trace(&'static self) {
        for processor in self.processors() {
            self.sample_all(processor, false);
            processor.tracer.active.store(None, Ordering::Relaxed);
        }
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
        self.tracer.ring.load(Ordering::Acquire).map_or_else(Vec::new, Ring::read)
    }
}
