//! The memory in which the host observes the scheduler of a machine. The memory is that of the QEMU device
//! `ivshmem-plain`. Each memory has one [`Purpose`], which the host writes into its first word before the machine
//! starts. The scheduler overwrites this word when it begins to use the memory.

/// What the machine writes into a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The trace of the scheduler, in the layout of `gmp_sched::trace::memory`.
    Trace,
    /// A snapshot of the scheduler's state and counters, in the layout of `gmp_sched::snapshot`.
    Numbers,
}

impl Purpose {
    /// The first word of the memory before the scheduler uses it. The kernel distinguishes the memories by this word.
    ///
    /// ```
    /// use boot_protocol::observed_memory::Purpose;
    ///
    /// for purpose in [Purpose::Trace, Purpose::Numbers] {
    ///     assert_eq!(Purpose::parse(purpose.magic()), Some(purpose));
    /// }
    /// assert_eq!(Purpose::parse(0), None);
    /// ```
    #[must_use]
    pub const fn magic(self) -> u64 {
        u64::from_le_bytes(match self {
            Self::Trace => *b"gmp trce",
            Self::Numbers => *b"gmp nmbr",
        })
    }

    /// Returns the purpose whose [`magic`](Self::magic) is `word`, or `None` if there is none.
    #[must_use]
    pub const fn parse(word: u64) -> Option<Self> {
        const TRACE: u64 = Purpose::Trace.magic();
        const NUMBERS: u64 = Purpose::Numbers.magic();
        match word {
            TRACE => Some(Self::Trace),
            NUMBERS => Some(Self::Numbers),
            _ => None,
        }
    }

    /// The name of the memory on QEMU's command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Numbers => "numbers",
        }
    }
}
