//! Reports that a CPU has interrupts or preemption off for too long, and reports its recovery.

use core::fmt::{self, Display, Write as _};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::cpu::percpu::CpuId;
use crate::diagnostics::snapshot;
use crate::drivers::console::{Hold, LineWriter};

/// The target of the log messages, which is the public name of the module.
const LOG: &str = "kernel::watchdog";

/// The number of times that a CPU was reported.
static LOCKUPS: AtomicU64 = AtomicU64::new(0);
/// The number of times that a reported CPU has recovered.
static RECOVERIES: AtomicU64 = AtomicU64::new(0);

/// Returns the number of reports about CPUs, and the number of recoveries of reported CPUs.
pub(super) fn counts() -> (u64, u64) {
    (LOCKUPS.load(Ordering::Relaxed), RECOVERIES.load(Ordering::Relaxed))
}

/// Reports that `what` (interrupts or preemption) has been off on a CPU for too long, and where the CPU is. Returns
/// whether the report was printed. `console` is the state of the console's lock at the time of the watchdog's first
/// non-maskable interrupt to that CPU (see [`Hold`]). If another CPU has held the lock ever since, nothing can be
/// printed.
///
/// # Panics
/// If the suspected CPU itself has held the console's lock ever since.
pub(super) fn lockup(cpu: CpuId, what: &str, off_for: u64, console: Hold) -> bool {
    // If the suspected CPU has held the console's lock since that interrupt, no report can be printed. This CPU panics
    // instead, because a panic prints without the lock.
    assert!(!console.is_of(cpu), "CPU {cpu} has had {what} off for {}, and the console is locked", Seconds(off_for));
    if console.goes_on() {
        // Another CPU has held the console's lock since that interrupt. The lock is held with interrupts off, so that
        // other CPU is suspected as well. When that suspicion is confirmed, this function is called for the other CPU,
        // and the assertion above stops the kernel.
        return false;
    }
    log::error!(target: LOG, "CPU {cpu} has had {what} off for {}:", Seconds(off_for));
    if let Some(snapshot) = snapshot::of(cpu) {
        // This cannot fail, because writing to the console returns no errors.
        let _ = write!(LineWriter::to_stderr(), "CPU {cpu}: {snapshot}");
    }
    // The report is counted after it has been printed, because a test may end the run as soon as it sees the count.
    LOCKUPS.fetch_add(1, Ordering::Relaxed);
    true
}

/// Prints that `what` is on again on a CPU that was reported.
pub(super) fn recovery(cpu: CpuId, what: &str, was_off_for: u64) {
    log::warn!(target: LOG, "CPU {cpu} has {what} on again, after {}", Seconds(was_off_for));
    RECOVERIES.fetch_add(1, Ordering::Relaxed);
}

/// A time in nanoseconds, shown in seconds.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0 / 1_000_000;
        write!(f, "{}.{} s", millis / 1000, millis % 1000 / 100)
    }
}
