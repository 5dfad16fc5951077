//! The current system call of a P, as sysmon sees it.

#[cfg(any(feature = "std", test))]
use crate::base::atomic::Ordering;
use crate::base::atomic::{AtomicU32, AtomicU64};

/// What sysmon knows about the current system call of the M that last held the P. Used by sysmon only. Go:
/// `sysmontick`.
#[derive(Debug)]
pub(crate) struct CurrentCall {
    /// The P's count of system calls (`syscall_tick`), as sysmon last saw it.
    pub(crate) seen: AtomicU32,
    /// When sysmon last saw that the P's count of system calls had changed.
    pub(crate) since: AtomicU64,
}

impl CurrentCall {
    pub(crate) fn new() -> Self {
        Self { seen: AtomicU32::new(0), since: AtomicU64::new(0) }
    }

    /// Resets the state to that of a new P.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn renew(&self) {
        self.seen.store(0, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
    }
}
