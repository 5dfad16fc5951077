//! The operations on timers and contexts that a random program performs, and some rare calls.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::select;

use super::super::platform::{self, Limit, Ticker, Timer, after_func, sleep, try_after_func, yield_now};
use super::{Bomb, Fuzzer, Running, defuse, verify};
use crate::value::{Canary, Value, broken};

impl Fuzzer<'_> {
    pub(super) fn timers(&mut self) {
        let (limit, how) = (self.limit(), self.random.u32(..8));
        match how {
            0 => {
                let timer = Timer::new(limit);
                let _ = timer.wait_until(Limit::after(limit / 2));
                timer.reset(limit);
                self.outside(move || drop(timer));
            }
            1 => {
                let running = Running::new(self.shared);
                if let Ok(function) = try_after_func(limit, move || {
                    drop(running.shared().channels[3].sender().try_send(Value::new(1, &running.shared().values)));
                }) {
                    if self.random.bool() {
                        sleep(limit);
                    }
                    function.stop();
                }
            }
            2 => sleep(limit),
            3 => drop(Timer::new(limit).wait()),
            4 => {
                let ticker = Ticker::new(limit + Duration::from_nanos(1));
                let _ = ticker.wait_until(Limit::after(limit));
                ticker.reset(limit / 2 + Duration::from_nanos(1));
                let _ = (ticker.wait_until(Limit::after(limit)), ticker.try_wait());
                self.outside(move || drop(ticker));
            }
            5 => self.panicking_function(limit),
            _ => yield_now(),
        }
    }

    /// Runs a function later that panics. The function catches the panic, because a panic of a G that is not joined
    /// ends the process, as documented. For the same reason the function is never stopped: its G would then drop
    /// `value`, whose drop may panic, outside of `catch_unwind`.
    fn panicking_function(&mut self, limit: Duration) {
        let (running, value) = (Running::new(self.shared), self.value());
        let function = after_func(limit, move || {
            let canary = Canary::new(7);
            defuse(catch_unwind(AssertUnwindSafe(|| {
                let _value = value;
                drop(running.shared().channels[3].receiver().try_recv());
                panic_any(Bomb);
            })));
            canary.verify();
        });
        if self.random.bool() {
            function.reset(limit / 2);
        }
        sleep(limit);
    }

    pub(super) fn contexts(&mut self) {
        let (limit, how) = (self.limit(), self.random.u32(..6));
        let (context, cancel) = self.shared.root.0.with_value(self.value()).with_timeout(limit);
        match how {
            0 => self.outside(move || drop(cancel)),
            1 => self.outside(move || cancel.cancel()),
            2 => drop(cancel),
            3 => {
                let running = Running::new(self.shared);
                let function = context.after_func(move || {
                    drop(running.shared().channels[2].sender().try_send(Value::new(2, &running.shared().values)));
                });
                if self.random.bool() {
                    function.stop();
                }
            }
            4 => select! {
                recv(context.done()) => {}
                recv(self.channel().receiver()) -> received => verify(received.ok()),
                timeout(limit) => {}
            },
            _ => _ = context.sleep(limit / 2),
        }
        if !matches!(context.wait(), ContextError::Canceled | ContextError::DeadlineExceeded) {
            broken("a context has ended for no reason");
        }
    }

    pub(super) fn rest(&mut self) {
        match self.random.u32(..6) {
            0 | 1 => self.shared.lazy.verify(),
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
