//! The operations on locks, condition variables and semaphores that a random program performs.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gmp_sched::sync::lock_api::RwLockUpgradableReadGuard;
use gmp_sched::sync::{LimitedMutex, LimitedRwLock};

use super::super::platform::{Limit, RwLockWriteGuard, sleep, yield_now};
use super::{Fuzzer, verify_equal};
use crate::value::broken;

impl Fuzzer<'_> {
    pub(super) fn lock(&mut self) {
        let (limit, index, waits) = (self.limit(), self.random.usize(..3), self.random.u32(..4) == 0);
        let leaked = index == 2 && self.random.u32(..100) == 0;
        let Ok(mut numbers) = self.shared.mutexes[index].lock_until(Limit::after(limit)) else { return };
        verify_equal(&numbers[..]);
        let next = numbers[0] + 1;
        numbers.fill(next);
        if waits {
            // If this G is in a system call, the yield panics.
            yield_now();
            if numbers.iter().any(|&number| number != next) {
                broken("two Gs were under one lock");
            }
        }
        if leaked {
            mem::forget(numbers);
        } else if waits {
            drop(numbers);
            sleep(limit / 8);
        }
    }

    pub(super) fn lock_shared(&mut self) {
        let limit = self.limit();
        if self.random.u32(..4) == 0 {
            let Ok(mut numbers) = self.shared.lock.write_until(Limit::after(limit)) else { return };
            let next = numbers[0] + 1;
            numbers.fill(next);
        } else if let Ok(numbers) = self.shared.lock.read_until(Limit::after(limit)) {
            let first = numbers[0];
            yield_now();
            if numbers.iter().any(|&number| number != first) {
                broken("a G wrote under a lock that others had to read");
            }
        }
    }

    /// Reads under the lock. In some cases, then upgrades the guard and writes. `upgrade` waits until the other readers
    /// have left; `try_upgrade` fails if there are any.
    pub(super) fn upgradable(&mut self) {
        let (how, wait) = (self.random.u32(..5), self.random.bool());
        let reading = self.shared.lock.upgradable_read();
        let before = reading[0];
        verify_equal(&reading[..]);
        if wait {
            yield_now();
        }
        if reading.iter().any(|&number| number != before) {
            broken("a G wrote under a lock that another G was about to upgrade");
        }
        match how {
            0 => drop(increased(RwLockUpgradableReadGuard::upgrade(reading), before)),
            1 => {
                let numbers = increased(RwLockUpgradableReadGuard::upgrade(reading), before);
                let reading = RwLockWriteGuard::downgrade_to_upgradable(numbers);
                verify_equal(&reading[..]);
                drop(RwLockUpgradableReadGuard::downgrade(reading));
            }
            2 => {
                if let Ok(numbers) = RwLockUpgradableReadGuard::try_upgrade(reading) {
                    verify_equal(&RwLockWriteGuard::downgrade(increased(numbers, before))[..]);
                }
            }
            3 => verify_equal(&RwLockUpgradableReadGuard::downgrade(reading)[..]),
            _ => {}
        }
    }

    pub(super) fn read_mostly(&mut self) {
        let limit = self.limit();
        if self.random.u32(..4) == 0 {
            let Ok(mut numbers) = self.shared.read_mostly.write_until(Limit::after(limit)) else { return };
            let next = numbers[0] + 1;
            numbers.fill(next);
            yield_now();
            if numbers.iter().any(|&number| number != next) {
                broken("two Gs were under one lock");
            }
        } else if let Ok(numbers) = self.shared.read_mostly.read_until(Limit::after(limit)) {
            let first = numbers[0];
            yield_now();
            if numbers.iter().any(|&number| number != first) {
                broken("a G wrote under a lock that others had to read");
            }
        }
    }

    /// Notifies the condition variable, or waits for it with one of two mutexes. If another G waits with the other
    /// mutex, the wait panics, and the caller still holds its own mutex.
    pub(super) fn condvar(&mut self) {
        let (limit, all) = (self.limit(), self.random.bool());
        if self.random.bool() {
            if all {
                self.shared.condvar.notify_all()
            } else {
                usize::from(self.shared.condvar.notify_one())
            };
            return;
        }
        let Ok(mut numbers) = self.shared.mutexes[self.random.usize(..2)].lock_until(Limit::after(limit)) else {
            return;
        };
        let waited = catch_unwind(AssertUnwindSafe(|| self.shared.condvar.wait_timeout(&mut numbers, limit)));
        verify_equal(&numbers[..]);
        drop((waited, numbers));
    }

    pub(super) fn semaphore(&mut self) {
        let (limit, permits) = (self.limit(), self.random.u32(1..4));
        let acquired = self.shared.semaphore.acquire_timeout(permits, limit);
        if self.random.u32(..8) == 0 {
            // Releases more permits than the semaphore has, which panics.
            let _ = catch_unwind(AssertUnwindSafe(|| self.shared.semaphore.release(u32::MAX)));
        }
        if self.random.bool() {
            yield_now();
        }
        drop(acquired);
    }
}

/// Increases the numbers, which are `before` unless another G has written them since the caller began to read.
fn increased(mut numbers: RwLockWriteGuard<'_, [u64; 8]>, before: u64) -> RwLockWriteGuard<'_, [u64; 8]> {
    if numbers[0] != before {
        broken("a G wrote during the upgrade of another G's lock");
    }
    numbers.fill(before + 1);
    numbers
}
