//! Groups of Gs: wait groups, error groups, fallible scopes, barriers; and what Gs share: pools and single flights.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gmp_sched::sync::Pooled;

use super::super::platform::{Barrier, ErrorGroup, WaitGroup, scope, try_scope, yield_now};
use super::{Bomb, DEEPEST, Fuzzer, Running, Shared, defuse, verify};
use crate::value::{Canary, broken};

/// The value of a single flight.
pub(super) struct Fetch {
    /// The moment at which the call that fetched the value ended; [`NOT_YET`] before.
    over: Arc<AtomicU64>,
    clone_panics: bool,
}

const NOT_YET: u64 = u64::MAX;

/// Stores the moment at which a call of a single flight has ended, by a return or a panic.
struct Ends<'a>(&'a Shared, Arc<AtomicU64>);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.1.store(self.0.moment(), Ordering::Release);
    }
}

impl Clone for Fetch {
    fn clone(&self) -> Self {
        if self.clone_panics {
            panic_any("a panic in clone");
        }
        Self { over: self.over.clone(), ..*self }
    }
}

impl Fuzzer<'_> {
    /// Changes the counter of a wait group that all Gs share, or waits until the counter is zero. Many of these calls
    /// panic: the counter becomes negative or too large, or is increased while waiters are released.
    pub(super) fn shared_group(&mut self) {
        let (group, limit) = (&self.shared.group, self.limit());
        match self.random.u32(..5) {
            0 => group.add(self.random.u32(..3)),
            1 => group.add(u32::MAX),
            2 | 3 => group.done(),
            _ => _ = group.wait_timeout(limit),
        }
    }

    pub(super) fn task_group(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let (group, done) = (Arc::new(WaitGroup::new()), Arc::new(AtomicU32::new(0)));
        let count = self.random.u32(1..4);
        for _ in 0..count {
            let (seed, depth, done) = (self.random.u64(..), self.depth + 1, done.clone());
            let running = Running::new(self.shared);
            group.go(move || {
                Fuzzer { random: fastrand::Rng::with_seed(seed), shared: running.shared(), depth }.steps(2);
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        if group.wait_timeout(self.limit()) || self.random.bool() {
            group.wait();
            if done.load(Ordering::Relaxed) != count {
                broken("a wait group has not waited for all tasks");
            }
        }
    }

    pub(super) fn error_group(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let (group, context) = ErrorGroup::with_limit(2).with_context(&self.shared.root.0);
        for number in 0..self.random.u32(..4) {
            let (seed, depth, context) = (self.random.u64(..), self.depth + 1, context.clone());
            let running = Running::new(self.shared);
            let body = move || {
                let mut fuzzer = Fuzzer { random: fastrand::Rng::with_seed(seed), shared: running.shared(), depth };
                fuzzer.steps(1);
                let limit = fuzzer.limit();
                match fuzzer.random.u32(..4) {
                    0 => return Err(fuzzer.harmless_value()),
                    1 => _ = context.sleep(limit),
                    _ => {}
                }
                Ok(())
            };
            if number % 2 == 0 {
                group.go(body);
            } else {
                drop(group.try_go(body));
            }
        }
        if self.random.u32(..4) != 0 {
            verify(group.wait().err());
            if !context.is_done() {
                broken("the context of a group outlives its wait");
            }
        }
    }

    /// Spawns children that borrow from this frame and may fail, in a scope that a panic may end.
    pub(super) fn fallible_scope(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let canary = Canary::new(self.random.u64(..));
        let (shared, depth, ends) = (self.shared, self.depth + 1, self.random.u32(..6));
        let seeds: Vec<u64> = (0..self.random.u32(1..4)).map(|_| self.random.u64(..)).collect();
        let error = self.value();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            try_scope(&shared.root.0, |scope| {
                for seed in seeds {
                    let canary = &canary;
                    scope.go(move || {
                        let mut fuzzer = Fuzzer { random: fastrand::Rng::with_seed(seed), shared, depth };
                        fuzzer.step();
                        canary.verify();
                        let limit = fuzzer.limit();
                        match fuzzer.random.u32(..5) {
                            0 => Err(fuzzer.value()),
                            1 => panic_any(Bomb),
                            2 => scope.context().sleep(limit).map_err(|_| fuzzer.value()),
                            _ => Ok(()),
                        }
                    });
                }
                match ends {
                    0 => panic_any(Bomb),
                    1 => return Err(error),
                    2 => scope.cancel(),
                    _ => {}
                }
                Ok(())
            })
        }));
        canary.verify();
        match ended {
            Ok(result) => verify(result.err()),
            Err(payload) => defuse(Err(payload)),
        }
    }

    /// Lets children wait at a barrier for two rounds.
    pub(super) fn barrier(&mut self) {
        if self.depth == DEEPEST {
            return yield_now();
        }
        let (shared, depth, count) = (self.shared, self.depth + 1, self.random.u32(1..4));
        let seeds: Vec<u64> = (0..count).map(|_| self.random.u64(..)).collect();
        let (barrier, leaders, arrived) = (Barrier::new(count), AtomicU32::new(0), AtomicU32::new(0));
        let (barrier, all) = (&barrier, [&leaders, &arrived]);
        scope(|scope| {
            for seed in seeds {
                scope.go(move || {
                    let mut fuzzer = Fuzzer { random: fastrand::Rng::with_seed(seed), shared, depth };
                    for round in 1..3 {
                        fuzzer.steps(1);
                        all[1].fetch_add(1, Ordering::Relaxed);
                        all[0].fetch_add(barrier.wait().is_leader().into(), Ordering::Relaxed);
                        if all[1].load(Ordering::Relaxed) < round * count {
                            broken("a barrier has let a G through early");
                        }
                    }
                });
            }
        });
        if leaders.load(Ordering::Relaxed) != 2 {
            broken("a barrier has not had one leader in each round");
        }
    }

    pub(super) fn pool(&mut self) {
        let pooled = self.shared.pool.get();
        pooled.verify();
        if self.random.bool() {
            yield_now();
        }
        if self.random.bool() {
            self.shared.pool.put(self.value());
        }
        pooled.verify();
        if self.random.bool() {
            verify(Some(Pooled::into_inner(self.shared.pool.get())));
        }
    }

    /// Makes a call that others may share. The result of a call that was over before this one began must not be shared.
    pub(super) fn single_flight(&mut self) {
        let (key, shared, how, clone_panics) =
            (self.random.u32(..2), self.shared, self.random.u32(..6), self.random.u32(..4) == 0);
        let began = shared.moment();
        let ends = Ends(shared, Arc::new(AtomicU64::new(NOT_YET)));
        let over = ends.1.clone();
        let fetched = shared.flights.call(key, || {
            match how {
                0 => panic_any("a panic in a fetch"),
                1 | 2 => yield_now(),
                3 => shared.flights.forget(&key),
                _ => {}
            }
            Fetch { over, clone_panics }
        });
        if fetched.value.over.load(Ordering::Acquire) < began {
            broken("a single flight returned the value of a call that was over");
        }
    }
}
