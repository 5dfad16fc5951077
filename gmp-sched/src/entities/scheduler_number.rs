//! The numbers of schedulers. The status word of a parked G contains the number of its scheduler.

use crate::base::atomic::{Ordering, StaticU32};
use crate::entities::status::ParkedStatus;

/// The number of the next scheduler, of any platform.
#[cfg(not(gmp_loom))]
static NEXT_NUMBER: StaticU32 = StaticU32::new(0);

#[cfg(gmp_loom)]
std::thread_local! {
    /// The number of the next scheduler in the models. Models run in parallel on several host threads, so each host
    /// thread counts for itself. Each run of a model starts again at 0.
    static NEXT_NUMBER: StaticU32 = const { StaticU32::new(0) };
}

/// Returns a number that no other scheduler has.
pub(crate) fn take_number() -> u32 {
    let next = |number| (number < ParkedStatus::SCHEDULER_LIMIT).then_some(number + 1);
    #[cfg(not(gmp_loom))]
    let taken = NEXT_NUMBER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    #[cfg(gmp_loom)]
    let taken = NEXT_NUMBER.with(|number| number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next));
    taken.expect("so many schedulers do not fit into memory")
}

/// Starts again at number 0. Called before each run of a model, because each run makes new schedulers, and the numbers
/// would run out otherwise. No run uses a scheduler of another run.
#[cfg(gmp_loom)]
pub(crate) fn restart_numbers() {
    NEXT_NUMBER.with(|number| number.store(0, Ordering::Relaxed));
}
