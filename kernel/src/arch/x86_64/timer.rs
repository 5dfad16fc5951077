//! Time: a monotonic clock that is the same on all CPUs, and a one-shot timer on each CPU.
//!
//! The clock is the time stamp counter (TSC), and the timer is that of the local APIC. The rates of both are unknown at
//! first. A hypervisor may report them. Otherwise both are measured against a clock with a known rate
//! ([`kernel_formats::calibration`]).
//!
//! The timer's counter has 32 bits, so at 1 GHz it can count for at most 4.29 s. For later deadlines the timer is
//! started several times. No deadline is reported early: if the interrupt comes before the deadline, because the
//! counter is too short or the measurement is inexact, the timer is started again.
//!
//! With the kernel option `timer=tsc-deadline` the timer instead fires when the time stamp counter reaches a value, if
//! the processor supports that.
//!
//! With the kernel option `timer_align=on` the work of the timer's interrupt begins a fixed number of instructions after
//! the time at which the timer was to fire, if QEMU counts instructions: see [`align`].

use core::arch::asm;
use core::arch::x86_64::{_mm_lfence, _rdtsc};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kernel_formats::calibration::{self, Clocks, Rates, Reading, Source};
use kernel_formats::fixed_point::Factor;
use kernel_formats::local_apic::TimerMode;
use raw_cpuid::CpuId;
use x86_64::instructions::interrupts;

use super::apic;
use super::reference_clock::ReferenceClock;
use crate::arch::acpi;
use crate::cpu::local::cpu_local;

/// The least time that [`calibrate`] takes, in ns. If no hypervisor reports the rates of the clocks, `calibrate`
/// compares the clocks during this time. Otherwise it only waits, because the other CPUs need 10 ms after the INIT that
/// the boot CPU has sent to them (SDM 9.4.4).
const MEASURE_NS: u64 = 10_000_000;

/// The deadline of a timer that is not armed.
const NEVER: u64 = u64::MAX;

/// The value of the time stamp counter at which the clock was zero.
static EPOCH: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per tick of the time stamp counter, as the bits of a [`Factor`]. Zero before the rates are known, so
/// that the clock shows zero until then.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);
/// Counts of the APIC's timer per nanosecond, as the bits of a [`Factor`].
static COUNTS_PER_NS: AtomicU64 = AtomicU64::new(0);
/// Whether [`align`] does anything: the value of the kernel option `timer_align`.
static ALIGNS: AtomicBool = AtomicBool::new(false);
/// Whether the timers are in deadline mode. Otherwise they are in one-shot mode.
static WAITS_FOR_TIME_STAMP: AtomicBool = AtomicBool::new(false);

/// Returns the nanoseconds since the clock was started, or zero before the start. Monotonic across CPUs: if one call
/// happens before another, on the same or another CPU, the later call returns the same value or a greater one. Callable
/// from everywhere.
#[inline]
pub fn now() -> u64 {
    time_at(time_stamp())
}

/// Returns the time at which the time stamp counter has this value, in ns of [`now`].
#[inline]
fn time_at(stamp: u64) -> u64 {
    ns_per_tick().convert(stamp.wrapping_sub(EPOCH.load(Ordering::Relaxed)))
}

/// Returns the nanoseconds since the time stamp counter was zero, which is when the computer was switched on. Returns
/// zero before the clock is started. Callable from everywhere.
pub fn since_power_on() -> u64 {
    ns_per_tick().convert(time_stamp())
}

#[inline]
fn ns_per_tick() -> Factor {
    Factor::from_bits(NS_PER_TICK.load(Ordering::Relaxed))
}

/// Reads the time stamp counter, after all earlier loads of this CPU have completed.
#[inline]
fn time_stamp() -> u64 {
    // SAFETY: this instruction needs SSE2, which every x86_64 processor has.
    unsafe { _mm_lfence() };
    // SAFETY: reading the counter is always allowed in ring 0.
    unsafe { _rdtsc() }
}

/// The clocks that the calibration reads: the time stamp counter and the timer of the boot CPU, and the reference
/// clock.
struct Hardware<'a>(&'a mut ReferenceClock);

impl Clocks for Hardware<'_> {
    fn start_timer(&mut self) {
        apic::start_timer(u32::MAX);
    }

    fn read(&mut self) -> Reading {
        let read = |_| {
            let before = time_stamp();
            let reference = self.0.read();
            let timer = apic::timer_counts();
            let width = time_stamp().wrapping_sub(before);
            (width, Reading { reference, time_stamp: before.wrapping_add(width / 2), timer })
        };
        let (_, reading) = (0..8).map(read).min_by_key(|&(width, _)| width).expect("there are eight");
        reading
    }
}

