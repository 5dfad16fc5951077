//! The scheduler, on threads of the host: the same names as on the machine.

use gmp_sched::goroutine::Goroutine;
use gmp_sched::machine::Machine;
use gmp_sched::platform::Platform as _;
use gmp_sched::scheduler::Scheduler;

use super::cpus;

pub use gmp_sched::native::Native as Kernel;

gmp_sched::platform_aliases!(Kernel);

/// The caller's scheduler; `None` if the caller is not a G. Callable from everywhere.
pub fn scheduler() -> Option<&'static Scheduler<Kernel>> {
    Kernel::current_machine().map(Machine::scheduler)
}

/// The calling G.
pub(super) fn goroutine() -> Option<&'static Goroutine<Kernel>> {
    Kernel::current_machine().and_then(Machine::current_goroutine)
}

/// CPUs of the host that this process may use.
#[must_use]
pub fn num_cpu() -> usize {
    cpus::count()
}

/// Gs that run at once, at most.
#[must_use]
pub fn procs() -> usize {
    scheduler().map_or(1, Scheduler::procs)
}

/// Gs that are alive.
#[must_use]
pub fn num_goroutine() -> usize {
    scheduler().map_or(0, Scheduler::num_goroutine)
}
