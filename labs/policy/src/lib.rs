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
    /// The rank is a time: when the G became runnable, and for a G that computes, later by the head start of those that answer.
    /// So a G that computes and has waited for longer than the head start runs before all Gs that become runnable now.
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
        // It goes to the P whose most urgent G, running or waiting, is less urgent than those of the other Ps. If several Ps
        // are equal, it stays here.
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
    /// Half of the Gs that wait on the P on which most wait.
    fn steal(&self, victims: &mut dyn Iterator<Item = ProcessorState>) -> Option<Theft> {
        let fullest = victims.max_by_key(|victim| victim.waiting)?;
        Some(Theft { from: fullest.id, count: fullest.waiting.div_ceil(2) })
    }
    // ANCHOR_END: steal
}
