//! Parking with a deadline: each CPU has a list of the threads that parked on it, and the CPU's timer wakes them.

use super::{Cpu, Thread, Threads};
use crate::base::atomic::Ordering;
use crate::base::instant::Instant;

impl<C: Cpu> Threads<C> {
    /// Adds `thread`, which is the calling thread, to this CPU's list, to be woken at `deadline`. Returns the CPU.
    pub(super) fn add_sleeper(&'static self, thread: &'static Thread<C>, deadline: Instant) -> usize {
        C::without_interrupts(|| {
            let cpu = C::current();
            thread.deadline.store(deadline.as_nanos(), Ordering::Relaxed);
            self.cpus[cpu].sleepers.lock().push_back(thread);
            C::arm(deadline);
            cpu
        })
    }

    /// Removes a thread that was woken, by its deadline or otherwise, from the list of `cpu`.
    pub(super) fn remove_sleeper(&'static self, cpu: usize, thread: &'static Thread<C>) {
        C::without_interrupts(|| self.cpus[cpu].sleepers.lock().remove(thread));
    }

    /// Wakes the threads whose deadline has passed. Returns the next deadline on this CPU. Called by the timer's
    /// interrupt handler.
    ///
    /// # Safety
    ///
    /// Interrupts are off on this CPU.
    #[expect(unsafe_code, reason = "takes a lock of handlers")]
    pub unsafe fn timer_interrupt(&'static self, now: Instant) -> Instant {
        let cpu = self.here();
        let mut next = Instant::NEVER;
        let mut sleepers = cpu.sleepers.lock();
        for _ in 0..sleepers.len() {
            let Some(thread) = sleepers.pop_front() else { break };
            let deadline = Instant::from_nanos(thread.deadline.load(Ordering::Relaxed));
            if deadline <= now {
                // The lock is still held. If another waker wakes the thread at this moment, the thread waits for the
                // lock in `remove_sleeper`. So the thread cannot use its link for another sleep before `unpark` has
                // returned.
                thread.unpark();
            } else {
                next = next.min(deadline);
                sleepers.push_back(thread);
            }
        }
        next
    }
}
