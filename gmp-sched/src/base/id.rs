//! The ids of Gs, Ms and Ps, which are numbers.

use core::fmt;

/// The number of a G. In each run of a scheduler, the main G has number 1 and the background G number 2. A scheduler
/// assigns every other number at most once. Go: `goid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoroutineId(pub(crate) u64);

impl GoroutineId {
    /// The number of the main G.
    pub const MAIN: Self = Self(1);
    /// The number of the background G, which gives cached memory back.
    pub(crate) const BACKGROUND: Self = Self(2);

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for GoroutineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an M.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub(crate) u32);

impl MachineId {
    /// The number itself. The first M has number 0.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The number of a P.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessorId(pub(crate) u32);

impl ProcessorId {
    /// The number itself. The first P has number 0.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}
