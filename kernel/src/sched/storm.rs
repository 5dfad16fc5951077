//! Preemption storms, for tests: every few microseconds, at random, the G that runs on a CPU is made to give way.
//!
//! What is preempted thousands of times a second in thousands of places shows in seconds what would otherwise go wrong
//! once in a year.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::machine::Machine;
use gmp_sched::preempt;

use crate::cpu::percpu;
use crate::sched::platform::Kernel;

/// Nanoseconds between two strikes on a CPU: at least, and the width of what is added at random; zero is fair weather.
static SHORTEST: AtomicU32 = AtomicU32::new(0);
static WIDTH: AtomicU32 = AtomicU32::new(0);
static RANDOM: AtomicU64 = AtomicU64::new(0x9E37_79B9_7F4A_7C15);

/// It storms on all CPUs as long as this exists. There is one storm at a time.
#[derive(Debug)]
#[must_use = "the storm is over when this is dropped"]
pub struct Storm(());

impl Storm {
    /// Lets every CPU that runs a G preempt it again and again, after a time in `gaps` at random; a CPU takes part from
    /// its next tick on.
    ///
    /// # Panics
    ///
    /// It storms already; `gaps` is empty, begins at zero or ends beyond 4 s.
    pub fn begin(gaps: Range<Duration>) -> Self {
        let nanoseconds = |duration: Duration| u32::try_from(duration.as_nanos()).expect("a gap of 4 s at most");
        let (shortest, end) = (nanoseconds(gaps.start), nanoseconds(gaps.end));
        assert!(shortest > 0 && shortest < end, "gaps from more than nothing to more than that: {gaps:?}");
        WIDTH.store(end - shortest, Ordering::Relaxed);
        let before = SHORTEST.compare_exchange(0, shortest, Ordering::Relaxed, Ordering::Relaxed);
        assert!(before.is_ok(), "it storms already");
        Self(())
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        SHORTEST.store(0, Ordering::Relaxed);
    }
}

/// If it storms, ends the slice of the G that was interrupted on this CPU, and gives the time until the next strike.
/// Called by the timer's handler.
#[inline]
pub(crate) fn strike(machine: Option<&'static Machine<Kernel>>) -> Option<Duration> {
    let shortest = SHORTEST.load(Ordering::Relaxed);
    if shortest == 0 {
        return None;
    }
    // Code of the scheduler is left alone: a G that it lets run in a moment would have to go before its first instruction,
    // and where the machine is slow none would ever get further.
    if !percpu::is_preemption_off()
        && let Some(machine) = machine
    {
        preempt::end_slice(machine);
    }
    let random = RANDOM.load(Ordering::Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    RANDOM.store(random, Ordering::Relaxed);
    let more = (random >> 32) % u64::from(WIDTH.load(Ordering::Relaxed).max(1));
    Some(Duration::from_nanos(u64::from(shortest) + more))
}
