//! The host's clock, in nanoseconds.

use gmp_sched::platform::Platform as _;

use super::platform::Kernel;

/// Nanoseconds since the first call. Callable from everywhere.
pub fn now() -> u64 {
    Kernel::now().as_nanos()
}

/// The same as [`now`]: on the host a program has no machine that was started before it. Callable from everywhere.
pub fn since_power_on() -> u64 {
    now()
}
