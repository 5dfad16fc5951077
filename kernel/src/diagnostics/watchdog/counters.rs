//! What each CPU notes of itself.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::kthread::watchdog::CpuDuty;

use super::NEVER;
use crate::arch::x86_64::timer;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::{self, CpuId};

cpu_local! {
    static COUNTERS: Counters = Counters::new();
}

/// The counters of this CPU. The caller cannot migrate.
pub(super) fn here() -> &'static Counters {
    COUNTERS.here()
}

/// The counters of a CPU, `None` if it is not up.
pub(super) fn of(cpu: CpuId) -> Option<&'static Counters> {
    COUNTERS.of(cpu)
}

/// Written by their CPU, read by all.
#[derive(Debug)]
pub(super) struct Counters {
    /// Interrupts that this CPU has taken.
    interrupts: AtomicU64,
    /// Whether it runs a thread, and whether it checks others.
    pub(super) duty: CpuDuty,
    /// The tick that first found preemption off and not on again since, [`NEVER`] if the last one found it on; and the number
    /// of ticks since that found it off.
    pinned_since: AtomicU64,
    pinned_ticks: AtomicU32,
    /// The longest time between such a tick and the end of it, and by which the timer came late, both in ns.
    longest_pin: AtomicU64,
    latest_interrupt: AtomicU64,
}

impl Counters {
    const fn new() -> Self {
        Self {
            interrupts: AtomicU64::new(0),
            duty: CpuDuty::new(),
            pinned_since: AtomicU64::new(NEVER),
            pinned_ticks: AtomicU32::new(0),
            longest_pin: AtomicU64::new(0),
            latest_interrupt: AtomicU64::new(0),
        }
    }

    /// Interrupts that this CPU has taken.
    pub(super) fn interrupts(&self) -> u64 {
        self.interrupts.load(Ordering::Relaxed)
    }

    /// Since when ticks have found preemption off, and the number of those ticks.
    pub(super) fn pinned(&self) -> (u64, u32) {
        (self.pinned_since.load(Ordering::Relaxed), self.pinned_ticks.load(Ordering::Relaxed))
    }

    /// The longest time by which an interrupt was late, and for which preemption was off.
    pub(super) fn longest(&self) -> (Duration, Duration) {
        let load = |word: &AtomicU64| Duration::from_nanos(word.load(Ordering::Relaxed));
        (load(&self.latest_interrupt), load(&self.longest_pin))
    }

    /// Another thread runs here: what preemption was off for is over.
    pub(super) fn forget_pin(&self) {
        self.pinned_since.store(NEVER, Ordering::Relaxed);
    }

    /// The tick of this CPU has found preemption off, or on.
    pub(super) fn note_pin(&self, is_off: bool, now: u64) {
        if !is_off {
            self.forget_pin();
        } else if self.pinned_since.load(Ordering::Relaxed) == NEVER || !percpu::is_pending() {
            self.pinned_since.store(now, Ordering::Relaxed);
            self.pinned_ticks.store(1, Ordering::Relaxed);
            // Honoured and cleared when preemption is on again.
            percpu::set_pending();
        } else {
            self.pinned_ticks.store(self.pinned_ticks.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        }
    }
}

/// This CPU takes an interrupt. Called by every handler.
#[inline(always)]
pub(crate) fn note_interrupt() {
    let own = here();
    // A plain addition: only this CPU writes, and handlers do not interrupt each other.
    own.interrupts.store(own.interrupts.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Preemption is on again on this CPU, after a request came while it was off.
pub(crate) fn note_unpin() {
    let own = here();
    let since = own.pinned_since.load(Ordering::Relaxed);
    if since != NEVER {
        own.forget_pin();
        own.longest_pin.fetch_max(timer::now().saturating_sub(since), Ordering::Relaxed);
    }
}

/// The timer of this CPU, which was to fire at `deadline`, has fired only now.
pub(crate) fn note_lateness(deadline: u64, now: u64) {
    let own = here();
    if own.duty.is_busy() {
        let late = now.saturating_sub(deadline);
        if late > own.latest_interrupt.load(Ordering::Relaxed) {
            own.latest_interrupt.store(late, Ordering::Relaxed);
        }
    }
}
