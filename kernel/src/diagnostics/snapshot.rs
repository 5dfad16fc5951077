//! Finds out what each CPU executes. A CPU is asked by a non-maskable interrupt, which also reaches a CPU with interrupts
//! off. The asked CPU records its state and continues.
//!
//! A request is a number in the asked CPU's per-CPU data. That CPU records its state there, and then stores the same number as
//! the answer. So an interrupt with another cause is distinguished from a request, and the asking CPU need not wait.

use core::fmt;
use core::hint::spin_loop;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use boot_protocol::console::Frames;
use x86_64::registers::rflags::RFlags;

use crate::arch::x86_64::apic;
use crate::arch::x86_64::trap::TrapFrame;
use crate::cpu::cpus;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::{self, CpuId};
use crate::cpu::sync::InterruptMutex;
use crate::diagnostics::backtrace::Backtrace;
use crate::diagnostics::exception::GeneralRegisters;

/// How often a CPU that does not answer is polled before it is reported as not answering.
const MOST_POLLS: usize = 20_000_000;

/// The most frames that are recorded. Longer backtraces are cut.
const MAX_FRAMES: usize = 48;

/// The last answer of a CPU that has stopped for ever. It counts as the answer to every request.
const STOPPED: u32 = u32::MAX;

/// Held while a CPU waits for answers of the others, because each CPU has room for one answer only.
static ASKING: InterruptMutex<()> = InterruptMutex::new(());

cpu_local! {
    static SNAPSHOT: Snapshot = Snapshot::new();
}

/// The last answer of a CPU; `None` if it is not up.
pub(crate) fn of(cpu: CpuId) -> Option<&'static Snapshot> {
    SNAPSHOT.of(cpu)
}

/// Where a CPU was when it was last asked. Written by the CPU itself, in its handler.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The number of the last request, and of the last one that was answered.
    asked: AtomicU32,
    answered: AtomicU32,
    /// The number of interrupts that may still come although the requests that sent them have been answered. Such a request
    /// was answered together with an earlier one.
    left_over: AtomicU32,
    preempt_count: AtomicU32,
    /// How many handlers were active, one inside the other, in the code that was interrupted.
    trap_depth: AtomicU32,
    /// Where a lock had turned interrupts off; null if no lock had turned them off.
    interrupts_off_at: AtomicPtr<Location<'static>>,
    /// Where preemption had been turned off; null if preemption was on, or if the location is not known.
    preempt_off_at: AtomicPtr<Location<'static>>,
    registers: [AtomicU64; TrapFrame::GENERAL],
    frames: [AtomicU64; MAX_FRAMES],
    frame_count: AtomicUsize,
}

impl Snapshot {
    const fn new() -> Self {
        Self {
            asked: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            left_over: AtomicU32::new(0),
            preempt_count: AtomicU32::new(0),
            trap_depth: AtomicU32::new(0),
            interrupts_off_at: AtomicPtr::new(ptr::null_mut()),
            preempt_off_at: AtomicPtr::new(ptr::null_mut()),
            registers: [const { AtomicU64::new(0) }; TrapFrame::GENERAL],
            frames: [const { AtomicU64::new(0) }; MAX_FRAMES],
            frame_count: AtomicUsize::new(0),
        }
    }

    /// Whether the CPU has answered the last request. If so, the other fields are its answer, until it is asked again.
    pub(crate) fn is_answered(&self) -> bool {
        // Ordering: pairs with the stores in `answer` and `answer_for_good`: what was recorded before them is visible.
        let answered = self.answered.load(Ordering::Acquire);
        answered == STOPPED || answered == self.asked.load(Ordering::Relaxed)
    }

    /// Whether the CPU could not take interrupts: it was in a handler, or had interrupts off.
    pub(crate) fn had_interrupts_off(&self) -> bool {
        self.trap_depth.load(Ordering::Relaxed) != 0
            || !RFlags::from_bits_truncate(self.registers().rflags).contains(RFlags::INTERRUPT_FLAG)
    }

    /// The CPU's preempt count (its preemption-disable depth).
    pub(crate) fn preempt_count(&self) -> u32 {
        self.preempt_count.load(Ordering::Relaxed)
    }

    /// Records where this CPU is. `frame` is what the current interrupt or exception has interrupted.
    fn note(&self, frame: &TrapFrame) {
        self.preempt_count.store(percpu::preempt_count(), Ordering::Relaxed);
        // The handler that calls this function is not counted.
        self.trap_depth.store(percpu::trap_depth().saturating_sub(1), Ordering::Relaxed);
        let preempt_off_at = percpu::preempt_off_at().filter(|_| percpu::preempt_count() != 0);
        for (to, location) in
            [(&self.interrupts_off_at, percpu::interrupts_off_at()), (&self.preempt_off_at, preempt_off_at)]
        {
            to.store(location.map_or(ptr::null(), ptr::from_ref).cast_mut(), Ordering::Relaxed);
        }
        for (to, from) in self.registers.iter().zip(frame.general()) {
            to.store(*from, Ordering::Relaxed);
        }
        // The backtrace is taken here, since the stack changes as soon as the CPU continues.
        let mut count = 0;
        for (to, address) in self.frames.iter().zip(Backtrace::of(frame)) {
            to.store(address, Ordering::Relaxed);
            count += 1;
        }
        self.frame_count.store(count, Ordering::Relaxed);
    }

