//! The numbers of CPUs.

use core::fmt;

/// The largest number of CPUs that the kernel uses. In xAPIC mode a local APIC cannot address more, because an id has 8
/// bits and 255 is the broadcast address.
pub const MAX_CPUS: usize = 255;

/// The number of a CPU. The boot CPU has the number 0. The other CPUs are numbered without gaps, in the order in which
/// they came up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct CpuId(u32);

impl CpuId {
    /// The CPU that the firmware started.
    pub const BOOT: Self = Self(0);

    /// Returns the CPU with the number `index`. That CPU need not be up.
    ///
    /// # Panics
    /// If `index` is not below [`MAX_CPUS`].
    #[track_caller]
    pub const fn new(index: usize) -> Self {
        assert!(index < MAX_CPUS, "no such CPU");
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        Self(index as u32)
    }

    /// Returns the CPU with this number, which the caller knows to be below [`MAX_CPUS`].
    pub(super) const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number of this CPU.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Returns the number of this CPU as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
