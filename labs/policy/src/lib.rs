//! The scheduling policy of lab 9: Gs that answer somebody run soon, those that compute get the rest, and no G starves.
#![no_std]
#![forbid(unsafe_code)]

pub mod model;

use gmp_sched::policy::{Cause, Place, Policy, ProcessorState, Ready, Theft};

/// The parameter of a G that answers somebody. All others compute.
pub const ANSWERS: u64 = 1;

/// The policy. It has no state, because the rank of a G says all that is to be known.
#[derive(Clone, Copy, Debug)]
pub struct LabPolicy;

impl Policy for LabPolicy {
    // ANCHOR: place
    /// The rank is a time: when the G became runnable, and for a G that computes, later by the head start of the others. So
    /// a G that has waited for longer than the head start runs before all that come then.
    fn place(&self, ready: &Ready, processors: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        const HEAD_START: u64 = 100_000_000;
        let here = ready.processor;
        let now = ready.now.as_nanos();
        if ready.cause == Cause::Displaced {
            // It did not choose to leave, so it keeps its place.
            return Place { rank: ready.rank, processor: here };
        }
        if ready.parameter != ANSWERS {
            return Place { rank: now + HEAD_START, processor: here };
        }
        // It waits here, unless what runs or waits here is as urgent. In this case, it goes where the least urgent G runs.
        let urgency = |state: &ProcessorState| state.running.unwrap_or(u64::MAX).min(state.first);
        let of = |state: &ProcessorState| (urgency(state), state.id == here);
        let calmest = processors.max_by_key(|state| of(state));
        Place { rank: now, processor: calmest.map_or(here, |state| state.id) }
    }
    // ANCHOR_END: place

    // ANCHOR: preempts
    fn preempts(&self, ready: u64, running: u64) -> bool {
        ready < running
    }
    // ANCHOR_END: preempts

    // ANCHOR: steal
    /// Half of what waits on the P on which most waits.
    fn steal(&self, victims: &mut dyn Iterator<Item = ProcessorState>) -> Option<Theft> {
        let fullest = victims.max_by_key(|victim| victim.waiting)?;
        Some(Theft { from: fullest.id, count: fullest.waiting.div_ceil(2) })
    }
    // ANCHOR_END: steal
}
