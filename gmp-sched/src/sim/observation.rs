//! The events of a run: a trace of them, or their comparison with the [policy](super::policy).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;

use super::Sim;
use super::simulation::Simulation;
use crate::entities::scheduler::Scheduler;
use crate::record::trace::{Event, Track, TrackTrace};
use crate::record::trace_ring::Ring;

std::thread_local! {
    /// The observers of the runs on this host thread. They are never freed, so all runs use the same ones.
    static OBSERVERS: RefCell<BTreeMap<Track, &'static Ring>> = const { RefCell::new(BTreeMap::new()) };
}

/// The number of the observers of this host thread.
fn number() -> u64 {
    OBSERVERS.with(|observers| core::ptr::from_ref(observers).addr() as u64)
}

/// Starts an exact trace with the last `trace` events of each track. If `trace` is `None`, shows the events to the
/// specification of Go's rules if the run `is_specified` by it: not in an exploration, and not with another policy.
pub(super) fn begin(scheduler: &'static Scheduler<Sim>, trace: Option<usize>, is_specified: bool) {
    if let Some(capacity) = trace {
        scheduler.start_exact_trace(capacity).expect("memory for a trace");
    } else if is_specified {
        scheduler.start_observation(observer);
    }
}

/// Ends what [`begin`] has begun, because a later run may ready a G of this run. Returns the trace.
pub(super) fn end(scheduler: &'static Scheduler<Sim>, trace: Option<usize>) -> Vec<TrackTrace> {
    let traces = trace.map_or_else(Vec::new, |_| scheduler.traces());
    scheduler.stop_trace();
    traces
}

/// Returns the ring that passes the events of a track to [`Simulation::observe`].
fn observer(track: Track) -> &'static Ring {
    let observer = || Ring::observer(number(), track).expect("memory for an observer");
    OBSERVERS.with_borrow_mut(|observers| *observers.entry(track).or_insert_with(observer))
}

impl Simulation {
    /// Ends the run if the policy does not allow `event`. An event of a run on another host thread is ignored: a G of
    /// this run may ready a G of that one.
    pub(super) fn observe(&self, observer: u64, track: Track, event: Event) {
        if observer != number() {
            return;
        }
        let scheduler = self.scheduler.get().expect("events come after the scheduler is made");
        let allowed = self.policy.borrow_mut().check(track, event, scheduler.procs());
        if allowed.is_err() {
            self.finish(allowed);
        }
    }
}
