//! Priorities with aging.

use core::time::Duration;

use super::{Cause, Place, Policy, ProcessorState, Ready};

/// Runs Gs with higher priorities first. The [parameter](crate::by_policy::set_parameter) of a G is its priority, from 0 (the default)
/// to [`HIGHEST`](Self::HIGHEST).
///
/// A G that waits *ages*: each [`STEP`](Self::STEP) is worth as much as one priority. So a G of priority 0 runs before
/// the Gs of priority 3 that became runnable three steps after it, and no G starves. A G of a higher priority preempts
/// one of a lower priority on the P where it becomes runnable.
///
/// The rank of a G is the time at which it would have had to become runnable with the highest priority to run at the
/// same time as now. So waiting Gs need no new rank when they age.
#[derive(Clone, Copy, Debug, Default)]
pub struct PriorityAging;

impl PriorityAging {
    /// The highest priority. A higher parameter counts as this.
    pub const HIGHEST: u64 = 7;
    /// A G that waits for this time gains as much as by a priority that is higher by one.
    pub const STEP: Duration = Duration::from_millis(50);
}

impl Policy for PriorityAging {
    fn place(&self, ready: &Ready, _: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        let steps_behind = Self::HIGHEST - ready.parameter.min(Self::HIGHEST);
        let rank = match ready.cause {
            // A G that is displaced did not choose to leave, so it keeps its place before the Gs that came after it.
            Cause::Displaced => ready.rank,
            _ => ready.now.as_nanos() + steps_behind * Self::STEP.as_nanos() as u64,
        };
        Place { rank, processor: ready.processor }
    }

    /// After [`STEP`](Self::STEP) for each priority, a G is behind only those Gs that became runnable before. Each of
    /// them runs once, for a slice that a timer may notice one slice late.
    fn longest_wait(&self, goroutines: usize, slice: Duration) -> Option<Duration> {
        Some(Self::STEP * Self::HIGHEST as u32 + 2 * slice * goroutines as u32)
    }
}
