//! The operations on timers and contexts that a random program performs, and some rare calls.

use gmp_sched::cancel::ContextError;

use super::super::platform::{self, Timer, sleep, try_after_func, yield_now};
use super::{Fuzzer, Running, verify};
use crate::value::{Value, broken};

impl Fuzzer<'_> {
    pub(super) fn timers(&mut self) {
        let (limit, how) = (self.limit(), self.random.u32(..5));
        match how {
            0 => {
                let timer = Timer::new(limit);
                let _ = timer.wait_until(limit / 2);
                timer.reset(limit);
                self.outside(move || drop(timer));
            }
            1 => {
                let running = Running::new(self.shared);
                if let Ok(function) = try_after_func(limit, move || {
                    drop(running.0.channels[3].sender().try_send(Value::new(1, &running.0.alive)));
                }) {
                    if self.random.bool() {
                        sleep(limit);
                    }
                    function.stop();
                }
            }
            2 => sleep(limit),
            3 => drop(Timer::new(limit).wait()),
            _ => yield_now(),
        }
    }

    pub(super) fn contexts(&mut self) {
        let (limit, how) = (self.limit(), self.random.u32(..4));
        let (context, cancel) = self.shared.root.0.with_value(self.random.u64(..)).with_timeout(limit);
        match how {
            0 => self.outside(move || drop(cancel)),
            1 => self.outside(move || cancel.cancel()),
            2 => drop(cancel),
            _ => _ = context.sleep(limit / 2),
        }
        if !matches!(context.wait(), ContextError::Canceled | ContextError::DeadlineExceeded) {
            broken("a context has ended for no reason");
        }
    }

    pub(super) fn rest(&mut self) {
        match self.random.u32(..6) {
            0 => self.shared.once.call_once(yield_now),
            1 => self.shared.lazy.verify(),
            2 => {
                if let Ok(locked) = platform::try_lock_thread() {
                    yield_now();
                    drop(locked);
                }
            }
            3 => {
                let world = platform::stop_the_world();
                // No step may wait while the world is stopped, because no other G runs that could end the wait.
                let value = self.channel().receiver().try_recv();
                drop(world);
                verify(value.ok());
            }
            4 if self.random.u32(..50) == 0 => _ = self.channel().close(),
            _ => _ = platform::set_procs(self.random.usize(1..5)),
        }
    }
}
