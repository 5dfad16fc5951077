//! What each CPU records about itself: whether it runs a thread, how many interrupts it has taken, and for how long
//! preemption has been off. The watchdog reads these records. They are written only in three cases: in interrupt
//! handlers, when the CPU switches threads or becomes idle, and when a pending switch takes effect. So turning
//! interrupts or preemption off costs nothing extra.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::kthread::watchdog::{CpuDuty, WatchdogDuty};
pub(crate) use kernel_formats::pin_series::NEVER;
use kernel_formats::pin_series::PinSeries;

use crate::arch::x86_64::{apic, interrupts, timer};
use crate::cpu::cpus;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::{self, CpuId};

/// Which CPUs are on watchdog duty, which means that they check the other CPUs.
static DUTY: WatchdogDuty = WatchdogDuty::new();

cpu_local! {
    static ACTIVITY: Activity = Activity::new();
}

/// Returns the record of the executing CPU. The caller must not be able to migrate.
fn here() -> &'static Activity {
    ACTIVITY.here()
}

/// Returns the record of `cpu`, or `None` if that CPU is not up.
pub(crate) fn of(cpu: CpuId) -> Option<&'static Activity> {
    ACTIVITY.of(cpu)
}

/// The record of one CPU. That CPU writes it, and all CPUs read it.
#[derive(Debug)]
pub(crate) struct Activity {
    /// The number of interrupts that the record's CPU has taken.
    interrupts: AtomicU64,
    /// Whether the record's CPU runs a thread, and whether it is on watchdog duty.
    duty: CpuDuty,
    /// For how long preemption was off.
    pins: PinSeries,
    /// The longest delay of a timer interrupt that came while the record's CPU ran a thread, in ns.
    latest_interrupt: AtomicU64,
}

impl Activity {
    const fn new() -> Self {
        Self {
            interrupts: AtomicU64::new(0),
            duty: CpuDuty::new(),
            pins: PinSeries::new(),
            latest_interrupt: AtomicU64::new(0),
        }
    }

    /// Returns the number of interrupts that the record's CPU has taken.
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts.load(Ordering::Relaxed)
    }

    /// Returns the ticks that found preemption off on the record's CPU.
    pub(crate) fn pins(&self) -> &PinSeries {
        &self.pins
    }

    /// Returns two times. The first is the longest delay of a timer interrupt while the record's CPU ran a thread. The
    /// second is the longest time from the first tick of a series (see [`PinSeries`]) until preemption was on again.
    pub(crate) fn longest(&self) -> (Duration, Duration) {
        (Duration::from_nanos(self.latest_interrupt.load(Ordering::Relaxed)), self.pins.longest())
    }

    /// Whether the record's CPU runs a thread. Any CPU may call this.
    pub(crate) fn is_busy(&self) -> bool {
        self.duty.is_busy()
    }
}

/// Counts an interrupt of this CPU. Called by the handler of every interrupt.
#[inline(always)]
pub(crate) fn note_interrupt() {
    let own = here();
    // A load and a store suffice, because only this CPU writes the word, and its interrupt handlers do not interrupt
    // each other.
    own.interrupts.store(own.interrupts.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Ends the series of ticks that found preemption off. Called when preemption is on again on this CPU while a switch is
/// pending.
pub(crate) fn note_unpin() {
    let own = here();
    if own.pins.is_active() {
        own.pins.end(timer::now());
    }
}

/// Called when this CPU's timer has fired at `now` instead of at `deadline`. If the CPU runs a thread and this delay is
/// the longest so far, records the delay.
pub(crate) fn note_lateness(deadline: u64, now: u64) {
    let own = here();
    if own.duty.is_busy() {
        let late = now.saturating_sub(deadline);
        if late > own.latest_interrupt.load(Ordering::Relaxed) {
            own.latest_interrupt.store(late, Ordering::Relaxed);
        }
    }
}

/// Records whether preemption is off for the thread that runs. If this tick begins a series of ticks that find
/// preemption off, makes a switch pending, because that switch ends the series (see [`PinSeries`]). Called by this
/// CPU's timer tick.
pub(crate) fn note_tick(now: u64) {
    let own = here();
    let is_off = own.duty.is_busy() && percpu::preempt_count() != 0;
    if own.pins.tick(is_off, percpu::is_pending(), now) {
        percpu::set_pending();
    }
}

/// Records that this CPU begins to run a thread, or switches to another thread. If this CPU was idle and no other CPU
/// is on watchdog duty, calls an idle CPU to duty, if there is one. The caller is pinned.
pub(crate) fn runs_thread() {
    let own = here();
    own.pins.forget();
    if !own.duty.is_busy() && DUTY.becomes_busy(&own.duty) {
        call_another();
    }
}

/// Records that this CPU has no thread to run. The caller is pinned.
pub(crate) fn runs_nothing() {
    let own = here();
    own.pins.forget();
    own.duty.becomes_idle();
}

/// Interrupts an idle CPU, if there is one, so that it goes on watchdog duty and checks this CPU.
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

/// Returns whether this CPU goes on watchdog duty now. If so, its timer must be armed for a check. Called in an
/// interrupt that another CPU has sent, perhaps to request a watchdog check.
pub(crate) fn answers_call() -> bool {
    DUTY.answers_call(&here().duty, is_another_busy)
}

/// Returns whether this CPU is on watchdog duty from now on. Called in this CPU's timer tick.
pub(crate) fn stays_on_duty() -> bool {
    DUTY.stays_on_duty(&here().duty, is_another_busy)
}
