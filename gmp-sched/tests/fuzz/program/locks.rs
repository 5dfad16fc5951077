//! The operations on locks, condition variables and semaphores that a random program performs.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gmp_sched::sync::{LimitedMutex, LimitedRwLock};

use super::super::platform::{sleep, yield_now};
use super::{Fuzzer, verify_equal};
use crate::value::broken;

impl Fuzzer<'_> {
    pub(super) fn lock(&mut self) {
        let (limit, index, waits) = (self.limit(), self.random.usize(..3), self.random.u32(..4) == 0);
        let leaked = index == 2 && self.random.u32(..100) == 0;
        let Ok(mut numbers) = self.shared.mutexes[index].lock_until(limit) else { return };
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
            let Ok(mut numbers) = self.shared.lock.write_until(limit) else { return };
            let next = numbers[0] + 1;
            numbers.fill(next);
        } else if let Ok(numbers) = self.shared.lock.read_until(limit) {
            let first = numbers[0];
            yield_now();
            if numbers.iter().any(|&number| number != first) {
                broken("a G wrote under a lock that others had to read");
            }
        }
    }

    /// Notifies the condition variable, or waits for it with one of two mutexes. If another G waits with the other
    /// mutex, the wait panics while it still holds its own mutex.
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
        let Ok(mut numbers) = self.shared.mutexes[self.random.usize(..2)].lock_until(limit) else { return };
        let waited = catch_unwind(AssertUnwindSafe(|| self.shared.condvar.wait_for(&mut numbers, limit)));
        verify_equal(&numbers[..]);
        drop((waited, numbers));
    }

    pub(super) fn semaphore(&mut self) {
        let (limit, permits) = (self.limit(), self.random.u32(1..4));
        let acquired = self.shared.semaphore.acquire_timeout(permits, limit);
        if self.random.u32(..8) == 0 {
            // Releases more permits than were acquired, which panics or increases the number of permits.
            let _ = catch_unwind(AssertUnwindSafe(|| self.shared.semaphore.release(u32::MAX)));
        }
        if self.random.bool() {
            yield_now();
        }
        drop(acquired);
    }
}
