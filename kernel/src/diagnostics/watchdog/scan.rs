//! The watchdog's check of all CPUs. Only one CPU at a time makes this check.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kernel_formats::suspicion::{Answer, Step, Suspicion};

use super::report;
use crate::cpu::cpus;
use crate::cpu::percpu::{self, CpuId, MAX_CPUS};
use crate::cpu::sync::InterruptMutex;
use crate::diagnostics::snapshot::{self, Snapshot};
use crate::drivers::console::{self, Hold};
use crate::sched::activity::{self, Activity, NEVER};

/// The time between two checks while no CPU is suspected, in ns.
const INTERVAL: u64 = 500_000_000;
/// The time between two checks while a CPU is suspected, in ns.
const SHORT_INTERVAL: u64 = 50_000_000;
/// A CPU is suspected to have preemption off only if this many ticks in succession have found preemption off. A virtual
/// CPU that its host does not run for a second has no ticks in this second, so it is not suspected.
const TICKS: u32 = 8;

/// The time at which the next check is due, in ns of the timer's clock.
static NEXT_CHECK: AtomicU64 = AtomicU64::new(0);
/// Whether the last check has found a suspected CPU.
static IS_ANY_SUSPECT: AtomicBool = AtomicBool::new(false);

/// The suspicions about each CPU. Locked during a check.
static SUSPECTS: InterruptMutex<[Suspect; MAX_CPUS]> = InterruptMutex::new([const { Suspect::new() }; MAX_CPUS]);

/// The suspicions about one CPU.
struct Suspect {
    interrupts_off: Case,
    preemption_off: Case,
}

/// A suspicion. Also records whether the console's lock was held when the CPU was first asked where it is (see
/// [`Hold`]).
struct Case {
    suspicion: Suspicion,
    console: Hold,
}

impl Suspect {
    const fn new() -> Self {
        Self { interrupts_off: Case::new(), preemption_off: Case::new() }
    }

    /// Checks whether interrupts are off on the CPU. Returns whether the CPU is suspected.
    fn check_interrupts(&mut self, cpu: CpuId, activity: &Activity, now: u64) -> bool {
        // A halted CPU takes no interrupts, but is not suspected. A CPU in a handler is not halted, even if it is idle.
        let halts = !activity.is_busy() && !percpu::is_in_trap(cpu);
        let case = &mut self.interrupts_off;
        if let Some(was_off_for) = case.suspicion.check(activity.interrupts(), halts, now, now) {
            report::recovery(cpu, "interrupts", was_off_for);
        }
        case.pursue(cpu, now, "interrupts", Snapshot::had_interrupts_off)
    }

    /// Checks whether preemption is off on the CPU. Returns whether the CPU is suspected.
    fn check_preemption(&mut self, cpu: CpuId, activity: &Activity, now: u64) -> bool {
        let (since, ticks) = activity.pins().current();
        let case = &mut self.preemption_off;
        if let Some(was_off_for) = case.suspicion.check(since, since == NEVER, since, now) {
            report::recovery(cpu, "preemption", was_off_for);
        }
        ticks >= TICKS && case.pursue(cpu, now, "preemption", |snapshot| snapshot.preempt_count() != 0)
    }
}

impl Case {
    const fn new() -> Self {
        Self { suspicion: Suspicion::new(), console: Hold::NONE }
    }

    /// If the CPU is suspected, asks it where it is and evaluates its answers. Reports the CPU when enough answers
    /// confirm the suspicion. Returns whether the CPU is suspected.
    fn pursue(&mut self, cpu: CpuId, now: u64, what: &str, confirms: impl Fn(&Snapshot) -> bool) -> bool {
        if !self.suspicion.is_suspect(now) {
            return false;
        }
        let snapshot = snapshot::of(cpu).filter(|snapshot| snapshot.is_answered());
        let answer = snapshot.map(|snapshot| Answer { is_off: confirms(snapshot), latency: snapshot.latency() });
        match self.suspicion.pursue(answer, now) {
            Step::Wait => {}
            Step::Ask { is_first } => {
                if is_first {
                    self.console = console::hold();
                }
                snapshot::ask(cpu);
            }
            Step::Report => {
                if report::lockup(cpu, what, self.suspicion.off_for(now), self.console) {
                    self.suspicion.reported();
                }
            }
        }
        true
    }
}

/// Checks all CPUs if a check is due.
pub(super) fn check_if_due(now: u64) {
    if now < NEXT_CHECK.load(Ordering::Relaxed) {
        return;
    }
    // Only one CPU checks at a time. If the lock is not free, another CPU is making the check.
    let Some(mut suspects) = SUSPECTS.try_lock() else { return };
    let this = percpu::current();
    let mut is_any_suspect = false;
    for (cpu, suspect) in cpus::all().zip(suspects.iter_mut()) {
        let Some(recorded) = activity::of(cpu) else { continue };
        // This CPU is handling an interrupt at this moment, or waits for a lock of another CPU, so its interrupts need
        // no check.
        is_any_suspect |= cpu != this && suspect.check_interrupts(cpu, recorded, now);
        is_any_suspect |= suspect.check_preemption(cpu, recorded, now);
    }
    IS_ANY_SUSPECT.store(is_any_suspect, Ordering::Relaxed);
    NEXT_CHECK.store(now + interval(), Ordering::Relaxed);
}

/// Returns the time between two checks, in ns. It is shorter if the last check has found a suspected CPU.
pub(super) fn interval() -> u64 {
    if IS_ANY_SUSPECT.load(Ordering::Relaxed) { SHORT_INTERVAL } else { INTERVAL }
}
