//! Who wakes for the timers of idle Ps: the timekeeper.
//!
//! The M that has been idle longest is the *timekeeper*: it parks with a deadline, which is the earliest timer of all
//! Ps. While no P is idle, there is no deadline. In this case every timer belongs to a P that an M holds, or to a P
//! whose M is in a system call, which sysmon checks. Ps are assigned to the other Ms of the idle list first. If the
//! timekeeper takes a P or ends, the M that has then been idle longest takes over. So there is a timekeeper whenever an
//! M is idle.
//!
//! As in the protocol in idle.md, each side stores, executes a fence, and then loads what the other side stores:
//!
//! - The timekeeper stores its deadline, and then reads the timers again. (The deadline is a field of the M, so the
//!   next timekeeper has a deadline of its own.)
//! - Code that makes a P idle or, without timer interrupts, sets a timer that is due earlier, publishes this change. It
//!   then reads which M is the timekeeper, and the deadline of that M.
//!
//! Code that makes a P idle compares the earliest timer of *all* Ps with the deadline, and not only the timers of that
//! P. The reason is that the timekeeper may have parked without a deadline while no P was idle. As soon as a P is idle,
//! the timers of Ps that Ms have left in system calls depend on the timekeeper, too. Code that enters a system call
//! need not compare, because it makes no P idle, and the deadline covers all Ps. The start of the world need not
//! compare either, because it wakes an M to search: the last M that searches finds nothing, goes idle and compares,
//! unless all Ps are held by then.

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
        // Ordering: the partner of this fence is the fence in `park_deadline`. Either the caller sees the timekeeper's
        // deadline, or the timekeeper sees the timer.
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
            // A P that is not idle does not need the timekeeper. If an M holds the P, that M runs the timers of the P.
            // If the M of the P is in a system call, sysmon checks the P.
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
            // Ordering: the partner of this fence is the fence in `wake_timekeeper`, which explains the reason.
            fence(Ordering::SeqCst);
            Plat::point(Site::Timers);
            if self.earliest_timekeeper_timer() >= earliest {
                return (earliest != Instant::NEVER).then_some(earliest);
            }
        }
    }
}
