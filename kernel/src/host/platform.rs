//! The scheduler on threads of the host. Types and functions have the same names as on the machine.

use gmp_sched::goroutine::Goroutine;
use gmp_sched::machine::Machine;
use gmp_sched::platform::Platform as _;
use gmp_sched::scheduler::Scheduler;

pub use self::counts::{num_cpu, num_goroutine, procs};
pub use gmp_sched::native::Native as Kernel;

#[path = "../sched/platform/counts.rs"]
mod counts;

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
