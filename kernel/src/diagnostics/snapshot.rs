//! Where CPUs are: each says so when a non-maskable interrupt asks it, which also reaches one that has interrupts off,
//! and goes on.
//!
//! A question is a number in the memory of the CPU that is asked, the answer the same number behind what it has put
//! there; so an interrupt that somebody else sent is told from a question, and whoever asks need not wait.

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

/// Looks at a CPU that does not answer before it is given up.
const LOOKS: usize = 20_000_000;

/// Longer backtraces are cut.
const MAX_FRAMES: usize = 48;

/// The answer of a CPU that has stopped for good, whatever the question.
const STOPPED: u32 = u32::MAX;

/// Held by who waits for answers: a CPU has room for one.
static ASKING: InterruptMutex<()> = InterruptMutex::new(());

cpu_local! {
    static SNAPSHOT: Snapshot = Snapshot::new();
}

/// What a CPU has answered last; `None` if it is not up.
pub(crate) fn of(cpu: CpuId) -> Option<&'static Snapshot> {
    SNAPSHOT.of(cpu)
}

/// Where a CPU was when it was last asked. Written by that CPU, in its handler.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The number of the last question, and of the last one answered.
    asked: AtomicU32,
    answered: AtomicU32,
    /// Interrupts that may still come though their questions have been answered together with an earlier one.
    left_over: AtomicU32,
    preempt_count: AtomicU32,
    /// Handlers that were interrupted, one in the other.
    trap_depth: AtomicU32,
    /// The lock that had turned interrupts off, null if that was something else.
    interrupts_off_at: AtomicPtr<Location<'static>>,
    /// Where preemption had been turned off, null if it was on or nothing is known of that.
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

    /// Whether the CPU has answered the last question. The rest of this is what it said, until it is asked again.
    pub(crate) fn is_answered(&self) -> bool {
        // Ordering: pairs with the stores in `answer` and `answer_for_good`: what was noted before is visible.
        let answered = self.answered.load(Ordering::Acquire);
        answered == STOPPED || answered == self.asked.load(Ordering::Relaxed)
    }

    /// Whether the CPU was where no interrupt could reach it: in a handler, or with interrupts off.
    pub(crate) fn had_interrupts_off(&self) -> bool {
        self.trap_depth.load(Ordering::Relaxed) != 0
            || !RFlags::from_bits_truncate(self.registers().rflags).contains(RFlags::INTERRUPT_FLAG)
    }

    /// How many reasons there were not to switch.
    pub(crate) fn preempt_count(&self) -> u32 {
        self.preempt_count.load(Ordering::Relaxed)
    }

    /// Notes where this CPU is: `frame` is what the interrupt, or exception, being handled has interrupted.
    fn note(&self, frame: &TrapFrame) {
        self.preempt_count.store(percpu::preempt_count(), Ordering::Relaxed);
        // Without the one that this runs in.
        self.trap_depth.store(percpu::trap_depth().saturating_sub(1), Ordering::Relaxed);
        let preempt_off_at = percpu::preempt_off_at().filter(|_| percpu::preempt_count() != 0);
        for (to, place) in
            [(&self.interrupts_off_at, percpu::interrupts_off_at()), (&self.preempt_off_at, preempt_off_at)]
        {
            to.store(place.map_or(ptr::null(), ptr::from_ref).cast_mut(), Ordering::Relaxed);
        }
        for (to, from) in self.registers.iter().zip(frame.general()) {
            to.store(*from, Ordering::Relaxed);
        }
        // Now, since the stack changes as soon as the CPU goes on.
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

/// In lines: what state the CPU was in, its registers, and its backtrace.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registers = self.registers();
        write!(f, "interrupts {}", if self.had_interrupts_off() { "off" } else { "on" })?;
        write_place(f, &self.interrupts_off_at)?;
        write!(f, ", preempt count {}", self.preempt_count())?;
        write_place(f, &self.preempt_off_at)?;
        writeln!(f, "{}", if self.trap_depth.load(Ordering::Relaxed) == 0 { "" } else { ", in a handler" })?;
        write!(f, "{}", GeneralRegisters(&registers))?;
        let count = self.frame_count.load(Ordering::Relaxed).min(MAX_FRAMES);
        write!(f, "{}", Frames(self.frames[..count].iter().map(|address| address.load(Ordering::Relaxed))))
    }
}

fn write_place(f: &mut fmt::Formatter<'_>, place: &AtomicPtr<Location<'static>>) -> fmt::Result {
    // SAFETY: only references to locations, which are constants, or null are stored.
    let place = unsafe { place.load(Ordering::Relaxed).as_ref() };
    place.map_or(Ok(()), |place| write!(f, " since {place}"))
}

/// Asks a CPU where it is. Does not wait. Callable from everywhere.
pub(crate) fn ask(cpu: CpuId) {
    if let Some(snapshot) = of(cpu) {
        // Ordering: before the command to the APIC, which is to memory of a device.
        snapshot.asked.fetch_add(1, Ordering::SeqCst);
        apic::send_nmi(cpu);
    }
}

/// The number of the last question that a CPU has answered; 0 if it is not up.
pub(crate) fn answers(cpu: CpuId) -> u32 {
    of(cpu).map_or(0, |snapshot| snapshot.answered.load(Ordering::Relaxed))
}

/// Serves a non-maskable interrupt on this CPU, if it is a question. Returns whether it was.
pub(crate) fn answer(frame: &TrapFrame) -> bool {
    let snapshot = SNAPSHOT.here();
    let asked = snapshot.asked.load(Ordering::Acquire);
    let new = asked.wrapping_sub(snapshot.answered.load(Ordering::Relaxed));
    // Only this CPU writes to it, and such interrupts do not interrupt each other.
    let left_over = snapshot.left_over.load(Ordering::Relaxed);
    if new == 0 {
        snapshot.left_over.store(left_over.saturating_sub(1), Ordering::Relaxed);
        return left_over > 0;
    }
    // Those of the other questions may be on their way, or may have become one with this one.
    snapshot.left_over.store(left_over.saturating_add(new - 1), Ordering::Relaxed);
    snapshot.note(frame);
    // Ordering: pairs with the load in `is_answered`.
    snapshot.answered.store(asked, Ordering::Release);
    true
}

/// Notes where this CPU is, which then stops.
pub(crate) fn answer_for_good(frame: &TrapFrame) {
    let snapshot = SNAPSHOT.here();
    snapshot.note(frame);
    // Ordering: pairs with the load in `is_answered`.
    snapshot.answered.store(STOPPED, Ordering::Release);
}

/// Asks all other CPUs, and waits until they have answered; one that does not is not waited for any longer after a few
/// seconds. Takes no lock: two callers at a time would get each other's answers.
pub(crate) fn ask_others() {
    for (cpu, _) in others() {
        ask(cpu);
    }
    for (_, other) in others() {
        for _ in 0..LOOKS {
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

/// Writes where every CPU is: whether interrupts are on there, its preempt count, registers and backtrace. The machine
/// goes on. Waits for the other CPUs with interrupts off, for microseconds, or some seconds if one does not answer.
/// Callable from everywhere but the handler of a non-maskable interrupt.
///
/// # Errors
/// Those of `out`.
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
