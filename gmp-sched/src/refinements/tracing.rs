//! Taking a trace: starting it, stopping it, and reading what was recorded. The module `entities::events` records
//! events.

use alloc::vec::Vec;
use core::iter;

use crate::base::atomic::{AtomicU64, Ordering};
use crate::base::error::OutOfResources;
use crate::base::points::Site;
use crate::entities::processor::Processor;
use crate::entities::sampler::Extent;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};
use crate::record::trace::{Event, EventKind, Track, TrackTrace};
use crate::record::trace_memory as memory;
use crate::record::trace_ring::{Ring, Tracer};
use crate::record::trace_until::Until;

/// Returns how large the ring of a track in shared memory is, in relation to the other rings. Most events happen on Ps.
fn weight(track: Track) -> usize {
    match track {
        Track::Processor(_) => 4,
        Track::Cpu(_) | Track::Outside => 1,
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Starts to record events, and keeps the last `capacity` events of each track. There is a track for each P, for
    /// each CPU if the platform has CPUs, and one for all callers without a P. If a trace was taken before in the same
    /// run of the scheduler, its rings are used again, with the capacity that they already have. The rings are never
    /// freed. A P that [`set_procs`](crate::procs::set_procs) adds during the trace gets a track, too.
    ///
    /// While a trace is taken, operations take longer, and every pick is a slow one. The next G is chosen by the same
    /// rules.
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
        self.make_rings(capacity)?;
        self.begin_trace(Extent::All, false);
        Ok(())
    }

    /// Like [`start_trace`](Self::start_trace), but also records call stacks, for a [profile](crate::trace#profiles).
    /// [`stop_trace`](Self::stop_trace) ends a profile, too.
    ///
    /// # Errors
    ///
    /// There is no memory for the rings.
    ///
    /// # Panics
    ///
    /// `capacity` is 0.
    #[track_caller]
    pub fn start_profile(&'static self, capacity: usize) -> Result<(), OutOfResources> {
        assert!(capacity > 0, "a profile of no events");
        self.make_rings(capacity)?;
        self.begin_trace(Extent::All, true);
        Ok(())
    }

    /// Like [`start_trace`](Self::start_trace), but the scheduler takes exactly the same steps as without a trace.
    /// Called before the scheduler starts, on a platform with [`EXACT_TRACES`](Platform::EXACT_TRACES).
    #[cfg(feature = "std")]
    pub(crate) fn start_exact_trace(&'static self, capacity: usize) -> Result<(), OutOfResources> {
        self.make_rings(capacity)?;
        self.begin_trace(Extent::Exact, false);
        Ok(())
    }

    /// Shows the events of Gs and Ps to [`Platform::observe`] from now on, until a trace is taken. `ring_of` returns
    /// the [ring of an observer](Ring::observer). Otherwise like [`start_exact_trace`](Self::start_exact_trace).
    #[cfg(feature = "std")]
    pub(crate) fn start_observation(&'static self, ring_of: impl Fn(Track) -> &'static Ring) {
        for (track, tracer) in self.tracers().filter(|(track, _)| !matches!(track, Track::Cpu(_))) {
            tracer.active.store(Some(ring_of(track)), Ordering::Release);
        }
        for processor in self.processors_ever() {
            self.sample(processor, Extent::Exact);
        }
    }

    /// Makes a ring for each track in use that has none.
    fn make_rings(&'static self, capacity: usize) -> Result<(), OutOfResources> {
        self.tracers().for_each(|(_, tracer)| tracer.forget_last_run(capacity));
        self.tracers_in_use().try_for_each(|(track, tracer)| tracer.make_ring(track, capacity))
    }

    /// Like [`start_trace`](Self::start_trace), but the rings are in `memory`, which another program may read meanwhile
    /// or when this program has ended. The rings of Ps are larger than the others. The layout is described in
    /// [`trace::memory`](crate::trace::memory). The new rings replace those of earlier traces, and later traces use the
    /// new rings, too. A P that [`set_procs`](crate::procs::set_procs) adds later has no ring. The trace ends with the
    /// run of the scheduler.
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
    /// let word = |index: usize| memory[index].load(Ordering::Relaxed);
    /// assert_eq!((word(0), word(1)), (MAGIC, 2), "one ring for callers without a P, and that of P0");
    /// let p0 = HEADER_WORDS + word(HEADER_WORDS + 3) as usize;
    /// assert!(word(p0 + 1) > 5, "{} events were written on P0", word(p0 + 1));
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory on the heap for the descriptions of the rings.
    ///
    /// # Panics
    ///
    /// `memory` has no room for one event of each track.
    #[track_caller]
    pub fn start_trace_in(&'static self, memory: &'static [AtomicU64]) -> Result<(), OutOfResources> {
        self.make_rings_in(memory)?;
        self.begin_trace(Extent::All, false);
        Ok(())
    }

    /// Like [`start_trace_in`](Self::start_trace_in), but also records call stacks, for a
    /// [profile](crate::trace#profiles).
    ///
    /// # Errors
    ///
    /// There is no memory on the heap for the descriptions of the rings.
    ///
    /// # Panics
    ///
    /// `memory` has no room for one event of each track.
    #[track_caller]
    pub fn start_profile_in(&'static self, memory: &'static [AtomicU64]) -> Result<(), OutOfResources> {
        self.make_rings_in(memory)?;
        self.begin_trace(Extent::All, true);
        Ok(())
    }

    /// Makes the rings of all tracks in `memory`.
    #[track_caller]
    fn make_rings_in(&'static self, memory: &'static [AtomicU64]) -> Result<(), OutOfResources> {
        let (header, mut rest) = memory.split_at_checked(memory::HEADER_WORDS).expect("the memory has a header");
        // The number of Ps is read only once, because `set_procs` may change it meanwhile.
        let tracers = self.tracers_in_use();
        let unit = rest.len() / tracers.clone().map(|(track, _)| weight(track)).sum::<usize>();
        self.tracers().for_each(|(_, tracer)| tracer.ring.store(None, Ordering::Relaxed));
        let mut rings = 0;
        for (track, tracer) in tracers {
            let (part, others) = rest.split_at(unit * weight(track));
            tracer.ring.store(Some(Ring::over(track, part, Some(Until::of(header)))?), Ordering::Release);
            rest = others;
            rings += 1;
        }
        header[1].store(rings, Ordering::Relaxed);
        // Ordering: Release publishes the rest of the header and the empty rings to the other program, which loads this
        // word first.
        header[0].store(memory::MAGIC, Ordering::Release);
        Ok(())
    }

    /// Starts to record events in the rings of all tracks that have one.
    fn begin_trace(&'static self, extent: Extent, records_call_stacks: bool) {
        let pinned = Pinned::<Plat>::of_scheduler();
        self.tracers().for_each(|(_, tracer)| tracer.begin(records_call_stacks));
        for processor in self.processors_ever().iter().filter(|processor| processor.tracer.is_on()) {
            self.sample(processor, extent);
        }
        for machine in self.machines() {
            if let Some(goroutine) = machine.locked_goroutine() {
                self.note_outside(EventKind::LockThread, goroutine, machine.id().get().into());
            }
        }
        // Records that the caller runs, because it began to run before the trace.
        if let Some(machine) = pinned.try_machine().filter(|machine| core::ptr::eq(machine.scheduler(), self))
            && let (Some(goroutine), Some(processor)) = (machine.current_goroutine(), machine.processor())
        {
            Plat::with_cpu_tracer(|cpu| cpu.runs_machine(machine.id(), Plat::now()));
            processor.tracer.note::<Plat>(EventKind::Busy, None, machine.id().get().into());
            processor.tracer.note::<Plat>(EventKind::Start, Some(goroutine.id()), 0);
        }
    }

    /// Ends the trace that [`start_trace`](Self::start_trace) or [`start_profile`](Self::start_profile) began. The
    /// recorded events stay readable. A trace in shared memory ([`start_trace_in`](Self::start_trace_in)) continues.
    pub fn stop_trace(&'static self) {
        let is_shared = |ring: &'static Ring| ring.is_shared();
        if self.outside.tracer.active.load(Ordering::Acquire).is_some_and(is_shared) {
            return;
        }
        for processor in self.processors_ever() {
            self.sample(processor, Extent::Some);
        }
        for (_, tracer) in self.tracers() {
            tracer.active.store(None, Ordering::Relaxed);
        }
    }

    /// If a trace is being taken, includes the first `procs` Ps, some of which are about to be taken into use. In
    /// shared memory there is no room for further rings.
    ///
    /// # Errors
    ///
    /// There is no memory for the rings. Some of the Ps may be included nevertheless, which is harmless.
    pub(crate) fn trace_also(&'static self, procs: usize) -> Result<(), OutOfResources> {
        let traced = &self.processors()[0];
        let ring = traced.tracer.active.load(Ordering::Acquire);
        let Some(ring) = ring.filter(|ring| !ring.is_shared()) else { return Ok(()) };
        for processor in self.processors_ever().iter().take(procs).filter(|processor| !processor.tracer.is_on()) {
            processor.tracer.forget_last_run(ring.capacity());
            processor.tracer.make_ring(track_of(processor), ring.capacity())?;
            processor.tracer.begin(ring.records_call_stacks());
            self.sample(processor, traced.sampler.extent());
        }
        Ok(())
    }

    /// Returns the last events of each track since the trace was started, and how many older events were lost. There
    /// are no events if no trace was ever started. The tracks are in the order of [`Track`]. A P that is no longer in
    /// use has a track if it was in use during the trace. Allocates.
    #[must_use]
    pub fn traces(&'static self) -> Vec<TrackTrace> {
        let read = |(track, tracer): (Track, &Tracer)| {
            let (events, lost) = tracer.ring.load(Ordering::Acquire).map_or_else(Default::default, Ring::read);
            TrackTrace { track, events, lost }
        };
        let is_in_use = |track| !matches!(track, Track::Processor(number) if number as usize >= self.procs());
        self.tracers().map(read).filter(|trace| is_in_use(trace.track) || !trace.events.is_empty()).collect()
    }

    /// Whether a trace is being taken.
    #[must_use]
    pub fn is_tracing(&'static self) -> bool {
        self.outside.tracer.active.load(Ordering::Relaxed).is_some_and(|ring| ring.observer.is_none())
    }

    /// All tracks, in the order of [`Track`], with those of the Ps that are not in use.
    fn tracers(&'static self) -> impl Iterator<Item = (Track, &'static Tracer)> {
        self.tracers_with(self.processors_ever())
    }

    /// All tracks, in the order of [`Track`], without those of the Ps that are not in use at the moment.
    fn tracers_in_use(&'static self) -> impl Iterator<Item = (Track, &'static Tracer)> + Clone {
        Plat::point(Site::Procs);
        self.tracers_with(self.processors())
    }

    fn tracers_with(
        &'static self,
        processors: &'static [Processor<Plat>],
    ) -> impl Iterator<Item = (Track, &'static Tracer)> + Clone {
        let cpus = (0..).map_while(|cpu| Some((Track::Cpu(cpu), &Plat::cpu_tracer(cpu)?.0)));
        let processors = processors.iter().map(|processor| (track_of(processor), &processor.tracer));
        iter::once((Track::Outside, &self.outside.tracer)).chain(cpus).chain(processors)
    }
}

fn track_of<Plat: Platform>(processor: &Processor<Plat>) -> Track {
    Track::Processor(processor.id().get())
}

impl<Plat: Platform> Processor<Plat> {
    /// The last events of this P since the trace was started, oldest first; empty if no trace was ever started.
    /// Allocates.
    #[must_use]
    pub fn trace(&self) -> Vec<Event> {
        self.tracer.ring.load(Ordering::Acquire).map_or_else(Vec::new, |ring| ring.read().0)
    }
}
