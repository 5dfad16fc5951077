//! The numbers that identify schedulers. The status word of a parked G contains the number of its scheduler.

use crate::base::atomic::{Ordering, StaticU32};
use crate::base::under_loom::per_model;
use crate::entities::status::ParkedStatus;

per_model! {
    /// The number that the next scheduler gets. Schedulers of all platforms share this counter.
    static NEXT_NUMBER: StaticU32 = StaticU32::new(0);
}

/// Returns a number that no other scheduler has.
pub(crate) fn take_number() -> u32 {
    let next = |number| (number < ParkedStatus::SCHEDULER_LIMIT).then_some(number + 1);
    let taken = NEXT_NUMBER.with(|number| number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next));
    taken.expect("so many schedulers do not fit into memory")
}

/// Makes the numbers start again at 0. Called before each run of a model, because each run makes new schedulers, and
/// the numbers would run out otherwise. No run uses a scheduler of another run.
#[cfg(gmp_loom)]
pub(crate) fn restart_numbers() {
    NEXT_NUMBER.with(|number| number.store(0, Ordering::Relaxed));
}
