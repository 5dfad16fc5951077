//! The host's clock, in nanoseconds.

use gmp_sched::platform::Platform as _;

use super::platform::Kernel;

/// Returns the nanoseconds since the clock was first read, by the program or by the scheduler. Callable from
/// everywhere.
pub fn now() -> u64 {
    Kernel::now().as_nanos()
}

/// Returns the same as [`now`]. On the machine, this function returns the nanoseconds since the computer was switched
/// on. Callable from everywhere.
pub fn since_power_on() -> u64 {
    now()
}
