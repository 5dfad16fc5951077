//! Polling a mutex before waiting for it.

use super::RawMutex;
use crate::base::atomic::Ordering;
use crate::base::under_loom::IS_MODEL;
use crate::platform::{Pinned, Platform};

/// Maximum number of times that a G polls the mutex before the G queues. It polls only if another M is likely to unlock
/// the mutex soon. Go: `active_spin`.
const SPINS: u32 = if IS_MODEL { 0 } else { 4 };
/// Number of pauses between two polls. Go: `active_spin_cnt`.
const PAUSES: u32 = 30;

impl<Plat: Platform> RawMutex<Plat> {
    /// Spins briefly until another M unlocks the mutex, if that is likely to happen soon and this P has no other work.
    /// Go: `sync_runtime_doSpin`.
    #[doc(alias = "sync_runtime_doSpin")]
    pub(super) fn spin(&self) {
        for _ in 0..SPINS {
            if !self.is_held() || !may_spin::<Plat>() {
                return;
            }
            (0..PAUSES).for_each(|_| Plat::relax());
        }
    }
}

/// Whether spinning may be worthwhile. It may be if another P runs a G, and this P has no other G to run. Always false
/// with a single P. Go: `sync_runtime_canSpin`.
#[doc(alias = "sync_runtime_canSpin")]
fn may_spin<Plat: Platform>() -> bool {
    let pinned = Pinned::<Plat>::of_scheduler();
    let Some(machine) = pinned.try_machine() else { return false };
    let Some(processor) = machine.processor() else { return false };
    let scheduler = machine.scheduler();
    // Ordering: Relaxed, because the numbers are used only as a heuristic.
    let idle = scheduler.idle_processors.load(Ordering::Relaxed) + scheduler.spinning.load(Ordering::Relaxed);
    scheduler.procs() > idle as usize + 1 && processor.queue.is_empty()
}
