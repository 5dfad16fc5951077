//! The lock of a channel: test-and-test-and-set, taken by one instruction if it is free. Not `Lock`, since a select
//! holds several at once and unlocks them on another stack.

use core::marker::PhantomData;

use crate::base::atomic::{AtomicU32, Ordering};
use crate::engine::switch::Commit;
use crate::platform::{Platform, Points, Site};

/// How long to wait between two attempts to take a spinlock: longer after each that fails, up to some microseconds.
///
/// A CPU that takes the line of a lock as soon as it is free takes it from the one that is likeliest to want it next, which
/// is the one that had it: then each use of what the lock guards has to fetch it from the other CPU first. (Two threads
/// with one channel: 230 ns an operation without this, 40 with. T. Anderson, *The Performance of Spin Lock Alternatives for
/// Shared-Memory Multiprocessors*, 1990.)
struct Backoff {
    pauses: u32,
}

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
#[derive(Debug)]
pub(crate) struct SpinningLock<S: Points> {
    /// 1 while somebody has it. A bit of a word, not a byte: x86-64 sets such a bit and tells what it was by one instruction.
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
        let mut backoff = Backoff::new();
        while !self.try_lock_again() {
            backoff.wait::<S>();
        }
    }

    /// One attempt of a caller that waits for the lock: it writes to the word only where the lock seems to be free.
    #[inline(always)]
    pub(crate) fn try_lock_again(&self) -> bool {
        // Ordering: Acquire; partner: the Release in `unlock`.
        self.locked.load(Ordering::Relaxed) == 0 && self.locked.swap(1, Ordering::Acquire) == 0
    }

    /// Unlocks it on the far side of a park.
    ///
    /// # Safety
    ///
    /// It is there until somebody has taken it after that.
    #[inline(always)]
    #[expect(unsafe_code, reason = "passes the lock on as an address")]
    pub(crate) unsafe fn unlock_commit<P: Platform>(&self) -> Commit<P> {
        // SAFETY: by the caller.
        unsafe { Commit::unlock(&self.locked) }
    }

    /// By the holder.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        debug_assert!(self.locked.load(Ordering::Relaxed) != 0, "unlocks a channel that is not locked");
        // Ordering: Release; partner: the Acquire in `lock`.
        self.locked.store(0, Ordering::Release);
    }
}
