//! Parking with a deadline. Each CPU has a timing wheel of the threads that parked on it with a deadline, and the CPU's
//! timer wakes these threads.

use super::{Cpu, Thread, Threads};
use crate::base::instant::Instant;

impl<C: Cpu> Threads<C> {
    /// Adds `thread`, which is the calling thread, to this CPU's sleepers, to be woken at `deadline`. Returns this CPU.
    pub(super) fn add_sleeper(&'static self, thread: &'static Thread<C>, deadline: Instant) -> usize {
        let add = || {
            let cpu = C::current();
            self.cpus[cpu].sleepers.lock().insert(thread, deadline);
            C::arm(deadline);
            cpu
        };
        #[expect(unsafe_code, reason = "code with interrupts off must not switch threads")]
        // SAFETY: `add` only changes a timing wheel and arms a timer.
        unsafe {
            C::without_interrupts(add)
        }
    }

    /// Removes `thread`, which has been woken, from the sleepers of `cpu`. If the deadline woke the thread, the thread
    /// is no longer a sleeper, and this function only waits for the lock.
    pub(super) fn remove_sleeper(&'static self, cpu: usize, thread: &'static Thread<C>) {
        let remove = || {
            // The lock is taken even if the thread is no longer a sleeper: see `timer_interrupt`.
            let mut sleepers = self.cpus[cpu].sleepers.lock();
            if thread.sleep.is_linked() {
                sleepers.remove(thread);
            }
        };
        #[expect(unsafe_code, reason = "code with interrupts off must not switch threads")]
        // SAFETY: `remove` only changes a timing wheel.
        unsafe {
            C::without_interrupts(remove);
        }
    }

    /// Wakes the sleepers of this CPU whose deadlines have passed. Returns the next deadline of a sleeper of this CPU,
    /// or an earlier time if a sleeper has been removed; [`Instant::NEVER`] if there is no sleeper. Called by the
    /// timer's interrupt handler.
    ///
    /// # Safety
    ///
    /// Interrupts are off on this CPU.
    #[expect(unsafe_code, reason = "takes a lock of handlers")]
    pub unsafe fn timer_interrupt(&'static self, now: Instant) -> Instant {
        let cpu = self.here();
        let mut sleepers = cpu.sleepers.lock();
        while let Some((thread, _)) = sleepers.pop_due(now) {
            // The lock is still held. If another waker wakes the thread at this moment, the thread has to wait for the
            // lock in `remove_sleeper`. So the thread cannot begin its next sleep before this `unpark`, which would end
            // that sleep too early.
            thread.unpark();
        }
        sleepers.earliest()
    }
}
