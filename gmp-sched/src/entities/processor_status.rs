//! Who has a P: the word that decides it.

use crate::base::atomic::{AtomicU32, Ordering};

/// Who has a P. Go before 1.26: `_Pidle`, `_Prunning`, `_Psyscall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProcessorStatus {
    /// On the idle list.
    Idle = 0,
    /// Held by an M.
    Running = 1,
    /// Left behind by an M in a system call: whoever moves the word away from here by compare-exchange has it.
    Syscall = 2,
    /// The world is stopped: held by nobody, on no list, to go on when it starts. Go: `_Pgcstop`.
    Stopped = 3,
    /// As `Stopped`, and the M that left it behind is in its system call still: if the world starts before that is over,
    /// the M gets it back as if nothing had happened.
    StoppedInSyscall = 4,
    /// Not in use: [`set_procs`](crate::engine::procs::set_procs) wants fewer. Go: `_Pdead`.
    Dead = 5,
}

/// The status word of a P: it decides by compare-exchange who gets a P whose M is in a system call.
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

    /// By the holder, or under the scheduler lock by whoever takes it from the idle list or has stopped the world.
    pub(crate) fn set(&self, status: ProcessorStatus) {
        // Ordering: Release, so that whoever claims the P from `Syscall` with the Acquire below sees its ring, caches
        // and counters as the M that entered the system call left them.
        self.0.store(status as u32, Ordering::Release);
    }

    /// Claims a P whose M is in a system call; tells whether the caller has it now.
    pub(crate) fn claim_from_syscall(&self) -> bool {
        self.claim(ProcessorStatus::Syscall, ProcessorStatus::Running)
    }

    /// Stops a P whose M is in a system call; tells whether it was in one.
    pub(crate) fn stop_in_syscall(&self) -> bool {
        self.claim(ProcessorStatus::Syscall, ProcessorStatus::StoppedInSyscall)
    }

    fn claim(&self, from: ProcessorStatus, to: ProcessorStatus) -> bool {
        self.0.compare_exchange(from as u32, to as u32, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}
