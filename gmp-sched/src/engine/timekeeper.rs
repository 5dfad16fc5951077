//! Who wakes for the timers of idle Ps: the timekeeper, which is the M that has been idle longest. It parks with a
//! deadline: the earliest timer of all Ps, or none while no P is idle. (In this case an M holds the P of each timer, or
//! is in a system call, which sysmon checks.) If the timekeeper takes a P or ends, the M that has then been idle
//! longest takes over. So there is a timekeeper whenever an M is idle.
//!
//! Code that makes a P idle or, without timer interrupts, sets an earlier timer, wakes the timekeeper if that parks for
//! too long. [`idle`](crate::engine::idle) explains why one of the two always notices ("Store, fence, load"). Code that
//! makes a P idle compares the earliest timer of *all* Ps with the deadline, because the timekeeper may have parked
//! without one while no P was idle. The start of the world need not compare, because it wakes an M to search, which
//! goes idle and compares, unless all Ps are held by then.

use crate::base::atomic::{Ordering, fence};
use crate::base::instant::Instant;
use crate::base::points::Site;
use crate::entities::machine::Machine;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

impl<Plat: Platform> Scheduler<Plat> {
    pub(crate) fn set_timekeeper(&self, machine: Option<&'static Machine<Plat>>) {
        if let Some(machine) = machine {
            machine.deadline.store(Instant::NEVER.as_nanos(), Ordering::Relaxed);
        }
        self.timekeeper.store(machine, Ordering::Release);
    }

    /// Wakes the timekeeper if its deadline is later than `when`. Called after the P of a timer has been put on the
    /// idle list and, on platforms without timer interrupts, after a timer has been set. Go: `wakeNetPoller`.
    #[doc(alias = "wakeNetPoller")]
    pub(crate) fn wake_timekeeper(&self, when: Instant) {
        // Ordering: partner: the fence in `park_deadline`.
        fence(Ordering::SeqCst);
        Plat::point(Site::Timers);
        // Each M has its own `deadline`, so a former timekeeper does not overwrite the deadline of the new one.
        if let Some(machine) = self.timekeeper.load(Ordering::Acquire)
            && when.as_nanos() < machine.deadline.load(Ordering::Relaxed)
        {
            Plat::unpark_thread(machine);
        }
    }

    /// If some P is idle, returns the time of the earliest timer of all Ps, or the time at which the background G is
    /// due if that is earlier. Otherwise returns [`Instant::NEVER`].
    pub(crate) fn earliest_timekeeper_timer(&'static self) -> Instant {
        if self.idle_processors.load(Ordering::Relaxed) == 0 {
            return Instant::NEVER;
        }
        let timers = self.processors().iter().map(|processor| processor.timers.earliest());
        timers.fold(self.background_due(), Instant::min)
    }

    /// Returns the time until which `machine` may park. Returns `None`, which means without limit, if `machine` is not
    /// the timekeeper or if there is no timer for the timekeeper.
    pub(crate) fn park_deadline(&'static self, machine: &'static Machine<Plat>) -> Option<Instant> {
        let is_timekeeper =
            || self.timekeeper.load(Ordering::Acquire).is_some_and(|timekeeper| core::ptr::eq(timekeeper, machine));
        loop {
            let earliest = self.earliest_timekeeper_timer();
            if !is_timekeeper() {
                // `machine` may just have made its P idle. If no P was idle before, the timekeeper has parked without a
                // deadline, and now depends on this call to learn of the timers.
                if earliest != Instant::NEVER {
                    self.wake_timekeeper(earliest);
                }
                return None;
            }
            Plat::point(Site::Timers);
            machine.deadline.store(earliest.as_nanos(), Ordering::Relaxed);
            // Ordering: partner: the fence in `wake_timekeeper`.
            fence(Ordering::SeqCst);
            Plat::point(Site::Timers);
            if self.earliest_timekeeper_timer() >= earliest {
                return (earliest != Instant::NEVER).then_some(earliest);
            }
        }
    }
}
