//! Signals of devices.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::platform::{self, yield_now};
use super::{Fuzzer, Running};

impl Fuzzer<'_> {
    /// Waits for a signal or raises it. A wait panics if another G waits for the same signal.
    pub(super) fn signal(&mut self) {
        let (signal, limit) = (self.shared.signals[self.random.usize(..2)], self.limit());
        match self.random.u32(..4) {
            0 => signal.raise(),
            1 => {
                let running = Running::new(self.shared);
                self.outside(move || {
                    signal.raise();
                    drop(running);
                });
            }
            2 => {
                // In the simulator, the raise comes before, during or after the wait. On threads it comes before the
                // wait.
                platform::raise_later(signal, limit);
                let _ = catch_unwind(AssertUnwindSafe(|| signal.wait_timeout(limit)));
            }
            _ => _ = catch_unwind(AssertUnwindSafe(|| signal.wait_timeout(limit))),
        }
        yield_now();
    }
}
