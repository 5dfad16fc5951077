//! The calls that a random program makes from outside of the scheduler.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Fuzzer, Running, SHORT, verify, verify_equal};

impl Fuzzer<'_> {
    /// Makes a call outside of the scheduler that may wake a G.
    pub(super) fn wake_from_outside(&mut self) {
        let (shared, value, which, index) =
            (self.shared.clone(), self.value(), self.random.u32(..7), self.random.usize(..4));
        let running = Running::new(self.shared);
        self.outside(move || {
            let channel = &shared.channels[index];
            match which {
                0 => drop(channel.sender().try_send(value)),
                1 => verify(channel.receiver().try_recv().ok()),
                2 => _ = shared.mutexes[index % 2].try_lock().map(|numbers| verify_equal(&numbers[..])),
                3 => drop(shared.semaphore.try_acquire(1)),
                4 => _ = shared.condvar.notify_all(),
                5 => _ = shared.lock.try_write().map(|mut numbers| numbers.fill(0)),
                // A wait would panic here, because only Gs may wait.
                _ => _ = catch_unwind(AssertUnwindSafe(|| channel.receiver().recv_timeout(SHORT))),
            }
            drop(running);
        });
    }

    /// Calls `body` outside of the scheduler.
    pub(super) fn outside(&self, body: impl FnOnce() + Send + 'static) {
        self.shared.outside.call(body);
    }
}
