//! The status of a P: whether an M holds the P, and if not, what state the P is in.

use crate::base::atomic::{AtomicU32, Ordering};

/// The status of a P: whether an M holds the P, and if not, what state the P is in. Go before 1.26: `_Pidle`,
/// `_Prunning`, `_Psyscall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProcessorStatus {
    /// The P is on the idle list.
    Idle = 0,
    /// An M holds the P.
    Running = 1,
    /// The M that held the P is in a system call. A thread that changes this status to [`Running`](Self::Running) by
    /// compare-exchange takes the P.
    Syscall = 2,
    /// The P has stopped with the world. No M holds the P, and no list contains it, until the world starts. Go:
    /// `_Pgcstop`.
    Stopped = 3,
    /// The world is stopped, and the M that left the P is still in its system call. If the world starts before the call
    /// ends, that M can return to the P and does not notice the stop.
    StoppedInSyscall = 4,
    /// The P is not in use, because the scheduler uses fewer Ps than it has; see
    /// [`set_procs`](crate::refinements::procs::set_procs). Go: `_Pdead`.
    Dead = 5,
}

/// The status word of a P. If the M that last held the P is in a system call, a compare-exchange of this word decides
/// who gets the P: that M, sysmon, or the M that stops the world.
#[derive(Debug)]
pub(crate) struct StatusWord(AtomicU32);

impl StatusWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(ProcessorStatus::Dead as u32))
    }

    pub(crate) fn get(&self) -> ProcessorStatus {
        match self.0.load(Ordering::Relaxed) {
            0 => ProcessorStatus::Idle,
            1 => ProcessorStatus::Running,
            2 => ProcessorStatus::Syscall,
            3 => ProcessorStatus::Stopped,
            4 => ProcessorStatus::StoppedInSyscall,
            _ => ProcessorStatus::Dead,
        }
    }

    /// Sets the status. The caller holds the P. Or the caller holds the scheduler lock, and takes the P from the idle
    /// list or has stopped the world.
    #[inline(always)]
    pub(crate) fn set(&self, status: ProcessorStatus) {
        // Ordering: Release, for an M that claims the P from `Syscall` with the Acquire in `claim`. That M then sees
        // the P's ring, caches and counters as the M that entered the system call left them.
        self.0.store(status as u32, Ordering::Release);
    }

    /// Claims the P if its M is in a system call; returns whether the caller holds the P now.
    #[inline(always)]
    pub(crate) fn claim_from_syscall(&self) -> bool {
        self.claim(ProcessorStatus::Syscall, ProcessorStatus::Running)
    }

    /// Stops the P if its M is in a system call; returns whether it stopped the P.
    pub(crate) fn stop_in_syscall(&self) -> bool {
        self.claim(ProcessorStatus::Syscall, ProcessorStatus::StoppedInSyscall)
    }

    #[inline(always)]
    fn claim(&self, from: ProcessorStatus, to: ProcessorStatus) -> bool {
        self.0.compare_exchange(from as u32, to as u32, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}
