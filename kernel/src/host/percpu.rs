//! Numbers of CPUs, and turning preemption off. On the host, the number of a CPU is derived from the number of the
//! caller's P.

use gmp_sched::machine::Machine;
use gmp_sched::native::{WaitsForbidden, forbid_waits};
use gmp_sched::platform::Platform as _;

use super::cpus;
use super::platform::Kernel;

pub use super::id::{CpuId, MAX_CPUS};

/// Returns the CPU on which the caller runs. The caller may be on another CPU when this returns. On the host, the
/// result is the number of the caller's P modulo the number of CPUs, or the first CPU if the caller has no P. Callable
/// from everywhere.
pub fn current() -> CpuId {
    let processor = Kernel::current_machine().and_then(Machine::processor);
    CpuId::new(processor.map_or(0, |processor| processor.id().get() as usize % cpus::count()))
}

/// The words with which the message of a panic describes a G that has turned preemption off. On the machine the kernel
/// uses the same words.
pub(super) const PREEMPTION_OFF: &str = "with preemption turned off";

/// Turns preemption of the calling G off as long as this value exists. As on the machine, the G panics if it blocks,
/// yields or ends while it holds the value.
#[derive(Debug)]
#[must_use = "preemption comes back on when this is dropped"]
pub struct PreemptGuard {
    _section: WaitsForbidden,
}

impl PreemptGuard {
    /// Turns preemption off. Callable from everywhere.
    #[track_caller]
    pub fn new() -> Self {
        Self { _section: forbid_waits(PREEMPTION_OFF) }
    }
}

impl Default for PreemptGuard {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}
