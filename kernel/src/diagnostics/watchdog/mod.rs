//! Finds CPUs on which interrupts, or preemption, are off for more than a second: the CPUs check each other and themselves.
//!
//! | file | what |
//! |---|---|
//! | `counters` | what each CPU notes of itself, at no cost for the code that turns interrupts or preemption off |
//! | [`kernel_formats::suspicion`] | the states of a suspicion, tested on the host |
//! | `scan` | the check of all CPUs, twice a second |
//! | `report` | what is printed |
//!
//! That a CPU has taken an interrupt shows in a counter; a CPU that runs something has a tick, so a counter that has not
//! changed for a second is suspicious. That preemption is off is seen by the CPU's own tick, which finds a count that is not
//! zero, and a request to switch that it left there the last time and that has not been honoured: so the count has not been
//! zero in between.
//!
//! A virtual CPU that its host does not run looks the same. So a suspect is asked where it is by a non-maskable interrupt, and
//! again at each check: it is reported, with its last answer, only if it answers several times that it is off, and has
//! taken no interrupt in between.
//!
//! The CPU whose timer fires when a check is due does it; [`WatchdogDuty`] sees to it that there is one as long as a CPU is busy. It
//! may always be the same CPU, and the very one that has preemption off: so it checks itself, too.

mod counters;
mod report;
mod scan;

use core::time::Duration;

use gmp_sched::kthread::watchdog::WatchdogDuty;

use crate::arch::x86_64::{apic, interrupts};
use crate::cpu::cpus;
use crate::cpu::percpu::{self, CpuId};
pub(crate) use counters::{note_interrupt, note_lateness, note_unpin};

const NEVER: u64 = u64::MAX;

/// The CPUs that check.
static DUTY: WatchdogDuty = WatchdogDuty::new();

/// This CPU runs a thread from here on, or another one than before. The caller is pinned.
pub(crate) fn runs_thread() {
    let own = counters::here();
    own.forget_pin();
    if !own.duty.is_busy() && DUTY.becomes_busy(&own.duty) {
        call_another();
    }
}

/// This CPU has nothing to run from here on. The caller is pinned.
pub(crate) fn runs_nothing() {
    let own = counters::here();
    own.forget_pin();
    own.duty.becomes_idle();
}

/// Makes a CPU that halts check this one.
#[cold]
fn call_another() {
    let this = percpu::current();
    if let Some(other) = cpus::all().find(|&cpu| cpu != this && counters::of(cpu).is_some_and(|it| !it.duty.is_busy()))
    {
        apic::send(other, interrupts::RESCHEDULE);
    }
}

fn is_another_busy() -> bool {
    let this = percpu::current();
    cpus::all().filter(|&cpu| cpu != this).filter_map(counters::of).any(|other| other.duty.is_busy())
}

/// Another CPU has interrupted this one, perhaps to be checked. Returns when its timer has to fire at the latest. In an
/// interrupt.
pub(crate) fn is_called(now: u64) -> u64 {
    if DUTY.answers_call(&counters::here().duty, is_another_busy) { now + scan::interval() } else { NEVER }
}

/// The timer of this CPU has fired. Checks all CPUs if that is due, and returns when the timer has to fire again at the
/// latest. In an interrupt, after everything else that the tick does.
pub(crate) fn tick(now: u64) -> u64 {
    let own = counters::here();
    own.note_pin(own.duty.is_busy() && percpu::preempt_count() != 0, now);
    scan::check_if_due(now);
    // A CPU that is alone need not check anything while it halts.
    if cpus::count() == 1 {
        return NEVER;
    }
    if DUTY.stays_on_duty(&own.duty, is_another_busy) { now + scan::interval() } else { NEVER }
}

/// What the ticks of all CPUs have seen since the machine started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Windows {
    /// The longest time by which a timer's interrupt came late on a CPU that ran something: interrupts were off for as
    /// long, or the host of a virtual CPU did not run it.
    pub interrupts_off: Duration,
    /// The longest time from a tick that found preemption off until it was on again.
    pub preemption_off: Duration,
    /// How often a CPU was reported because one of them was more than a second.
    pub lockups: u64,
    /// How often a CPU that was reported has gone on.
    pub recoveries: u64,
}

/// How many interrupts a CPU has taken, without non-maskable ones; 0 if it is not up. Callable from everywhere.
pub fn interrupts(cpu: CpuId) -> u64 {
    counters::of(cpu).map_or(0, counters::Counters::interrupts)
}

/// The longest times during which interrupts or preemption were off, on any CPU, as far as a tick fell into them. Callable
/// from everywhere.
pub fn longest_windows() -> Windows {
    let (lockups, recoveries) = report::counts();
    let all = cpus::all().filter_map(counters::of);
    all.map(counters::Counters::longest).fold(
        Windows { lockups, recoveries, ..Windows::default() },
        |sum, (late, pin)| Windows {
            interrupts_off: sum.interrupts_off.max(late),
            preemption_off: sum.preemption_off.max(pin),
            ..sum
        },
    )
}
