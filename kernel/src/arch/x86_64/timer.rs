//! Time: a monotonic clock that is the same on all CPUs, and a one-shot timer on each.
//!
//! The clock is the time stamp counter; the timer is that of the local APIC. The rates of both are unknown at first. A
//! hypervisor may report them; otherwise both are measured against a clock with a known rate, the HPET or the PIT. All rates
//! are 32.32 fixed-point factors.
//!
//! The timer's counter has 32 bits, which is 4.29 s at 1 GHz. For later deadlines it is started several times. No deadline is
//! reported early: if the interrupt comes before the deadline, because the counter is too short or the measurement inexact, the
//! timer is started again. With the kernel option `timer=tsc-deadline` the timer waits for a value of the time stamp counter
//! instead, if the processor supports that.

use core::arch::x86_64::{_mm_lfence, _rdtsc};
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kernel_formats::local_apic::TimerMode;
use raw_cpuid::CpuId;
use x86_64::instructions::interrupts::without_interrupts;

use super::apic;
use super::reference_clock::ReferenceClock;
use crate::arch::acpi;
use crate::cpu::local::cpu_local;

/// How long the clocks are compared. A CPU needs the same time after an INIT (SDM 9.4.4).
const MEASURE_NS: u64 = 10_000_000;

/// No deadline.
const NEVER: u64 = u64::MAX;

/// The time stamp at which the clock was zero.
static EPOCH: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per tick of the time stamp counter. Zero before the measurement, so that the clock does not advance.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);
/// Ticks of the time stamp counter per nanosecond.
static TICKS_PER_NS: AtomicU64 = AtomicU64::new(0);
/// Counts of the APIC's timer per nanosecond.
static COUNTS_PER_NS: AtomicU64 = AtomicU64::new(0);
/// Whether the timers wait for a time stamp instead of counting down.
static WAITS_FOR_TIME_STAMP: AtomicBool = AtomicBool::new(false);

/// Nanoseconds since the clock was started. Monotonic across CPUs: a read never returns less than a read that happened before
/// it, on any CPU. Callable from everywhere.
#[inline]
pub fn now() -> u64 {
    let ticks = time_stamp().wrapping_sub(EPOCH.load(Ordering::Relaxed));
    scale(ticks, NS_PER_TICK.load(Ordering::Relaxed))
}

/// Nanoseconds since the computer was switched on, when the time stamp counter starts from zero. Callable from everywhere.
pub fn since_power_on() -> u64 {
    scale(time_stamp(), NS_PER_TICK.load(Ordering::Relaxed))
}

/// The time stamp counter, read after all earlier loads of the program.
#[inline]
fn time_stamp() -> u64 {
    // SAFETY: every x86_64 processor has SSE2.
    unsafe { _mm_lfence() };
    // SAFETY: reading the counter is always allowed in ring 0.
    unsafe { _rdtsc() }
}

/// `value` times a 32.32 factor.
#[inline]
fn scale(value: u64, factor: u64) -> u64 {
    ((u128::from(value) * u128::from(factor)) >> 32) as u64
}

/// The 32.32 factor `numerator / denominator`.
fn ratio(numerator: u64, denominator: u64) -> u64 {
    u64::try_from((u128::from(numerator) << 32) / u128::from(denominator)).expect("a clock is too slow")
}

/// What the three clocks show at one moment.
#[derive(Clone, Copy)]
struct Reading {
    reference: u64,
    time_stamp: u64,
    /// Counts down.
    timer: u32,
    /// How long the reading took, in ticks of the time stamp counter.
    width: u64,
}

/// Reads the three clocks at nearly the same moment: the shortest of several readings, since the host may preempt the CPU
/// during one.
fn read_clocks(clock: &mut ReferenceClock) -> Reading {
    (0..8)
        .map(|_| {
            let before = time_stamp();
            let reference = clock.read();
            let timer = apic::timer_counts();
            let width = time_stamp() - before;
            Reading { reference, time_stamp: before + width / 2, timer, width }
        })
        .min_by_key(|reading| reading.width)
        .expect("more than none")
}

/// The rates of the two counters: how far each of them counts in the same time.
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// The time, in nanoseconds.
    ns: u64,
    /// Ticks of the time stamp counter.
    ticks: u64,
    /// Counts of the timer.
    counts: u64,
}

/// Determines the rates of the two counters on the boot CPU and starts the clock. Takes at least 10 ms. `kind` is the value of
/// the kernel option `timer`.
pub(crate) fn calibrate(kind: Option<&str>) {
    let begin = time_stamp();
    let (source, rates) = known_rates().map_or_else(measure, |rates| ("hypervisor", rates));
    let Rates { ns, ticks, counts } = rates;
    assert!(ns > 0 && ticks > 0 && counts > 0, "a clock stands still: {rates:?}");
    EPOCH.store(begin, Ordering::Relaxed);
    NS_PER_TICK.store(ratio(ns, ticks), Ordering::Relaxed);
    TICKS_PER_NS.store(ratio(ticks, ns), Ordering::Relaxed);
    COUNTS_PER_NS.store(ratio(counts, ns), Ordering::Relaxed);
    while now() < MEASURE_NS {
        core::hint::spin_loop();
    }
    log::info!("{source}: TSC {} kHz, timer {} kHz", ticks * 1_000_000 / ns, counts * 1_000_000 / ns);
    choose_timer(kind);
}

