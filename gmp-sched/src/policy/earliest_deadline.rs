//! Earliest deadline first.

use super::{Cause, Place, Policy, ProcessorState, Ready};

/// Runs the G with the earliest deadline first. The [parameter](crate::by_policy::set_parameter) of a G is how many nanoseconds after
/// it becomes runnable its work has to be done. The Gs with the parameter 0, the default, have no deadline: they run in
/// the order of their arrival when no G with a deadline waits, so they may wait for any time.
///
/// On one P, this order meets all deadlines if any order does. With several Ps, a G goes to the P whose earliest
/// deadline, of the running and the waiting Gs there, is the latest.
#[derive(Clone, Copy, Debug, Default)]
pub struct EarliestDeadline;

/// The rank of Gs without a deadline.
const NONE: u64 = u64::MAX - 1;

impl Policy for EarliestDeadline {
    fn place(&self, ready: &Ready, processors: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        let rank = match (ready.cause, ready.parameter) {
            // The G goes on with the work that it has begun, so it keeps the deadline of this work.
            (Cause::SliceOver | Cause::Displaced, _) => ready.rank,
            // A G that yields may wait for a G without a deadline.
            (Cause::Yielded, _) | (_, 0) => NONE,
            (_, time) => ready.now.as_nanos().saturating_add(time).min(NONE - 1),
        };
        // Among Ps with the same earliest deadline, the P of the caller is preferred, because its CPU has the data.
        let latest =
            |state: &ProcessorState| (state.first.min(state.running.unwrap_or(NONE)), state.id == ready.processor);
        let processor = processors.max_by_key(latest).map_or(ready.processor, |state| state.id);
        Place { rank, processor }
    }
}
