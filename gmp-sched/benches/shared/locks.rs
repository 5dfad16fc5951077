//! Workloads that use locks.

use core::hint::black_box;

use super::report::measure;
use crate::platform::{Mutex, Once, REPETITIONS, ReadMostlyRwLock, RwLock, Semaphore, WaitGroup, go};

/// Runs `body` `each` times in each of eight Gs, and waits for all of them.
pub(crate) fn in_eight(each: u64, body: impl Fn() + Copy + Send + 'static) {
    static FINISHED: WaitGroup = WaitGroup::new();
    FINISHED.add(8);
    for _ in 0..8 {
        go(move || {
            (0..each).for_each(|_| body());
            FINISHED.done();
        })
        .detach();
    }
    FINISHED.wait();
}

/// Eight Gs increment a counter under one mutex.
pub(super) fn mutex_8g() {
    const EACH: u64 = 40_000 * REPETITIONS;
    static COUNT: Mutex<u64> = Mutex::new(0);
    measure("mutex_8g", 8 * EACH, || in_eight(EACH, || *COUNT.lock() += 1));
    assert_eq!(*COUNT.lock() % (8 * EACH), 0);
}

/// The cost of lock operations without contention.
pub(super) fn uncontended() {
    fn each(name: &str, body: impl Fn()) {
        const ROUNDS: u64 = 100_000 * REPETITIONS;
        measure(name, ROUNDS, || (0..ROUNDS).for_each(|_| body()));
    }
    let (rwlock, read_mostly, once) = (RwLock::new(0u64), ReadMostlyRwLock::new(0u64), Once::new());
    each("rwlock_read", || _ = black_box(*rwlock.read()));
    each("rwlock_write", || *rwlock.write() += 1);
    each("read_mostly_read", || _ = black_box(*read_mostly.read()));
    each("read_mostly_write", || *read_mostly.write() += 1);
    each("once_done", || once.call_once(|| ()));
}

/// Eight Gs share four permits. Each G acquires and releases one permit at a time.
pub(super) fn semaphore_8g() {
    const EACH: u64 = 50_000 * REPETITIONS;
    static SEMAPHORE: Semaphore = Semaphore::new(4);
    measure("semaphore_8g", 8 * EACH, || in_eight(EACH, || drop(SEMAPHORE.acquire(1))));
}
