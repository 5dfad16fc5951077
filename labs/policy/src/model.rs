//! A model of what the policy promises, for any ranks. The simulator compares the policy with this model.

use core::time::Duration;

use gmp_sched::policy::Instant;

/// A G in the queue of a P, or one that the P begins to run.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Whether it answers somebody. If not, it computes.
    pub answers: bool,
    /// Since when it waits. A displaced G keeps its place, so it has waited since it became runnable.
    pub since: Instant,
}

// ANCHOR: model
/// Whether a P may run `begun` while `others` wait in its queue.
///
/// # Errors
///
/// It may not. The text is the promise that would be broken.
pub fn allows(begun: Waiting, others: &[Waiting]) -> Result<(), &'static str> {
    /// `LATE[0]`: a G that answers runs before one that computes and came earlier, if it came less than this later.
    /// `LATE[1]`: no G runs before one that came more than this earlier.
    const LATE: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];
    for other in others {
        if other.answers && !begun.answers && other.since < begun.since + LATE[0] {
            return Err("a G that answers runs before one that computes and came less than 50 ms before it");
        }
        if other.since + LATE[1] < begun.since {
            return Err("no G runs before one that came 200 ms before it");
        }
    }
    Ok(())
}
// ANCHOR_END: model
