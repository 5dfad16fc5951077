//! The lock of a channel: a test-and-test-and-set spinlock, taken by one instruction if it is free. Lock and unlock are
//! separate calls. The scheduler's [`Lock`](crate::base::spin_lock::Lock) returns a guard instead, which does not suit
//! a select, because a select holds several channel locks at once and releases them on the far side of a switch.

use core::marker::PhantomData;

use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::points::{Points, Site};

/// Exponential backoff between attempts to take a spinlock, from a third of a microsecond up to four times as long.
///
/// The last holder of a lock is the most likely to take it next. A waiter that takes the lock at the moment it becomes
/// free pulls the lock's cache line away from that holder. Then this line and the data under the lock move between CPUs
/// at every operation. (Measured with two threads on one channel: 230 ns per operation without backoff. With eight Gs on
/// two Ps: 27 ns if the backoff begins with one pause, 22 ns if it begins with 16 pauses. If it begins with 64, a select
/// in QEMU takes 1.5 times as long. T. Anderson, *The Performance of Spin Lock Alternatives for Shared-Memory
/// Multiprocessors*, 1990.)
struct Backoff {
    pauses: u32,
}

impl Backoff {
    /// Number of pauses after the first failed attempt. They last longer than one critical section, so that the last
    /// holder can take the lock several times before a waiter tries again.
    const LEAST: u32 = 16;
    /// Maximum number of pauses between two attempts.
    const MOST: u32 = 64;

    fn new<S: Points>() -> Self {
        Self { pauses: S::repetitions(Self::LEAST) }
    }

    /// Pauses after a failed attempt.
    fn wait<S: Points>(&mut self) {
        for _ in 0..self.pauses {
            S::point(Site::LockBusy);
            S::relax();
        }
        self.pauses = (2 * self.pauses).min(Self::MOST);
    }
}

/// A spinlock with separate lock and unlock calls. The holder is pinned.
#[derive(Debug)]
pub(crate) struct SpinningLock<S: Points> {
    /// 1 while locked. The lock is a bit of a 32-bit word and not a byte, because x86-64 has one instruction that sets
    /// such a bit and returns its old value.
    locked: AtomicU32,
    _points: PhantomData<fn() -> S>,
}

impl<S: Points> SpinningLock<S> {
    pub(crate) fn new() -> Self {
        Self { locked: AtomicU32::new(0), _points: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[inline(always)]
    pub(crate) fn try_lock(&self) -> bool {
        S::assert_not_preemptible();
        S::point(Site::Channel);
        // Ordering: Acquire; partner: the Release in `unlock`.
        self.locked.fetch_or(1, Ordering::Acquire) & 1 == 0
    }

    #[cold]
    fn lock_contended(&self) {
        let mut backoff = Backoff::new::<S>();
        while !self.try_lock_again() {
            backoff.wait::<S>();
        }
    }

    /// Tries to take the lock again after a failed attempt. Writes to the word only if the lock seems to be free.
    #[inline(always)]
    pub(crate) fn try_lock_again(&self) -> bool {
        // Ordering: Acquire; partner: the Release in `unlock`.
        self.locked.load(Ordering::Relaxed) == 0 && self.locked.swap(1, Ordering::Acquire) == 0
    }

    /// Releases the lock. The caller holds it.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        debug_assert!(self.locked.load(Ordering::Relaxed) != 0, "unlocks a channel that is not locked");
        // Ordering: Release; partners: the Acquire in `try_lock` and in `try_lock_again`.
        self.locked.store(0, Ordering::Release);
    }
}
