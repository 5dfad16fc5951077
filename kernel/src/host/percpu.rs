//! Numbers of CPUs, and turning preemption off. On the host, the number of a CPU is derived from the number of the
//! caller's P.

use core::fmt;
use core::marker::PhantomData;

use gmp_sched::machine::Machine;
use gmp_sched::platform::Platform as _;

use super::cpus;
use super::note::Note;
use super::platform::Kernel;

/// An upper bound for the number of CPUs that are used, the same as on the machine.
pub const MAX_CPUS: usize = 255;

/// The number of a CPU. The numbers begin with 0 and have no gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct CpuId(u32);

impl CpuId {
    /// The first CPU.
    pub const BOOT: Self = Self(0);

    /// Returns the CPU with this number, even if there is no such CPU.
    ///
    /// # Panics
    /// If `index` is not below [`MAX_CPUS`].
    #[track_caller]
    pub const fn new(index: usize) -> Self {
        assert!(index < MAX_CPUS, "no such CPU");
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        Self(index as u32)
    }

    /// The number of this CPU, for use as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the CPU on which the caller runs. The caller may be on another CPU when this returns. On the host, the
/// result is the number of the caller's P modulo the number of CPUs, or the first CPU if the caller has no P. Callable
/// from everywhere.
pub fn current() -> CpuId {
    let processor = Kernel::current_machine().and_then(Machine::processor);
    CpuId::new(processor.map_or(0, |processor| processor.id().get() as usize % cpus::count()))
}

/// Turns preemption off on this CPU as long as this value exists. The holder must not block. On the host this value has
/// no effect, because the host preempts no G.
#[derive(Debug)]
#[must_use = "preemption comes back on when this is dropped"]
pub struct PreemptGuard {
    not_send: PhantomData<*mut ()>,
}

impl PreemptGuard {
    /// Turns preemption off on the machine. Prints a note on the host, once. Callable from everywhere.
    pub fn new() -> Self {
        static NOTE: Note = Note::new(
            "a PreemptGuard does nothing on the host, where a G runs until it waits, yields or ends; \
             on the machine a G that waits with one panics",
        );
        NOTE.say();
        Self { not_send: PhantomData }
    }
}

impl Default for PreemptGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for PreemptGuard {
    fn drop(&mut self) {}
}
