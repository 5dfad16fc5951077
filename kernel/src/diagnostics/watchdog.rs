//! Finds CPUs on which interrupts, or preemption, are off for more than a second: they look at each other and at themselves.
//!
//! Nothing is added to what turns them off. That a CPU has taken an interrupt shows in a counter; a CPU that runs
//! something has a tick, so a counter that stands still for a second is suspicious. That preemption is off is seen by the
//! CPU's own tick, which finds a count that is not zero, and a request to switch that it has left there the last time
//! and nobody has honoured: so the count has not been zero in between.
//!
//! A virtual CPU that its host does not run looks the same. So a suspect is asked where it is by a non-maskable
//! interrupt, and again each time somebody looks: only if it answers that interrupts are off several times, and has
//! taken none in between, is it reported, with its last answer.
//!
//! Whose timer fires when a look is due looks; [`WatchdogDuty`] sees to it that there is somebody as long as a CPU is busy. That
//! may always be the same CPU, and the very one that has preemption off: so it looks at itself, too.

use core::fmt::{Display, Write as _};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::kthread::watchdog::{CpuDuty, WatchdogDuty};

use crate::arch::x86_64::{apic, interrupts, timer};
use crate::cpu::cpus;
use crate::cpu::percpu::{self, CpuId, CpuLocal};
use crate::cpu::sync::InterruptMutex;
use crate::diagnostics::snapshot;
use crate::drivers::console;
use crate::drivers::console::Hold;

/// What is longer than this is reported, in ns.
const LIMIT: u64 = 1_000_000_000;
/// Time between two looks, in ns: while nobody is suspected, and while somebody is.
const INTERVAL: u64 = 500_000_000;
const SHORT_INTERVAL: u64 = 50_000_000;
/// How often a suspect must answer that interrupts are off. A CPU that is let run only at these moments, each time in
/// another short section without interrupts, would be accused wrongly.
const ANSWERS: u32 = 4;
/// How many ticks must have found preemption off: a CPU that was not run for a second has no tick in that time.
const TICKS: u32 = 8;

const NEVER: u64 = u64::MAX;

/// Who looks.
static DUTY: WatchdogDuty = WatchdogDuty::new();
/// When the next look is due, and whether the last one has found a suspect.
static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);
static IS_ANY_SUSPECT: AtomicBool = AtomicBool::new(false);
/// Held by who looks.
static LOOK: InterruptMutex<()> = InterruptMutex::new(());
/// How many CPUs were reported.
static LOCKUPS: AtomicU64 = AtomicU64::new(0);
/// How many of those were seen to go on.
static RECOVERIES: AtomicU64 = AtomicU64::new(0);

/// What the others need to know of a CPU, and what they have noted of it.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Interrupts that this CPU has taken.
    interrupts: AtomicU64,
    /// Whether it runs a thread, and whether it looks.
    duty: CpuDuty,
    /// The tick that first found preemption off and not on again since, [`NEVER`] if the last one found it on; and how
    /// many did so.
    pinned_since: AtomicU64,
    pinned_ticks: AtomicU32,
    /// The longest time between such a tick and the end of it, and by which the timer came late, both in ns.
    longest_pin: AtomicU64,
    latest_interrupt: AtomicU64,
    /// The rest is written by who looks.
    interrupts_off: Suspicion,
    preemption_off: Suspicion,
}

/// What was noted of a CPU, with regard to one of the two things that can be off.
#[derive(Debug)]
struct Suspicion {
    /// A number that changes when it is on, as it was when last looked at, and when that was first seen.
    seen: AtomicU64,
    since: AtomicU64,
    /// Whether the CPU was asked where it is, how often it has confirmed the suspicion, whether it was reported.
    is_asked: AtomicBool,
    answers: AtomicU32,
    is_reported: AtomicBool,
    /// What the console's lock was when the CPU was first asked, see [`Hold`].
    console: AtomicU64,
}