/// The rates, if a hypervisor reports them.
fn known_rates() -> Option<Rates> {
    let hypervisor = CpuId::new().get_hypervisor_info()?;
    let (ticks, counts) = (hypervisor.tsc_frequency()?, hypervisor.apic_frequency()?);
    // Both are in kHz, and zero if they are not known.
    (ticks != 0 && counts != 0).then_some(Rates { ns: 1_000_000, ticks: ticks.into(), counts: counts.into() })
}

/// Chooses the requested kind of timer, if the processor has it.
fn choose_timer(kind: Option<&str>) {
    match kind {
        None | Some("one-shot") => {}
        Some("tsc-deadline") if apic::has_deadline_timer() => WAITS_FOR_TIME_STAMP.store(true, Ordering::Relaxed),
        Some("tsc-deadline") => log::warn!("timer=tsc-deadline: this processor has none; one-shot is used"),
        Some(other) => log::warn!("timer={other}: not one of one-shot, tsc-deadline"),
    }
}

fn timer_mode() -> TimerMode {
    if WAITS_FOR_TIME_STAMP.load(Ordering::Relaxed) { TimerMode::Deadline } else { TimerMode::OneShot }
}

/// Measures the rates against a clock with a known rate. Returns its name, too.
fn measure() -> (&'static str, Rates) {
    let mut clock = ReferenceClock::start(acpi::tables().hpet);
    apic::set_timer(TimerMode::OneShot);
    apic::start_timer(u32::MAX);
    let first = read_clocks(&mut clock);
    while clock.ns_since(first.reference) < MEASURE_NS {
        // In a virtual machine a read of a device register is slow and takes a lock of the host, so the reads are spaced out.
        for count in 0..2000 {
            black_box(count);
        }
    }
    let last = read_clocks(&mut clock);
    apic::stop_timer(TimerMode::OneShot);
    let ns = clock.to_ns(clock.difference(first.reference, last.reference));
    let ticks = last.time_stamp - first.time_stamp;
    let counts = u64::from(first.timer.wrapping_sub(last.timer));
    (clock.name(), Rates { ns, ticks, counts })
}

cpu_local! {
    /// When the timer of this CPU is to fire, in ns; [`NEVER`] while it is not armed.
    static DEADLINE: AtomicU64 = AtomicU64::new(NEVER);
}

/// When the timer of this CPU is to fire, in ns of [`now`]; `u64::MAX` if it is not armed.
#[inline]
pub(crate) fn deadline() -> u64 {
    DEADLINE.here().load(Ordering::Relaxed)
}

/// Sets the calling CPU's timer up, not armed.
pub(crate) fn init_cpu() {
    apic::set_timer(timer_mode());
}

/// Makes this CPU's timer fire once at `deadline`, in ns of [`now`], or immediately if that has passed. It replaces the
/// deadline set before. Its interrupt finds the deadline [expired](expire). Callable from everywhere; the caller should not be
/// able to migrate.
pub(crate) fn arm(deadline: u64) {
    without_interrupts(|| {
        DEADLINE.here().store(deadline, Ordering::Relaxed);
        start(deadline);
    });
}

/// Starts the timer, for the time until `deadline` or for as long as it can count.
fn start(deadline: u64) {
    if WAITS_FOR_TIME_STAMP.load(Ordering::Relaxed) {
        let ticks = scale(deadline, TICKS_PER_NS.load(Ordering::Relaxed));
        apic::start_timer_at(EPOCH.load(Ordering::Relaxed).saturating_add(ticks).saturating_add(1));
        return;
    }
    let counts = scale(deadline.saturating_sub(now()), COUNTS_PER_NS.load(Ordering::Relaxed));
    // Zero would stop it.
    apic::start_timer(u32::try_from(counts.saturating_add(1)).unwrap_or(u32::MAX));
}

/// Makes this CPU's timer fire as soon as the CPU takes interrupts. The deadline remains set. For the handler of a non-maskable
/// interrupt; without effect if that has interrupted code that was arming the timer.
pub(crate) fn fire_soon() {
    if WAITS_FOR_TIME_STAMP.load(Ordering::Relaxed) {
        apic::start_timer_at(1);
    } else {
        apic::start_timer(1);
    }
}

/// A deadline that the timer of a CPU has reached, and the time, both in ns of [`now`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expired {
    pub(crate) deadline: u64,
    pub(crate) now: u64,
}

/// Takes the deadline of this CPU's timer if it has passed: the timer is not armed afterwards. If it has not passed, because
/// the timer's counter was too short, starts the timer again. Called by the timer's handler.
pub(crate) fn expire() -> Option<Expired> {
    let (deadline, now) = (deadline(), now());
    if deadline == NEVER {
        return None;
    }
    if now < deadline {
        start(deadline);
        return None;
    }
    DEADLINE.here().store(NEVER, Ordering::Relaxed);
    Some(Expired { deadline, now })
}
