//! Finds CPUs that have interrupts or preemption off for more than a second. The CPUs check each other and themselves.
//!
//! | file | what |
//! |---|---|
//! | `sched::activity` | what each CPU records about itself |
//! | [`kernel_formats::suspicion`] | the state machine of a suspicion, which is tested on the host |
//! | `scan` | the check of all CPUs, twice a second, and more often while a CPU is suspected |
//! | `report` | the text that is printed about a CPU |
//! | `off_times` | the type of the result of [`longest_off_times`] |
//!
//! - *Interrupts*: each CPU counts the interrupts that it takes. A CPU that runs something has a timer tick. So if its
//!   count has not changed for a second, the CPU is suspected.
//! - *Preemption*: each tick finds out whether preemption is off on its own CPU. If preemption is off, the tick makes a
//!   switch pending, and the switch happens as soon as preemption is on. If the next tick finds preemption off and the
//!   switch still pending, preemption was off all the time between the two ticks.
//!
//! If the host does not run a virtual CPU for a second, that CPU takes no interrupts either. So the checking CPU asks a
//! suspected CPU where it is, by a non-maskable interrupt, and asks again at each later check. The suspected CPU is
//! reported only if it has answered many times that interrupts (or preemption) are off, and if nothing shows that they
//! were on in between. An answer that comes at once counts more, because a CPU that the host does not run answers
//! later. The report contains the last answer.
//!
//! When a check is due, the first CPU whose timer fires makes the check. `WatchdogDuty`
//! (`gmp_sched::kthread::watchdog`) ensures that there is such a CPU as long as any CPU is busy. The checking CPU may
//! always be the same one, and may have preemption off itself. So it checks itself, too. A CPU that waits for an
//! `InterruptMutex` with interrupts off, and whose timer thus does not fire, makes the check while it waits.

mod off_times;
mod report;
mod scan;

use crate::arch::x86_64::timer;
use crate::cpu::cpus;
use crate::cpu::percpu::CpuId;
use crate::cpu::sync;
use crate::sched::activity::{self, Activity, NEVER};

pub use self::off_times::OffTimes;

/// Makes the CPUs that wait for an `InterruptMutex` with interrupts off check all CPUs, too. Called once, before the
/// scheduler runs.
pub(crate) fn init() {
    sync::set_check(|| scan::check_if_due(timer::now()));
}

/// If this CPU goes on watchdog duty now, returns the latest time at which its timer must fire for the next check.
/// Otherwise returns [`NEVER`]. Called in an interrupt that another CPU has sent.
pub(crate) fn is_called() -> u64 {
    if activity::answers_call() { timer::now() + scan::interval() } else { NEVER }
}

/// Records whether preemption is off on this CPU, and checks all CPUs if a check is due. If this CPU stays on watchdog
/// duty, returns the latest time at which its timer must fire for the next check. Otherwise returns [`NEVER`]. Called
/// in this CPU's timer interrupt, after the tick of the scheduler.
pub(crate) fn tick(now: u64) -> u64 {
    activity::note_tick(now);
    scan::check_if_due(now);
    // A single CPU needs no timer for the checks. While it runs something, its timer tick checks it. While it halts,
    // there is nothing to check.
    if cpus::count() == 1 {
        return NEVER;
    }
    if activity::stays_on_duty() { now + scan::interval() } else { NEVER }
}

/// Returns how many interrupts a CPU has taken, or 0 if the CPU is not up. Non-maskable interrupts are not counted.
/// Callable from everywhere.
pub fn interrupts(cpu: CpuId) -> u64 {
    activity::of(cpu).map_or(0, Activity::interrupts)
}

/// Returns the longest times for which interrupts and preemption were off on any CPU. Only times that a timer tick has
/// noticed are included. Also returns the numbers of reports and recoveries. Callable from everywhere.
pub fn longest_off_times() -> OffTimes {
    let (lockups, recoveries) = report::counts();
    let all = cpus::all().filter_map(activity::of);
    all.map(Activity::longest).fold(OffTimes { lockups, recoveries, ..OffTimes::default() }, |sum, (late, pin)| {
        OffTimes { interrupts_off: sum.interrupts_off.max(late), preemption_off: sum.preemption_off.max(pin), ..sum }
    })
}