/// Determines the rates of the time stamp counter and of the timer, on the boot CPU, and starts the clock. Takes at
/// least 10 ms. `kind` is the value of the kernel option `timer`.
pub(crate) fn calibrate(kind: Option<&str>) {
    let begin = time_stamp();
    let (source, rates) = known_rates().map_or_else(measure, |rates| ("hypervisor", rates));
    EPOCH.store(begin, Ordering::Relaxed);
    NS_PER_TICK.store(Factor::new(rates.ticks, rates.ns).to_bits(), Ordering::Relaxed);
    COUNTS_PER_NS.store(Factor::new(rates.ns, rates.counts).to_bits(), Ordering::Relaxed);
    while now() < MEASURE_NS {
        core::hint::spin_loop();
    }
    log::info!("{source}: TSC {} kHz, timer {} kHz", rates.ticks_hz() / 1000, rates.counts_hz() / 1000);
    choose_timer(kind);
}

/// Returns the rates that the hypervisor reports. Returns `None` if there is no hypervisor, or if it does not report
/// both rates.
fn known_rates() -> Option<Rates> {
    let hypervisor = CpuId::new().get_hypervisor_info()?;
    let (ticks, counts) = (hypervisor.tsc_frequency()?, hypervisor.apic_frequency()?);
    // Both rates are in kHz. Zero means that the hypervisor does not know the rate.
    (ticks != 0 && counts != 0).then_some(Rates { ns: 1_000_000, ticks: ticks.into(), counts: counts.into() })
}

/// Chooses the kind of timer that the kernel option requests, if the processor has it, and otherwise the one-shot
/// timer.
fn choose_timer(kind: Option<&str>) {
    match kind {
        Some("tsc-deadline") if apic::has_deadline_timer() => WAITS_FOR_TIME_STAMP.store(true, Ordering::Relaxed),
        Some("tsc-deadline") => log::warn!("timer=tsc-deadline: this processor has none; one-shot is used"),
        // The option is absent or `one-shot`. The kernel has already rejected other values.
        _ => {}
    }
}

fn timer_mode() -> TimerMode {
    if WAITS_FOR_TIME_STAMP.load(Ordering::Relaxed) { TimerMode::Deadline } else { TimerMode::OneShot }
}

/// Measures the rates against clocks with a known rate. Returns the chosen rates and the name of their source: the name
/// of a clock, or `CPUID` (see [`calibration::choose`]).
///
/// # Panics
/// If no clock can be used.
fn measure() -> (&'static str, Rates) {
    apic::set_timer(TimerMode::OneShot);
    let measurements = ReferenceClock::all(acpi::tables()).filter_map(|mut clock| {
        let measured = calibration::measure(clock.reference(), &mut Hardware(&mut clock), MEASURE_NS);
        let measured = measured.inspect_err(|failure| log::warn!("clock {} is not used: {failure}", clock.name()));
        measured.ok().map(|rates| (clock.name(), rates))
    });
    let chosen = calibration::choose(measurements, stated_rate());
    apic::stop_timer(TimerMode::OneShot);
    match chosen.expect("no clock with a known rate counts: neither HPET nor ACPI timer nor PIT") {
        (Source::Measured(name), rates) => (name, rates),
        (Source::Stated(name), rates) => {
            log::warn!("clock {name} contradicts the processor, which states the rate of its TSC: the latter is used");
            ("CPUID", rates)
        }
        (Source::Disputed(name), rates) => {
            log::warn!("the clocks contradict each other, and the processor states no rate of its TSC: {name} is used");
            (name, rates)
        }
    }
}

/// Returns the rate of the time stamp counter in Hz, as CPUID states it (leaf 0x15). If CPUID does not state this rate,
/// returns the base frequency of the processor (leaf 0x16), which usually equals the rate of the time stamp counter.
/// Returns `None` if CPUID states neither.
fn stated_rate() -> Option<u64> {
    let cpuid = CpuId::new();
    let base_rate = || Some(u64::from(cpuid.get_processor_frequency_info()?.processor_base_frequency()) * 1_000_000);
    cpuid.get_tsc_info().and_then(|tsc| tsc.tsc_frequency()).or_else(base_rate)
}

cpu_local! {
    /// The deadline of this CPU's timer, in ns of [`now`], or [`NEVER`] while the timer is not armed.
    static DEADLINE: AtomicU64 = AtomicU64::new(NEVER);
    /// The value of the time stamp counter at which this CPU's one-shot timer fires, if both count at the same rate. They
    /// do if QEMU counts instructions. Only [`align`] reads it.
    static EXPECTED: AtomicU64 = AtomicU64::new(0);
}

/// Returns the deadline of this CPU's timer, in ns of [`now`], or `u64::MAX` if the timer is not armed.
#[inline]
pub(crate) fn deadline() -> u64 {
    DEADLINE.here().load(Ordering::Relaxed)
}

