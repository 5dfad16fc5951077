//! The calls that a random program makes from outside of the scheduler.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::platform::{self, Chan};
use super::{Fuzzer, Running, SHORT, verify, verify_equal};
use crate::value::Value;

impl Fuzzer<'_> {
    /// Makes a call outside of the scheduler that may wake a G.
    pub(super) fn wake_from_outside(&mut self) {
        let (value, which, index) = (self.value(), self.random.u32(..7), self.random.usize(..4));
        let running = Running::new(self.shared);
        self.outside(move || {
            let shared = running.shared();
            let channel = &shared.channels[index];
            match which {
                0 => drop(channel.sender().try_send(value)),
                1 => verify(channel.receiver().try_recv().ok()),
                2 => _ = shared.mutexes[index % 2].try_lock().map(|numbers| verify_equal(&numbers[..])),
                3 => drop(shared.semaphore.try_acquire(1)),
                4 => _ = shared.condvar.notify_all(),
                5 => _ = shared.lock.try_write().map(|mut numbers| numbers.fill(0)),
                // On threads a wait panics here, because only Gs may wait. In the simulator, a G makes this call.
                _ => _ = catch_unwind(AssertUnwindSafe(|| channel.receiver().recv_timeout(SHORT))),
            }
            drop(running);
        });
    }

    /// Exchanges values with a caller outside of the scheduler, which uses blocking calls. These calls end at the
    /// latest when this function drops its side of the channel.
    pub(super) fn blocking_call(&mut self) {
        let (count, rounds, limit) = (self.random.u64(..4), self.random.u32(..4), self.limit());
        let channel = Chan::new(self.random.usize(..2));
        let (sender, receiver) = channel.split();
        let (running, sends) = (Running::new(self.shared), self.random.bool());
        if sends {
            self.outside(move || {
                for number in 0..count {
                    if platform::blocking_send(&sender, Value::new(number, &running.shared().values)).is_err() {
                        break;
                    }
                }
                drop(running);
            });
            for _ in 0..rounds {
                verify(receiver.recv_timeout(limit).ok());
            }
        } else {
            self.outside(move || {
                while let Ok(value) = platform::blocking_recv(&receiver) {
                    verify(Some(value));
                }
                drop(running);
            });
            for _ in 0..rounds {
                drop(sender.send_timeout(self.harmless_value(), limit));
            }
        }
    }

    /// Calls `body` outside of the scheduler.
    pub(super) fn outside(&self, body: impl FnOnce() + Send + 'static) {
        self.shared.outside.call(body);
    }
}
