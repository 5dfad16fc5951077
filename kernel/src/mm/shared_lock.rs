//! The locks of the heap that all CPUs share. The tests count how often they are taken, and measure for how long they
//! are held.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use spin::Once;

use crate::cpu::cpus;
use crate::cpu::local::{add, cpu_local};
use crate::cpu::sync::{PreemptMutex, PreemptMutexGuard};

cpu_local! {
    /// How often this CPU has taken a [`SharedLock`].
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
}

/// The clock with which a test measures how long the locks are held.
static CLOCK: Once<fn() -> u64> = Once::new();
static LONGEST: AtomicU64 = AtomicU64::new(0);

/// Returns how often the locks were taken since the boot.
pub(crate) fn times_taken() -> usize {
    cpus::all().filter_map(|cpu| TAKEN.of(cpu)).map(|taken| taken.load(Ordering::Relaxed)).sum()
}

/// Returns the longest time for which a lock was held since the last call, by `clock`. The first call begins the
/// measurement.
pub(crate) fn longest_hold(clock: fn() -> u64) -> u64 {
    CLOCK.call_once(|| clock);
    LONGEST.swap(0, Ordering::Relaxed)
}

/// A [`PreemptMutex`] of the heap.
pub(super) struct SharedLock<T>(PreemptMutex<T>);

impl<T> SharedLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(PreemptMutex::new(value))
    }

    /// Takes the lock and turns preemption off.
    #[track_caller]
    pub(super) fn lock(&self) -> SharedGuard<'_, T> {
        let guard = self.0.lock();
        add!(TAKEN, 1);
        SharedGuard { since: CLOCK.get().map(|clock| clock()), guard }
    }
}

impl<T> fmt::Debug for SharedLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Access to the data of a [`SharedLock`].
#[derive(Debug)]
pub(super) struct SharedGuard<'a, T> {
    since: Option<u64>,
    guard: PreemptMutexGuard<'a, T>,
}

impl<T> Deref for SharedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for SharedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for SharedGuard<'_, T> {
    fn drop(&mut self) {
        if let (Some(since), Some(clock)) = (self.since, CLOCK.get()) {
            LONGEST.fetch_max(clock() - since, Ordering::Relaxed);
        }
    }
}