impl Watch {
    pub(crate) const fn new() -> Self {
        Self {
            interrupts: AtomicU64::new(0),
            duty: CpuDuty::new(),
            pinned_since: AtomicU64::new(NEVER),
            pinned_ticks: AtomicU32::new(0),
            longest_pin: AtomicU64::new(0),
            latest_interrupt: AtomicU64::new(0),
            interrupts_off: Suspicion::new(),
            preemption_off: Suspicion::new(),
        }
    }

    /// This CPU takes an interrupt. Called by every handler.
    #[inline(always)]
    pub(crate) fn note_interrupt(&self) {
        // A plain addition: only this CPU writes, and handlers do not interrupt each other.
        self.interrupts.store(self.interrupts.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The tick of this CPU has found preemption off, or on.
    fn note_pin(&self, is_off: bool, now: u64) {
        if !is_off {
            self.pinned_since.store(NEVER, Ordering::Relaxed);
        } else if self.pinned_since.load(Ordering::Relaxed) == NEVER || !percpu::is_pending() {
            self.pinned_since.store(now, Ordering::Relaxed);
            self.pinned_ticks.store(1, Ordering::Relaxed);
            // Whoever turns preemption on again honours this, and clears it.
            percpu::set_pending();
        } else {
            self.pinned_ticks.store(self.pinned_ticks.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        }
    }
}

impl Suspicion {
    const fn new() -> Self {
        Self {
            seen: AtomicU64::new(0),
            since: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            answers: AtomicU32::new(0),
            is_reported: AtomicBool::new(false),
            console: AtomicU64::new(0),
        }
    }

    /// The suspicion has turned out wrong, or is over.
    fn drop(&self, now: u64) {
        self.since.store(now, Ordering::Relaxed);
        self.is_asked.store(false, Ordering::Relaxed);
        self.answers.store(0, Ordering::Relaxed);
    }

    /// Asks the CPU, which has been off since `since`, where it is, and takes its answers. Returns whether it has given
    /// enough of them.
    fn pursue(&self, cpu: CpuId, local: &CpuLocal, now: u64, confirms: impl Fn(&snapshot::Snapshot) -> bool) -> bool {
        if !self.is_asked.swap(true, Ordering::Relaxed) {
            self.console.store(console::hold().0, Ordering::Relaxed);
            snapshot::ask(cpu);
            return false;
        }
        if !local.snapshot.is_answered() {
            return false;
        }
        if !confirms(&local.snapshot) {
            self.drop(now);
            return false;
        }
        let answers = self.answers.load(Ordering::Relaxed) + 1;
        self.answers.store(answers, Ordering::Relaxed);
        if answers < ANSWERS {
            snapshot::ask(cpu);
        }
        answers >= ANSWERS
    }

    /// Says what was found, and where the CPU is. If the CPU is what keeps the console from being used, the machine ends.
    fn report(&self, cpu: CpuId, local: &CpuLocal, what: core::fmt::Arguments<'_>) {
        let console = Hold(self.console.load(Ordering::Relaxed));
        // One hold all the time, since the CPU was first asked: a lock that changes hands is none to be reported.
        assert!(!console.is_of(cpu), "{what}, and the console is locked");
        if console.goes_on() {
            // The one that holds it is suspected too, and reported when it has given its answers.
            return;
        }
        self.is_reported.store(true, Ordering::Relaxed);
        log::error!("{what}:");
        // The console has no errors.
        let _ = write!(console::LineWriter::new(), "CPU {cpu}: {}", local.snapshot);
        // Counted when it has been said: what waits for it may end the machine.
        LOCKUPS.fetch_add(1, Ordering::Relaxed);
    }
}

/// This CPU runs a thread from here on, or another one than before. The caller is pinned.
pub(crate) fn runs_thread() {
    let watch = &percpu::local().watch;
    watch.pinned_since.store(NEVER, Ordering::Relaxed);
    if !watch.duty.is_busy() && DUTY.becomes_busy(&watch.duty) {
        call_another();
    }
}

/// This CPU has nothing to run from here on. The caller is pinned.
pub(crate) fn runs_nothing() {
    let watch = &percpu::local().watch;
    watch.pinned_since.store(NEVER, Ordering::Relaxed);
    watch.duty.becomes_idle();
}

/// Has a CPU that halts look at this one.
#[cold]
fn call_another() {
    let this = percpu::current();
    let halts = |cpu: &CpuId| *cpu != this && percpu::of(*cpu).is_some_and(|local| !local.watch.duty.is_busy());
    if let Some(other) = cpus::all().find(halts) {
        apic::send(other, interrupts::RESCHEDULE);
    }
}

fn is_another_busy() -> bool {
    let this = percpu::current();
    cpus::all().filter(|&cpu| cpu != this).filter_map(percpu::of).any(|local| local.watch.duty.is_busy())
}

/// Another CPU calls this one, perhaps to be looked at. Gives when its timer is to fire at the latest. In an interrupt.
pub(crate) fn is_called(now: u64) -> u64 {
    if DUTY.answers_call(&percpu::local().watch.duty, is_another_busy) { now + interval() } else { NEVER }
}

/// The timer of this CPU has fired. Looks at all CPUs if that is due, and gives when the timer is to fire again at the
/// latest. In an interrupt, after all else that the tick does.
pub(crate) fn tick(now: u64) -> u64 {
    let watch = &percpu::local().watch;
    watch.note_pin(watch.duty.is_busy() && percpu::preempt_count() != 0, now);
    look_if_due(now);
    // One that is alone has no use for a look while it halts.
    if cpus::count() == 1 {
        return NEVER;
    }
    if DUTY.stays_on_duty(&watch.duty, is_another_busy) { now + interval() } else { NEVER }
}

fn interval() -> u64 {
    if IS_ANY_SUSPECT.load(Ordering::Relaxed) { SHORT_INTERVAL } else { INTERVAL }
}

/// Preemption is on again on this CPU, after a request came while it was off.
pub(crate) fn note_unpin() {
    let watch = &percpu::local().watch;
    let since = watch.pinned_since.load(Ordering::Relaxed);
    if since != NEVER {
        watch.pinned_since.store(NEVER, Ordering::Relaxed);
        watch.longest_pin.fetch_max(timer::now().saturating_sub(since), Ordering::Relaxed);
    }
}

/// The timer of this CPU, which was to fire at `deadline`, has fired only now.
pub(crate) fn note_lateness(local: &CpuLocal, deadline: u64, now: u64) {
    if local.watch.duty.is_busy() {
        let late = now.saturating_sub(deadline);
        if late > local.watch.latest_interrupt.load(Ordering::Relaxed) {
            local.watch.latest_interrupt.store(late, Ordering::Relaxed);
        }
    }
}

fn look_if_due(now: u64) {
    let due = NEXT_LOOK.load(Ordering::Relaxed);
    if now < due {
        return;
    }
    // One at a time; somebody who takes that long is looked at by the next one.
    let Some(_look) = LOOK.try_lock() else { return };
    let this = percpu::current();
    let mut is_any_suspect = false;
    for (cpu, local) in cpus::all().filter_map(|cpu| Some((cpu, percpu::of(cpu)?))) {
        // This one takes interrupts: it is in one.
        is_any_suspect |= cpu != this && look_for_interrupts(cpu, local, now);
        is_any_suspect |= look_for_preemption(cpu, local, now);
    }
    IS_ANY_SUSPECT.store(is_any_suspect, Ordering::Relaxed);
    NEXT_LOOK.store(now + interval(), Ordering::Relaxed);
}

/// Whether the CPU is suspected to have interrupts off.
fn look_for_interrupts(cpu: CpuId, local: &CpuLocal, now: u64) -> bool {
    let (watch, suspicion) = (&local.watch, &local.watch.interrupts_off);
    let interrupts = watch.interrupts.load(Ordering::Relaxed);
    // One that halts takes none, unless it has not come back from a handler.
    let halts = !watch.duty.is_busy() && !local.is_in_trap();
    if halts || interrupts != suspicion.seen.load(Ordering::Relaxed) {
        suspicion.seen.store(interrupts, Ordering::Relaxed);
        let since = suspicion.since.load(Ordering::Relaxed);
        suspicion.drop(now);
        if suspicion.is_reported.swap(false, Ordering::Relaxed) {
            log::warn!("CPU {cpu} has interrupts on again, after {}", Seconds(now - since));
            RECOVERIES.fetch_add(1, Ordering::Relaxed);
        }
        return false;
    }
    let off_for = now.saturating_sub(suspicion.since.load(Ordering::Relaxed));
    if off_for < LIMIT || suspicion.is_reported.load(Ordering::Relaxed) {
        return false;
    }
    if suspicion.pursue(cpu, local, now, snapshot::Snapshot::had_interrupts_off) {
        suspicion.report(cpu, local, format_args!("CPU {cpu} has had interrupts off for {}", Seconds(off_for)));
    }
    true
}

/// Whether the CPU is suspected to have preemption off.
fn look_for_preemption(cpu: CpuId, local: &CpuLocal, now: u64) -> bool {
    let (watch, suspicion) = (&local.watch, &local.watch.preemption_off);
    let since = watch.pinned_since.load(Ordering::Relaxed);
    if since != suspicion.seen.load(Ordering::Relaxed) {
        let before = suspicion.seen.swap(since, Ordering::Relaxed);
        suspicion.drop(now);
        if suspicion.is_reported.swap(false, Ordering::Relaxed) {
            log::warn!("CPU {cpu} has preemption on again, after {}", Seconds(now.saturating_sub(before)));
            RECOVERIES.fetch_add(1, Ordering::Relaxed);
        }
        return false;
    }
    let is_long = since != NEVER && now.saturating_sub(since) >= LIMIT;
    let has_ticked = watch.pinned_ticks.load(Ordering::Relaxed) >= TICKS;
    if !is_long || !has_ticked || suspicion.is_reported.load(Ordering::Relaxed) {
        return false;
    }
    if suspicion.pursue(cpu, local, now, |snapshot| snapshot.preempt_count() != 0) {
        suspicion.report(cpu, local, format_args!("CPU {cpu} has had preemption off for {}", Seconds(now - since)));
    }
    true
}

/// A time in nanoseconds, shown in seconds.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let millis = self.0 / 1_000_000;
        write!(f, "{}.{} s", millis / 1000, millis % 1000 / 100)
    }
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
    /// How often one that was reported has been seen to go on.
    pub recoveries: u64,
}

/// How many interrupts a CPU has taken, non-maskable ones apart; 0 if it is not up. Callable from everywhere.
pub fn interrupts(cpu: CpuId) -> u64 {
    percpu::of(cpu).map_or(0, |local| local.watch.interrupts.load(Ordering::Relaxed))
}

/// The longest times during which interrupts or preemption were off, on any CPU, as far as a tick fell into them. Callable
/// from everywhere.
pub fn longest_windows() -> Windows {
    let longest = |of: fn(&Watch) -> &AtomicU64| {
        let all = cpus::all().filter_map(percpu::of).map(|local| of(&local.watch).load(Ordering::Relaxed));
        Duration::from_nanos(all.max().unwrap_or_default())
    };
    Windows {
        interrupts_off: longest(|watch| &watch.latest_interrupt),
        preemption_off: longest(|watch| &watch.longest_pin),
        lockups: LOCKUPS.load(Ordering::Relaxed),
        recoveries: RECOVERIES.load(Ordering::Relaxed),
    }
}
