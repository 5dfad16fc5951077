//! The lock of a channel: test-and-test-and-set, taken by one instruction if it is free. Not `Lock`, since a select
//! holds several at once and unlocks them on another stack.

use core::marker::PhantomData;

#[cfg(not(gmp_loom))]
use crate::platform::Site;
use crate::platform::{Platform, Points};
#[cfg(not(gmp_loom))]
use crate::primitives::{AtomicU32, Ordering};
use crate::switch::Commit;
#[cfg(gmp_loom)]
use crate::switch::nothing;

/// How long to wait between two attempts to take a spinlock: longer after each that fails, up to some microseconds.
///
/// A CPU that takes the line of a lock as soon as it is free takes it from the one that is likeliest to want it next, which
/// is the one that had it: then each use of what the lock guards has to fetch it from the other CPU first. (Two threads
/// with one channel: 230 ns an operation without this, 40 with. T. Anderson, *The Performance of Spin Lock Alternatives for
/// Shared-Memory Multiprocessors*, 1990.)
#[cfg(not(gmp_loom))]
struct Backoff {
    pauses: u32,
}

#[cfg(not(gmp_loom))]
impl Backoff {
    /// Pauses between two attempts, at most.
    const MOST: u32 = 64;

    fn new() -> Self {
        Self { pauses: 1 }
    }

    /// An attempt has failed: waits.
    fn wait<S: Points>(&mut self) {
        for _ in 0..self.pauses {
            S::point(Site::LockBusy);
            S::relax();
        }
        self.pauses = (2 * self.pauses).min(Self::MOST);
    }
}

/// A lock that is taken and given back by separate calls. The holder is pinned.
#[cfg(not(gmp_loom))]
#[derive(Debug)]
pub(super) struct RawLock<S: Points> {
    /// 1 while somebody has it. A bit of a word, not a byte: x86-64 sets such a bit and tells what it was by one instruction.
    locked: AtomicU32,
    _points: PhantomData<fn() -> S>,
}

#[cfg(not(gmp_loom))]
impl<S: Points> RawLock<S> {
    pub(super) fn new() -> Self {
        Self { locked: AtomicU32::new(0), _points: PhantomData }
    }

    #[inline(always)]
    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        S::assert_not_preemptible();
        S::point(Site::Channel);
        // Ordering: Acquire; partner: the Release in `unlock`.
        self.locked.fetch_or(1, Ordering::Acquire) & 1 == 0
    }

    #[cold]
    fn lock_contended(&self) {
        let mut backoff = Backoff::new();
        while self.locked.load(Ordering::Relaxed) != 0 || self.locked.swap(1, Ordering::Acquire) != 0 {
            backoff.wait::<S>();
        }
    }

    /// Unlocks it on the far side of a park.
    ///
    /// # Safety
    ///
    /// It is there until somebody has taken it after that.
    #[inline(always)]
    #[expect(unsafe_code, reason = "passes the lock on as an address")]
    pub(super) unsafe fn unlock_commit<P: Platform>(&self) -> Commit<P> {
        // SAFETY: by the caller.
        unsafe { Commit::unlock(&self.locked) }
    }

    /// By the holder.
    #[inline(always)]
    pub(super) fn unlock(&self) {
        debug_assert!(self.locked.load(Ordering::Relaxed) != 0, "unlocks a channel that is not locked");
        // Ordering: Release; partner: the Acquire in `lock`.
        self.locked.store(0, Ordering::Release);
    }
}

/// loom's mutex in its place: a thread that waits for it is blocked instead of trying again, which would be states
/// without end.
#[cfg(gmp_loom)]
#[derive(Debug)]
pub(super) struct RawLock<S: Points> {
    mutex: &'static loom::sync::Mutex<()>,
    guard: core::cell::RefCell<Option<loom::sync::MutexGuard<'static, ()>>>,
    _points: PhantomData<fn() -> S>,
}

#[cfg(gmp_loom)]
#[expect(unsafe_code, reason = "shares a guard between loom's threads")]
// SAFETY: the guard is touched by whoever holds the mutex only.
unsafe impl<S: Points> Sync for RawLock<S> {}

#[cfg(gmp_loom)]
#[expect(unsafe_code, reason = "shares a guard between loom's threads")]
// SAFETY: as above.
unsafe impl<S: Points> Send for RawLock<S> {}

#[cfg(gmp_loom)]
impl<S: Points> RawLock<S> {
    pub(super) fn new() -> Self {
        let mutex = alloc::boxed::Box::leak(alloc::boxed::Box::new(loom::sync::Mutex::new(())));
        Self { mutex, guard: None.into(), _points: PhantomData }
    }

    /// No stack is switched under loom, and no commit run.
    #[expect(unsafe_code, reason = "as above")]
    pub(super) unsafe fn unlock_commit<P: Platform>(&self) -> Commit<P> {
        Commit::new(nothing, 0)
    }

    pub(super) fn lock(&self) {
        let guard = self.mutex.lock().expect("nothing panics under it");
        self.guard.replace(Some(guard));
    }

    pub(super) fn try_lock(&self) -> bool {
        let Ok(guard) = self.mutex.try_lock() else { return false };
        self.guard.replace(Some(guard));
        true
    }

    pub(super) fn unlock(&self) {
        let guard = self.guard.take();
        drop(guard);
    }
}
