//! The interface of the machine's watchdog. On the host the watchdog finds nothing, because interrupts and preemption
//! cannot be off.

use core::time::Duration;

use super::note::Note;
use super::percpu::CpuId;

static NOTE: Note =
    Note::new("on the host there are no interrupts and no preemption to watch: kernel::watchdog counts nothing");

/// The longest times for which interrupts and preemption were off since the boot, and how many times a CPU was
/// reported. All values are zero on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Windows {
    /// The longest delay of a timer interrupt on a CPU that ran something.
    pub interrupts_off: Duration,
    /// The longest time from a timer tick that found preemption off until preemption was on again.
    pub preemption_off: Duration,
    /// How many times a CPU was reported because one of these times exceeded a second.
    pub lockups: u64,
    /// How many times a reported CPU has recovered.
    pub recoveries: u64,
}

/// Returns how many interrupts a CPU of the machine has taken, and 0 on the host. Callable from everywhere.
pub fn interrupts(_: CpuId) -> u64 {
    NOTE.say();
    0
}

/// Returns the longest times for which interrupts and preemption were off on the machine. All values are zero on the
/// host. Callable from everywhere.
pub fn longest_windows() -> Windows {
    NOTE.say();
    Windows::default()
}
