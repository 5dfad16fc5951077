//! The numbers of CPUs, Ps and Gs, on the machine and on the host. The module `host/platform` includes this file by its
//! path.

use gmp_sched::scheduler::Scheduler;

use super::scheduler;
use crate::cpus;

/// Returns how many CPUs are up, or on the host how many CPUs this process may use.
#[must_use]
pub fn num_cpu() -> usize {
    cpus::count()
}

/// Returns the number of Ps. At most this number of Gs run at the same time. Returns 1 before the scheduler is made
/// and, on the host, if the caller is not a G.
#[must_use]
pub fn procs() -> usize {
    scheduler().map_or(1, Scheduler::procs)
}

/// Returns how many Gs are alive. Returns 0 before the scheduler is made and, on the host, if the caller is not a G.
#[must_use]
pub fn num_goroutine() -> usize {
    scheduler().map_or(0, Scheduler::num_goroutine)
}
