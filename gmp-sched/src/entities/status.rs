//! The status of a G, stored in one word.

use core::fmt;

/// What a G is doing. Go: `_Gidle` … `_Gdead`, with Go's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The G has been made and is started later: the inner G of a coroutine before its first value, or the G of a
    /// delayed function. (A G that is spawned to run at once never has this status.)
    Idle = 0,
    /// The G is on a run queue or on the list of locked Gs, or is about to be run by the M that has taken it from there.
    Runnable = 1,
    /// An M that holds a P runs the G.
    Running = 2,
    /// The G is in a system call. Its M holds no P until the call ends.
    Syscall = 3,
    /// The G is parked; see the wait reason.
    Waiting = 4,
    /// The G has finished, or its slot was never used. The slot is free, or the join handle still refers to the G.
    Dead = 6,
}

impl Status {
    pub(crate) const fn from_bits(bits: u32) -> Self {
        match bits {
            0 => Self::Idle,
            1 => Self::Runnable,
            2 => Self::Running,
            3 => Self::Syscall,
            4 => Self::Waiting,
            _ => Self::Dead,
        }
    }
}

/// [`Status::Waiting`] as it is stored: the upper bits contain the number of the G's scheduler, and further bits show
/// additional work for the waker. A waker compares this word with the one that its own M keeps for this comparison
/// (`Machine::unsampled`). If they are equal, the G belongs to the same scheduler and there is no additional work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParkedStatus(u32);

impl ParkedStatus {
    /// How many schedulers can be numbered in the upper bits.
    pub(crate) const SCHEDULER_LIMIT: u32 = 1 << (u32::BITS - Self::SHIFT);

    const SHIFT: u32 = 8;

    /// The status of a parked G that is not sampled. `scheduler` is the number of the G's scheduler.
    #[inline(always)]
    pub(crate) const fn unsampled(scheduler: u32) -> Self {
        Self(scheduler << Self::SHIFT | Status::Waiting as u32)
    }

    /// Returns this status with the mark that the G is sampled; see [`crate::refinements::sampling`].
    #[inline(always)]
    pub(crate) const fn sampled(self) -> Self {
        Self(self.0 | SAMPLED)
    }

    /// Returns this status without the mark that the G is sampled.
    #[inline(always)]
    pub(crate) const fn without_sampling(self) -> Self {
        Self(self.0 & !SAMPLED)
    }

    #[inline(always)]
    pub(crate) const fn is_sampled(self) -> bool {
        self.0 & SAMPLED != 0
    }

    /// Converts a stored status word.
    #[inline(always)]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(crate) const fn to_bits(self) -> u32 {
        self.0
    }
}

/// The bits of a stored status word that contain the [`Status`].
pub(crate) const STATUS: u32 = 0x1F;

/// The bit of [`ParkedStatus`] that is set if the G is sampled. Its waker then records when the G becomes runnable.
pub(crate) const SAMPLED: u32 = 0x80;

/// The bit of [`ParkedStatus`] that is set if the G waits durably in a bubble. Its waker then counts the G as active in
/// that bubble.
pub(crate) const IN_BUBBLE: u32 = 0x40;

/// The bit of [`ParkedStatus`] that is set if the G is locked to its M. Its waker then leaves the G to that M:
/// see [`crate::refinements::lock_os_thread`].
pub(crate) const LOCKED: u32 = 0x20;

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Runnable => "runnable",
            Self::Running => "running",
            Self::Syscall => "syscall",
            Self::Waiting => "waiting",
            Self::Dead => "dead",
        })
    }
}
