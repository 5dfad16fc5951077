//! The scheduler on threads of the host. Types and functions have the same names as on the machine.

use gmp_sched::goroutine::Goroutine;
use gmp_sched::machine::Machine;
use gmp_sched::platform::Platform as _;
use gmp_sched::scheduler::Scheduler;

use super::cpus;

pub use gmp_sched::native::Native as Kernel;

gmp_sched::platform_aliases!(Kernel);

#[doc(no_inline)]
pub use crate::select;

/// Returns the caller's scheduler, or `None` if the caller is not a G. Callable from everywhere.
pub fn scheduler() -> Option<&'static Scheduler<Kernel>> {
    Kernel::current_machine().map(Machine::scheduler)
}

/// Returns the calling G, or `None` if the caller is not a G.
pub(super) fn goroutine() -> Option<&'static Goroutine<Kernel>> {
    Kernel::current_machine().and_then(Machine::current_goroutine)
}

/// Returns how many CPUs of the host this process may use.
#[must_use]
pub fn num_cpu() -> usize {
    cpus::count()
}

/// Returns the number of Ps, which is how many Gs can run at the same time. Returns 1 if the caller is not a G.
#[must_use]
pub fn procs() -> usize {
    scheduler().map_or(1, Scheduler::procs)
}

/// Returns how many Gs are alive. Returns 0 if the caller is not a G.
#[must_use]
pub fn num_goroutine() -> usize {
    scheduler().map_or(0, Scheduler::num_goroutine)
}
