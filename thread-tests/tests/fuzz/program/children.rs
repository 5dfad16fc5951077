//! Calls that spawn Gs, run coroutines and futures, and make system calls.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::task::Poll;

use super::super::platform::{self, Builder, block_on, go, scope, try_pull, yield_now};
use super::{Bomb, DEEPEST, Fuzzer, Running, defuse};
use crate::value::{Canary, Value, leak};

impl Fuzzer<'_> {
    /// Spawns children that borrow from this frame, in a scope that a panic may end.
    pub(super) fn scope(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let canary = Canary::new(self.random.u64(..));
        let (shared, depth) = (self.shared, self.depth + 1);
        let children: Vec<(u64, u32)> =
            (0..self.random.u32(1..4)).map(|_| (self.random.u64(..), self.random.u32(..8))).collect();
        let (ends, body) = (self.random.u32(..6), self.random.u64(..));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            scope(|scope| {
                for (seed, fate) in children {
                    let canary = &canary;
                    let child = scope.go(move || {
                        let mut fuzzer = Fuzzer { random: fastrand::Rng::with_seed(seed), shared, depth };
                        for _ in 0..3 {
                            fuzzer.step();
                            canary.verify();
                        }
                        match fate {
                            0 => panic_any("a child's panic"),
                            1 => panic_any(Bomb),
                            _ => fuzzer.value(),
                        }
                    });
                    match fate {
                        2 => drop(child),
                        3 => leak(child),
                        4 => drop(child.join()),
                        _ => {}
                    }
                }
                match ends {
                    0 => panic_any("a body's panic"),
                    1 => panic_any(Bomb),
                    2 => platform::goexit(),
                    _ => Fuzzer { random: fastrand::Rng::with_seed(body), shared, depth }.step(),
                }
            });
        }));
        canary.verify();
        defuse(ended);
    }

    pub(super) fn spawn(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let running = Running::new(self.shared);
        let (seed, depth, how, options) =
            (self.random.u64(..), self.depth + 1, self.random.u32(..6), self.random.u32(..4));
        // With fates 0 and 1 the child panics, so only a child that is joined may have these fates. A child whose
        // handle is leaked has fate 2: it exits without a result, because its result would never be dropped.
        let fate = match how {
            0 => self.random.u32(..8),
            1 => 2,
            _ => self.random.u32(2..8),
        };
        let body = move || {
            let mut fuzzer = Fuzzer { random: fastrand::Rng::with_seed(seed), shared: running.shared(), depth };
            fuzzer.steps(4);
            match fate {
                0 => panic_any("a G's panic"),
                1 => panic_any(Bomb),
                2 => platform::goexit(),
                // Only a child that is joined may have a result whose drop panics. Otherwise the child itself drops the
                // result, and the panic ends the process.
                3 if how == 0 => fuzzer.value(),
                _ => fuzzer.harmless_value(),
            }
        };
        let handle = match options {
            0 => Builder::new().name("fuzz").go(body),
            1 => Builder::new().stack_size(platform::STACK_BYTES).go(body),
            _ => go(body),
        };
        match how {
            0 => drop(handle.join()),
            1 => leak(handle),
            2 => drop(handle),
            3 => handle.detach(),
            4 => self.outside(move || drop(handle)),
            _ => drop(handle.is_finished().then(|| handle.join())),
        }
    }

    /// Takes two steps in a system call. During the call the G has no P, so calls that wait, yield or spawn Gs panic.
    pub(super) fn system_call(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let mut inner = Fuzzer { random: self.random.fork(), shared: self.shared, depth: self.depth + 1 };
        let mut inside = move || {
            for _ in 0..2 {
                defuse(catch_unwind(AssertUnwindSafe(|| inner.step())));
            }
        };
        if self.random.bool() {
            platform::syscall(&mut inside);
        } else {
            let _ = platform::try_blocking(&mut inside);
        }
    }

    pub(super) fn coroutine(&mut self) {
        let (seed, count, end) = (self.random.u64(..), self.random.u32(..4), self.random.u32(..6));
        let all = self.shared.values.clone();
        let Ok(mut values) = try_pull(move |yielder| {
            let mut random = fastrand::Rng::with_seed(seed);
            while yielder.yield_value(Value::new(random.u64(..), &all).with_panic(random.u32(..8) == 0)) {
                if random.u32(..4) == 0 {
                    yield_now();
                }
                match random.u32(..24) {
                    0 => panic_any("a coroutine's panic"),
                    1 => panic_any(Bomb),
                    _ => {}
                }
            }
        }) else {
            return;
        };
        let taken = catch_unwind(AssertUnwindSafe(|| {
            for value in values.by_ref().take(count as usize) {
                value.verify();
            }
        }));
        match end {
            0 => defuse(catch_unwind(AssertUnwindSafe(|| values.stop()))),
            _ => defuse(catch_unwind(AssertUnwindSafe(|| drop(values)))),
        }
        defuse(taken);
    }

    /// Waits for a future that is woken at once: by its own poll, by another G, or from outside of the scheduler. The
    /// call from outside wakes it twice in a row, so the second wakeup may come after the future has ended.
    pub(super) fn future(&mut self) {
        let (how, mut polls) = (self.random.u32(..3), 0);
        let outside = self.shared.outside.clone();
        block_on(poll_fn(move |task| {
            polls += 1;
            if polls > 2 {
                return Poll::Ready(());
            }
            let waker = task.waker().clone();
            match how {
                0 => waker.wake(),
                1 => go(move || waker.wake()).detach(),
                _ => outside.call(move || {
                    waker.wake_by_ref();
                    waker.wake();
                }),
            }
            Poll::Pending
        }));
    }
}
