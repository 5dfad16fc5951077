//! What each CPU records about itself: whether it runs a thread, how many interrupts it has taken, and for how long preemption
//! has been off. The watchdog reads it. Only interrupts and thread switches record something, so turning interrupts or
//! preemption off costs nothing.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::kthread::watchdog::{CpuDuty, WatchdogDuty};

use crate::arch::x86_64::{apic, interrupts, timer};
use crate::cpu::cpus;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::{self, CpuId};

/// No time.
pub(crate) const NEVER: u64 = u64::MAX;

/// The CPUs that check the others.
static DUTY: WatchdogDuty = WatchdogDuty::new();

cpu_local! {
    static ACTIVITY: Activity = Activity::new();
}

/// What this CPU records. The caller cannot migrate.
fn here() -> &'static Activity {
    ACTIVITY.here()
}

/// What a CPU has recorded, `None` if it is not up.
pub(crate) fn of(cpu: CpuId) -> Option<&'static Activity> {
    ACTIVITY.of(cpu)
}

/// The record of one CPU, which writes it; all CPUs read it.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Interrupts that this CPU has taken.
    interrupts: AtomicU64,
    /// Whether it runs a thread, and whether it checks others.
    duty: CpuDuty,
    /// The time of the first of the ticks that have found preemption off without a break, [`NEVER`] if the last tick found it
    /// on; and the number of those ticks.
    pinned_since: AtomicU64,
    pinned_ticks: AtomicU32,
    /// The longest time from such a tick until preemption was on again, and the longest delay of a timer interrupt, both in ns.
    longest_pin: AtomicU64,
    latest_interrupt: AtomicU64,
}

impl Activity {
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
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts.load(Ordering::Relaxed)
    }

    /// Since when ticks have found preemption off without a break, and the number of those ticks.
    pub(crate) fn pinned(&self) -> (u64, u32) {
        (self.pinned_since.load(Ordering::Relaxed), self.pinned_ticks.load(Ordering::Relaxed))
    }

    /// The longest delay of a timer interrupt, and the longest time for which preemption was off.
    pub(crate) fn longest(&self) -> (Duration, Duration) {
        let load = |word: &AtomicU64| Duration::from_nanos(word.load(Ordering::Relaxed));
        (load(&self.latest_interrupt), load(&self.longest_pin))
    }

    /// Whether the CPU runs a thread.
    pub(crate) fn is_busy(&self) -> bool {
        self.duty.is_busy()
    }

    /// Called when another thread runs: preemption is off for another reason, if it is.
    fn forget_pin(&self) {
        self.pinned_since.store(NEVER, Ordering::Relaxed);
    }

    /// Records whether the tick of this CPU has found preemption off.
    fn note_pin(&self, is_off: bool, now: u64) {
        if !is_off {
            self.forget_pin();
        } else if self.pinned_since.load(Ordering::Relaxed) == NEVER || !percpu::is_pending() {
            self.pinned_since.store(now, Ordering::Relaxed);
            self.pinned_ticks.store(1, Ordering::Relaxed);
            // It is honoured, and so cleared, when preemption is on again.
            percpu::set_pending();
        } else {
            self.pinned_ticks.store(self.pinned_ticks.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        }
    }
}

/// Counts an interrupt of this CPU. Called by every handler.
#[inline(always)]
pub(crate) fn note_interrupt() {
    let own = here();
    // A load and a store suffice: only this CPU writes, and handlers do not interrupt each other.
    own.interrupts.store(own.interrupts.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Called when preemption is on again on this CPU, after a request came while it was off.
pub(crate) fn note_unpin() {
    let own = here();
    let since = own.pinned_since.load(Ordering::Relaxed);
    if since != NEVER {
        own.forget_pin();
        own.longest_pin.fetch_max(timer::now().saturating_sub(since), Ordering::Relaxed);
    }
}

/// Records the delay of this CPU's timer, which has fired at `now` instead of `deadline`.
pub(crate) fn note_lateness(deadline: u64, now: u64) {
    let own = here();
    if own.duty.is_busy() {
        let late = now.saturating_sub(deadline);
        if late > own.latest_interrupt.load(Ordering::Relaxed) {
            own.latest_interrupt.store(late, Ordering::Relaxed);
        }
    }
}

/// Records whether preemption is off for the thread that runs. Called by the tick of this CPU.
pub(crate) fn note_tick(now: u64) {
    let own = here();
    own.note_pin(own.duty.is_busy() && percpu::preempt_count() != 0, now);
}

/// Called when this CPU begins to run a thread, or another one than before. The caller is pinned.
pub(crate) fn runs_thread() {
    let own = here();
    own.forget_pin();
    if !own.duty.is_busy() && DUTY.becomes_busy(&own.duty) {
        call_another();
    }
}

/// Called when this CPU has no thread to run. The caller is pinned.
pub(crate) fn runs_nothing() {
    let own = here();
    own.forget_pin();
    own.duty.becomes_idle();
}

/// Interrupts a CPU that halts, which then checks this one.
#[cold]
fn call_another() {
    let this = percpu::current();
    if let Some(other) = cpus::all().find(|&cpu| cpu != this && of(cpu).is_some_and(|other| !other.is_busy())) {
        apic::send(other, interrupts::RESCHEDULE);
    }
}

fn is_another_busy() -> bool {
    let this = percpu::current();
    cpus::all().filter(|&cpu| cpu != this).filter_map(of).any(Activity::is_busy)
}

/// Called when another CPU has interrupted this one, perhaps to be checked. Returns whether this CPU is on watchdog duty now.
/// In an interrupt.
pub(crate) fn answers_call() -> bool {
    DUTY.answers_call(&here().duty, is_another_busy)
}

/// Whether this CPU is on watchdog duty after its tick. In an interrupt.
pub(crate) fn stays_on_duty() -> bool {
    DUTY.stays_on_duty(&here().duty, is_another_busy)
}
