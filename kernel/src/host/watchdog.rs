//! The interface of the machine's watchdog. On the host the watchdog finds nothing, because interrupts and preemption
//! cannot be off.

use super::note::Note;
use super::percpu::CpuId;

pub use self::off_times::OffTimes;

#[path = "../diagnostics/watchdog/off_times.rs"]
mod off_times;

static NOTE: Note =
    Note::new("on the host there are no interrupts and no preemption to watch: kernel::watchdog counts nothing");

/// Returns how many interrupts a CPU of the machine has taken, and 0 on the host. Callable from everywhere.
pub fn interrupts(_: CpuId) -> u64 {
    NOTE.say();
    0
}

/// Returns the longest times for which interrupts and preemption were off on the machine. All values are zero on the
/// host. Callable from everywhere.
pub fn longest_off_times() -> OffTimes {
    NOTE.say();
    OffTimes::default()
}
