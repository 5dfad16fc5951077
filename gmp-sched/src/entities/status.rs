//! The status of a G, stored in one word.

use core::fmt;

/// What a G is doing. Go: `_Gidle` … `_Gdead`, with Go's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// A slot in preparation.
    Idle = 0,
    /// On a run queue.
    Runnable = 1,
    /// On an M that holds a P.
    Running = 2,
    /// On an M in a system call, with or without a P.
    Syscall = 3,
    /// Parked; see the wait reason.
    Waiting = 4,
    /// Finished. The slot is free or waits for its join handle.
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

/// [`Status::Waiting`] as it is stored, with the number of the G's scheduler in the upper bits and with bits for
/// additional work of the waker. A waker compares it with the status stored in its own M. If they are equal, the G
/// belongs to the same scheduler and there is no additional work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParkedStatus(u32);

impl ParkedStatus {
    /// The number of schedulers that fit above the bits.
    pub(crate) const SCHEDULER_LIMIT: u32 = 1 << (u32::BITS - Self::SHIFT);

    const SHIFT: u32 = 8;

    /// The status of a parked G of that scheduler that is not sampled.
    #[inline(always)]
    pub(crate) const fn unsampled(scheduler: u32) -> Self {
        Self(scheduler << Self::SHIFT | Status::Waiting as u32)
    }

    /// This status with the G sampled; see `observe`.
    #[inline(always)]
    pub(crate) const fn sampled(self) -> Self {
        Self(self.0 | WATCHED)
    }

    /// This status with the G not sampled.
    #[inline(always)]
    pub(crate) const fn without_sampling(self) -> Self {
        Self(self.0 & !WATCHED)
    }

    #[inline(always)]
    pub(crate) const fn is_sampled(self) -> bool {
        self.0 & WATCHED != 0
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

/// The bits of a stored status that are the [`Status`].
pub(crate) const STATUS: u32 = 0x1F;

/// A bit of [`ParkedStatus`]: the G is sampled, so its waker records when it becomes runnable.
pub(crate) const WATCHED: u32 = 0x80;

/// A bit of [`ParkedStatus`]: the G waits durably in a bubble, so its waker counts it as active there.
pub(crate) const IN_BUBBLE: u32 = 0x40;

/// A bit of [`ParkedStatus`]: the G is locked to its M, so its waker readies it in another way. See
/// [`crate::engine::lock_os_thread`].
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
