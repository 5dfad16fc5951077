//! Finds CPUs on which interrupts, or preemption, are off for more than a second: the CPUs check each other and themselves.
//!
//! | file | what |
//! |---|---|
//! | `sched::activity` | what each CPU records of itself |
//! | [`kernel_formats::suspicion`] | the states of a suspicion, tested on the host |
//! | `scan` | the check of all CPUs, twice a second |
//! | `report` | what is printed |
//!
//! Each CPU counts the interrupts that it takes. A CPU that runs something has a timer tick, so a counter that has not changed
//! for a second is suspicious. The CPU's own tick detects that preemption is off: it finds a preempt count that is not zero,
//! and a request to switch, left by the tick before, that has not been honoured. So the count has not been zero in between.
//!
//! A virtual CPU that its host does not run behaves in the same way. So a suspected CPU is asked where it is by a non-maskable
//! interrupt, and again at each check. It is reported, with its last answer, only if it has answered several times that
//! interrupts or preemption are off, and has taken no interrupt in between.
//!
//! The first CPU whose timer fires when a check is due makes it. `WatchdogDuty` (`gmp_sched::kthread::watchdog`) ensures that
//! there is such a CPU as long as a CPU is busy. It may always be the same one, and it may have preemption off itself, so it
//! checks itself, too.

mod report;
mod scan;

use core::time::Duration;

use crate::cpu::cpus;
use crate::cpu::percpu::CpuId;
use crate::sched::activity::{self, Activity, NEVER};

/// Called when another CPU has interrupted this one, perhaps to be checked. Returns when this CPU's timer must fire at the
/// latest. In an interrupt.
pub(crate) fn is_called(now: u64) -> u64 {
    if activity::answers_call() { now + scan::interval() } else { NEVER }
}

/// Called when the timer of this CPU has fired. Checks all CPUs if that is due, and returns when the timer must fire again at
/// the latest. In an interrupt, after everything else that the tick does.
pub(crate) fn tick(now: u64) -> u64 {
    activity::note_tick(now);
    scan::check_if_due(now);
    // A CPU that is the only one need not check anything while it halts.
    if cpus::count() == 1 {
        return NEVER;
    }
    if activity::stays_on_duty() { now + scan::interval() } else { NEVER }
}

/// What the ticks of all CPUs have found since the boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Windows {
    /// The longest delay of a timer interrupt on a CPU that ran something: interrupts were off for so long, or the host did not
    /// run the virtual CPU.
    pub interrupts_off: Duration,
    /// The longest time from a tick that found preemption off until it was on again.
    pub preemption_off: Duration,
    /// How often a CPU was reported because one of these times was more than a second.
    pub lockups: u64,
    /// How often a reported CPU has recovered.
    pub recoveries: u64,
}

/// How many interrupts a CPU has taken, without non-maskable ones; 0 if it is not up. Callable from everywhere.
pub fn interrupts(cpu: CpuId) -> u64 {
    activity::of(cpu).map_or(0, Activity::interrupts)
}

/// The longest times for which interrupts or preemption were off on any CPU, among those that a tick has noticed. Callable from
/// everywhere.
pub fn longest_windows() -> Windows {
    let (lockups, recoveries) = report::counts();
    let all = cpus::all().filter_map(activity::of);
    all.map(Activity::longest).fold(Windows { lockups, recoveries, ..Windows::default() }, |sum, (late, pin)| Windows {
        interrupts_off: sum.interrupts_off.max(late),
        preemption_off: sum.preemption_off.max(pin),
        ..sum
    })
}
