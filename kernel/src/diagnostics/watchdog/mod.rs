//! Finds CPUs on which interrupts, or preemption, are off for more than a second: the CPUs check each other and themselves.
//!
//! | file | what |
//! |---|---|
//! | `sched::activity` | what each CPU records of itself |
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
//! The CPU whose timer fires when a check is due does it; `WatchdogDuty` (`gmp_sched::kthread::watchdog`) sees to it that there is one as long as a CPU is busy. It
//! may always be the same CPU, and the very one that has preemption off: so it checks itself, too.

mod report;
mod scan;

use core::time::Duration;

use crate::cpu::cpus;
use crate::cpu::percpu::CpuId;
use crate::sched::activity::{self, Activity, NEVER};

/// Another CPU has interrupted this one, perhaps to be checked. Returns when its timer has to fire at the latest. In an
/// interrupt.
pub(crate) fn is_called(now: u64) -> u64 {
    if activity::answers_call() { now + scan::interval() } else { NEVER }
}

/// The timer of this CPU has fired. Checks all CPUs if that is due, and returns when the timer has to fire again at the
/// latest. In an interrupt, after everything else that the tick does.
pub(crate) fn tick(now: u64) -> u64 {
    activity::note_tick(now);
    scan::check_if_due(now);
    // A CPU that is alone need not check anything while it halts.
    if cpus::count() == 1 {
        return NEVER;
    }
    if activity::stays_on_duty() { now + scan::interval() } else { NEVER }
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
    activity::of(cpu).map_or(0, Activity::interrupts)
}

/// The longest times during which interrupts or preemption were off, on any CPU, as far as a tick fell into them. Callable
/// from everywhere.
pub fn longest_windows() -> Windows {
    let (lockups, recoveries) = report::counts();
    let all = cpus::all().filter_map(activity::of);
    all.map(Activity::longest).fold(Windows { lockups, recoveries, ..Windows::default() }, |sum, (late, pin)| Windows {
        interrupts_off: sum.interrupts_off.max(late),
        preemption_off: sum.preemption_off.max(pin),
        ..sum
    })
}
