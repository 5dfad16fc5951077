//! What the watchdog has measured, on the machine and on the host. The module `host/watchdog` includes this file by its
//! path.

use core::time::Duration;

/// The longest times for which interrupts and preemption were off since the boot, as far as timer ticks have noticed
/// them. Also the number of reports about CPUs, and the number of recoveries of reported CPUs. All values are zero on
/// the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OffTimes {
    /// The longest delay of a timer interrupt on a CPU that ran something. Interrupts were off for that long, or the
    /// host did not run the virtual CPU.
    pub interrupts_off: Duration,
    /// The longest time between a tick that found preemption off and the moment at which preemption was on again.
    pub preemption_off: Duration,
    /// The number of times that a CPU was reported, because one of these times exceeded a second.
    pub lockups: u64,
    /// The number of times that a reported CPU has recovered.
    pub recoveries: u64,
}
