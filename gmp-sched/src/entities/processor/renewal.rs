//! Resets a P, for the next run of its scheduler or the next run in the simulator.

use super::{GLOBAL_QUEUE_INTERVAL, Processor, ProcessorStatus};
use crate::base::atomic::Ordering;
use crate::entities::sampler::Extent;
use crate::platform::Platform;

impl<Plat: Platform> Processor<Plat> {
    /// Sets the clock and all counters to 0, and restarts the random numbers from `random`.
    pub(crate) fn forget_history(&self, random: u64) {
        self.random.store(random, Ordering::Relaxed);
        self.clock.store(0, Ordering::Relaxed);
        self.counters.clear();
    }

    /// Clears what no later step depends on: the last holder, because it only makes the search of
    /// [`holder_of`](crate::entities::scheduler::Scheduler::holder_of) shorter, and the link of a P that is not idle.
    #[cfg(feature = "std")]
    pub(crate) fn forget_links(&self) {
        self.last_holder.store(None, Ordering::Relaxed);
        if self.status() != ProcessorStatus::Idle {
            self.link.store(None, Ordering::Relaxed);
        }
    }

    /// Resets the P after a run of its scheduler, for the next run. The P has no Gs, and no timer is set.
    pub(crate) fn renew(&self) {
        self.forget_history(Plat::seed(self.id.0 as usize) | 1);
        self.status.set(ProcessorStatus::Dead);
        self.global_tick.store(GLOBAL_QUEUE_INTERVAL, Ordering::Relaxed);
        self.slow_pick_tick.store(GLOBAL_QUEUE_INTERVAL, Ordering::Relaxed);
        self.tick.store(0, Ordering::Relaxed);
        self.urgent_tick.store(0, Ordering::Relaxed);
        self.syscall_tick.store(0, Ordering::Relaxed);
        self.urgent_until.store(0, Ordering::Relaxed);
        self.next_id.store(0, Ordering::Relaxed);
        self.slice.renew();
        self.call.renew();
        self.latency.clear();
        self.tracer.renew();
        self.sampler.set(Extent::Some);
    }
}
