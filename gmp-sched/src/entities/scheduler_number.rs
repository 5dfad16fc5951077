//! The numbers of schedulers, by which a parked G tells which one it belongs to.

use crate::base::atomic::{Ordering, StaticU32};
use crate::entities::status::ParkedStatus;

/// The number of the next scheduler, whatever its platform.
#[cfg(not(gmp_loom))]
static NEXT_NUMBER: StaticU32 = StaticU32::new(0);

#[cfg(gmp_loom)]
std::thread_local! {
    /// The same for the models: they run in parallel on threads of the host, and each starts anew with each run.
    static NEXT_NUMBER: StaticU32 = const { StaticU32::new(0) };
}

/// A number that no other scheduler has.
pub(crate) fn take_number() -> u32 {
    let next = |number| (number < ParkedStatus::SCHEDULER_LIMIT).then_some(number + 1);
    #[cfg(not(gmp_loom))]
    let taken = NEXT_NUMBER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    #[cfg(gmp_loom)]
    let taken = NEXT_NUMBER.with(|number| number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next));
    taken.expect("so many schedulers do not fit into memory")
}

/// Starts again with number 0. A model creates as many schedulers as it has runs, and uses none after its run.
#[cfg(gmp_loom)]
pub(crate) fn restart_numbers() {
    NEXT_NUMBER.with(|number| number.store(0, Ordering::Relaxed));
}