/// Sets the mode and vector of the calling CPU's timer. Leaves the timer unarmed.
pub(crate) fn init_cpu() {
    apic::set_timer(timer_mode());
}

/// Arms this CPU's timer: makes the timer fire once at `deadline`, in ns of [`now`]. If `deadline` has passed, the
/// timer fires immediately. If the timer is armed already, the new deadline replaces the old one. The handler of the
/// timer's interrupt calls [`expire`]. Called with interrupts off.
pub(crate) fn arm(deadline: u64) {
    debug_assert!(!interrupts::are_enabled(), "the handler of the timer could come between the two steps");
    DEADLINE.here().store(deadline, Ordering::Relaxed);
    start(deadline);
}

/// Starts the timer, so that it fires at `deadline`. If the timer cannot count for so long, it fires after the longest
/// time that it can count, and [`expire`] starts it again.
fn start(deadline: u64) {
    if WAITS_FOR_TIME_STAMP.load(Ordering::Relaxed) {
        // After this many ticks since `EPOCH`, `now` returns `deadline` or more for the first time. The timer must not
        // fire earlier, because `expire` would then have to start it again.
        let ticks = ns_per_tick().convert_back(deadline);
        apic::start_timer_at(EPOCH.load(Ordering::Relaxed).saturating_add(ticks));
        return;
    }
    let factor = Factor::from_bits(COUNTS_PER_NS.load(Ordering::Relaxed));
    let stamp = time_stamp();
    let counts = factor.convert(deadline.saturating_sub(time_at(stamp)));
    // One count is added, because a count of zero would stop the timer.
    let counts = u32::try_from(counts.saturating_add(1)).unwrap_or(u32::MAX);
    EXPECTED.here().store(stamp.wrapping_add(counts.into()), Ordering::Relaxed);
    apic::start_timer(counts);
}

/// Makes this CPU's timer fire at once, without changing the deadline. The CPU takes the interrupt as soon as its
/// interrupts are on. Called by the handler of a non-maskable interrupt. If that handler has interrupted [`arm`], this
/// call may have no effect, because `arm` then sets the timer again.
pub(crate) fn fire_soon() {
    if WAITS_FOR_TIME_STAMP.load(Ordering::Relaxed) {
        apic::start_timer_at(1);
    } else {
        apic::start_timer(1);
    }
}

/// If [`align`] is in use, the work of a timer's interrupt begins this many instructions after the timer was to fire. An
/// optimised kernel needs fewer than 100 instructions to get there, and an unoptimised one fewer than 1000. More than
/// that would make each interrupt longer.
const ALIGNMENT: u64 = if cfg!(debug_assertions) { 1000 } else { 150 };

/// Sets whether [`align`] does anything. Called before a timer is armed.
pub(crate) fn set_alignment(aligns: bool) {
    ALIGNS.store(aligns, Ordering::Relaxed);
}

/// If QEMU counts instructions, waits until exactly [`ALIGNMENT`] instructions have been executed since this CPU's timer
/// was to fire. Returns at once if that time has passed. Called at the start of the handler of the timer's interrupt.
///
/// Each instruction then takes one tick of the time stamp counter. After all CPUs have halted, QEMU may let a timer fire
/// a few ticks late (see `sched::idle`). This function executes as many no-ops as there are ticks left, so nothing
/// after it depends on how late the timer has fired.
#[inline]
pub(crate) fn align() {
    if !ALIGNS.load(Ordering::Relaxed) {
        return;
    }
    let left = EXPECTED.here().load(Ordering::Relaxed).wrapping_add(ALIGNMENT).wrapping_sub(time_stamp());
    // The difference has wrapped around if the time has passed.
    if left > ALIGNMENT {
        return;
    }
    // SAFETY: the instructions before the label are `ALIGNMENT` no-ops of one byte each, and `left` is not
    // larger. So the jump goes to one of them, or to the label.
    unsafe {
        asm!(
            "lea {target}, [rip + 2f]",
            "sub {target}, {left}",
            "jmp {target}",
            ".rept {alignment}",
            "nop",
            ".endr",
            "2:",
            target = out(reg) _,
            left = in(reg) left,
            alignment = const ALIGNMENT,
            options(nomem, nostack),
        );
    }
}

/// A deadline that a CPU's timer has reached, and the time at which this was noticed, both in ns of [`now`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expired {
    pub(crate) deadline: u64,
    pub(crate) now: u64,
}

/// If the deadline of this CPU's timer has passed, clears and returns the deadline. The timer is then no longer armed.
/// If the deadline has not passed, for example because the timer's counter was too short, or after [`fire_soon`],
/// starts the timer again and returns `None`. Also returns `None` if the timer is not armed. Called by the handler of
/// the timer's interrupt.
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
