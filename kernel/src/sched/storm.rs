//! Preemption storms, for tests: the G that runs on a CPU is preempted again and again, usually every few microseconds,
//! at random times.
//!
//! A test that preempts thousands of times per second at thousands of points finds in seconds a fault that would
//! otherwise occur once in a year.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::machine::Machine;
use gmp_sched::preempt;

use crate::cpu::percpu;
use crate::sched::platform::Kernel;

/// The upper half is the shortest time between two preemptions on a CPU, in nanoseconds. The random time that is added
/// to it is less than the lower half, in nanoseconds. Zero if there is no storm. Both halves are in one word, so that
/// the handlers never see the halves of two storms.
static GAPS: AtomicU64 = AtomicU64::new(0);
static RANDOM: AtomicU64 = AtomicU64::new(0x9E37_79B9_7F4A_7C15);

/// A storm on all CPUs, which lasts until this value is dropped. At most one exists at a time.
#[derive(Debug)]
#[must_use = "the storm is over when this is dropped"]
pub struct Storm(());

impl Storm {
    /// Makes every CPU preempt its current G repeatedly, after random times in `gaps`. Each CPU begins at its next
    /// timer tick.
    ///
    /// # Panics
    ///
    /// If there is a storm already, or if `gaps` is empty, begins at zero or ends beyond 4.29 s (2^32 ns).
    #[track_caller]
    pub fn begin(gaps: Range<Duration>) -> Self {
        let nanoseconds = |duration: Duration| u32::try_from(duration.as_nanos()).expect("a gap of 4 s at most");
        let (shortest, end) = (nanoseconds(gaps.start), nanoseconds(gaps.end));
        assert!(shortest > 0 && shortest < end, "gaps from more than nothing to more than that: {gaps:?}");
        let gaps = u64::from(shortest) << 32 | u64::from(end - shortest);
        let before = GAPS.compare_exchange(0, gaps, Ordering::Relaxed, Ordering::Relaxed);
        assert!(before.is_ok(), "it storms already");
        Self(())
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        GAPS.store(0, Ordering::Relaxed);
    }
}

/// In a storm, ends the slice of the G that was interrupted on this CPU, unless preemption is off. Returns the time
/// after which the timer must fire again, or `None` if there is no storm. Called by the timer's handler.
#[inline]
pub(crate) fn strike(machine: Option<&'static Machine<Kernel>>) -> Option<Duration> {
    let gaps = GAPS.load(Ordering::Relaxed);
    if gaps == 0 {
        return None;
    }
    // A slice is not ended while the CPU is in the scheduler. Otherwise the G that the scheduler is about to run would
    // be preempted before its first instruction, and on a slow computer no G would make progress.
    if !percpu::is_preemption_off()
        && let Some(machine) = machine
    {
        preempt::end_slice(machine);
    }
    let random = RANDOM.load(Ordering::Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    RANDOM.store(random, Ordering::Relaxed);
    let (shortest, width) = (gaps >> 32, gaps & u64::from(u32::MAX));
    Some(Duration::from_nanos(shortest + (random >> 32) % width))
}
