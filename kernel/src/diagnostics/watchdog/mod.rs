//! Finds CPUs on which interrupts, or preemption, are off for more than a second: the CPUs check each other and themselves.
//!
//! | file | what |
//! |---|---|
//! | `sched::activity` | what each CPU records of itself |
//! | [`kernel_formats::suspicion`] | the states of a suspicion, tested on the host |
//! | `scan` | the check of all CPUs, twice a second |
//! | `report` | what is printed |
//!
//! Each CPU counts the interrupts that it takes. A CPU that runs something has a timer tick, so a counter that has not
//! changed for a second is suspicious. The CPU's own tick detects that preemption stays off: it finds a preempt count above
//! zero, and the switch that the previous tick made pending is still pending. So the count has not been zero between the
//! two ticks.
//!
//! A virtual CPU that its host does not run looks the same. So a suspected CPU is asked by a non-maskable interrupt where
//! it is, and again at each check. It is reported, with its last answer, only if it has answered several times that
//! interrupts or preemption are off, and has taken no interrupt in between.
//!
//! A check that is due is made by the first CPU whose timer fires. `WatchdogDuty` (`gmp_sched::kthread::watchdog`) ensures
//! that there is such a CPU as long as a CPU is busy. The checking CPU may always be the same one, and may have preemption
//! off itself. So it checks itself, too.

mod report;
mod scan;

use core::time::Duration;

use crate::cpu::cpus;
use crate::cpu::percpu::CpuId;
use crate::sched::activity::{self, Activity, NEVER};

/// Called in an interrupt that another CPU has sent, perhaps to request a check. Returns when this CPU's timer must fire at
/// the latest for that check; [`NEVER`] if it need not.
pub(crate) fn is_called(now: u64) -> u64 {
    if activity::answers_call() { now + scan::interval() } else { NEVER }
}

/// Called in this CPU's timer interrupt, after the scheduler has been served. Checks all CPUs if a check is due. Returns
/// when the timer must fire again at the latest for the next check; [`NEVER`] if it need not.
pub(crate) fn tick(now: u64) -> u64 {
    activity::note_tick(now);
    scan::check_if_due(now);
    // A CPU that is the only one has nothing to check while it halts.
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

/// How many interrupts a CPU has taken, not counting non-maskable ones; 0 if the CPU is not up. Callable from everywhere.
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