    fn registers(&self) -> TrapFrame {
        TrapFrame::from_general(self.registers.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }
}

/// Displays the CPU's state, registers and backtrace, in several lines.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registers = self.registers();
        write!(f, "interrupts {}", if self.had_interrupts_off() { "off" } else { "on" })?;
        write_location(f, &self.interrupts_off_at)?;
        write!(f, ", preempt count {}", self.preempt_count())?;
        write_location(f, &self.preempt_off_at)?;
        writeln!(f, "{}", if self.trap_depth.load(Ordering::Relaxed) == 0 { "" } else { ", in a handler" })?;
        write!(f, "{}", GeneralRegisters(&registers))?;
        let count = self.frame_count.load(Ordering::Relaxed).min(MAX_FRAMES);
        write!(f, "{}", Frames(self.frames[..count].iter().map(|address| address.load(Ordering::Relaxed))))
    }
}

fn write_location(f: &mut fmt::Formatter<'_>, location: &AtomicPtr<Location<'static>>) -> fmt::Result {
    // SAFETY: only references to locations, which are constants, or null are stored.
    let location = unsafe { location.load(Ordering::Relaxed).as_ref() };
    location.map_or(Ok(()), |location| write!(f, " since {location}"))
}

/// Asks a CPU where it is. Does not wait. Callable from everywhere.
pub(crate) fn ask(cpu: CpuId) {
    if let Some(snapshot) = of(cpu) {
        // Ordering: SeqCst, so that the request is visible before the command to the APIC, which is a write to device memory.
        snapshot.asked.fetch_add(1, Ordering::SeqCst);
        apic::send_nmi(cpu);
    }
}

/// The number of the last request that a CPU has answered; 0 if it is not up.
pub(crate) fn answers(cpu: CpuId) -> u32 {
    of(cpu).map_or(0, |snapshot| snapshot.answered.load(Ordering::Relaxed))
}

/// Called in the handler of a non-maskable interrupt: answers the request that has caused it. Returns `false` if the
/// interrupt has another cause.
pub(crate) fn answer(frame: &TrapFrame) -> bool {
    let snapshot = SNAPSHOT.here();
    let asked = snapshot.asked.load(Ordering::Acquire);
    let new = asked.wrapping_sub(snapshot.answered.load(Ordering::Relaxed));
    // A load and a store suffice: only this CPU writes `left_over`, and non-maskable interrupts do not nest.
    let left_over = snapshot.left_over.load(Ordering::Relaxed);
    if new == 0 {
        snapshot.left_over.store(left_over.saturating_sub(1), Ordering::Relaxed);
        return left_over > 0;
    }
    // The interrupts of the other requests may still come, or may have been merged with this one.
    snapshot.left_over.store(left_over.saturating_add(new - 1), Ordering::Relaxed);
    snapshot.note(frame);
    // Ordering: pairs with the load in `is_answered`.
    snapshot.answered.store(asked, Ordering::Release);
    true
}

/// Records where this CPU is. Called by a CPU that then stops for ever.
pub(crate) fn answer_for_good(frame: &TrapFrame) {
    let snapshot = SNAPSHOT.here();
    snapshot.note(frame);
    // Ordering: pairs with the load in `is_answered`.
    snapshot.answered.store(STOPPED, Ordering::Release);
}

/// Asks all other CPUs, and waits until they have answered, for a few seconds at most. Takes no lock, so two callers at the
/// same time would mix up their answers.
pub(crate) fn ask_others() {
    for (cpu, _) in others() {
        ask(cpu);
    }
    for (_, other) in others() {
        for _ in 0..MOST_POLLS {
            if other.is_answered() {
                break;
            }
            spin_loop();
        }
    }
}

/// Writes what the other CPUs have answered.
pub(crate) fn write_others(out: &mut impl fmt::Write) -> fmt::Result {
    for (cpu, other) in others() {
        if other.is_answered() {
            write!(out, "CPU {cpu}: {other}")?;
        } else {
            writeln!(out, "CPU {cpu} does not answer")?;
        }
    }
    Ok(())
}

/// Writes where every CPU is: whether interrupts are on, its preempt count, registers and backtrace. All CPUs continue. The
/// caller waits for the other CPUs with its interrupts off: for microseconds, or for some seconds if a CPU does not answer.
/// Callable from everywhere but the handler of a non-maskable interrupt.
///
/// # Errors
/// The errors of `out`.
pub(crate) fn write_all(out: &mut impl fmt::Write) -> fmt::Result {
    let _asking = ASKING.lock();
    writeln!(out, "CPU {} runs this:", percpu::current())?;
    write!(out, "{}", Frames(Backtrace::here()))?;
    ask_others();
    write_others(out)
}

fn others() -> impl Iterator<Item = (CpuId, &'static Snapshot)> {
    let this = percpu::current();
    cpus::all().filter(move |&cpu| cpu != this).filter_map(|cpu| Some((cpu, of(cpu)?)))
}
