//! The locks of the heap that all CPUs share. The tests count how often they are taken, and measure for how long they
//! are held. They also measure for how long the lock of the frames is held.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use spin::Once;

use crate::cpu::cpus;
use crate::cpu::local::{Word as _, cpu_local};
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
    pub(super) fn lock(&self) -> Measured<PreemptMutexGuard<'_, T>> {
        let guard = self.0.lock();
        TAKEN.add_here(1);
        Measured::new(guard)
    }
}

impl<T> fmt::Debug for SharedLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The guard of a lock. It measures for how long the lock is held.
#[derive(Debug)]
pub(super) struct Measured<G> {
    since: Option<u64>,
    guard: G,
}

impl<G> Measured<G> {
    /// Makes the guard of a lock that the caller has just taken.
    pub(super) fn new(guard: G) -> Self {
        Self { since: CLOCK.get().map(|clock| clock()), guard }
    }
}

impl<G: Deref> Deref for Measured<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Measured<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

impl<G> Drop for Measured<G> {
    fn drop(&mut self) {
        if let (Some(since), Some(clock)) = (self.since, CLOCK.get()) {
            LONGEST.fetch_max(clock() - since, Ordering::Relaxed);
        }
    }
}
