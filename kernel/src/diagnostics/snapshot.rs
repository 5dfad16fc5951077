//! Finds out what each CPU executes. One CPU asks another by a non-maskable interrupt, which also reaches a CPU with
//! interrupts off. The asked CPU records its state and continues.
//!
//! Each request has a number, which is stored in the per-CPU data of the asked CPU. The asked CPU records its state in
//! the same data. It then stores the number of the request as the number of its last answer. By these two numbers the
//! asked CPU sees whether a non-maskable interrupt is a request or has another cause. The asking CPU sees whether the
//! answer has come, so it need not wait for the answer at once.

use core::fmt;
use core::hint::spin_loop;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use boot_protocol::console::Frames;
use x86_64::registers::rflags::RFlags;

use crate::arch::x86_64::trap::TrapFrame;
use crate::arch::x86_64::{apic, timer};
use crate::cpu::cpus;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::{self, CpuId};
use crate::cpu::sync::InterruptMutex;
use crate::diagnostics::backtrace::Backtrace;
use crate::diagnostics::exception::GeneralRegisters;

/// The number of times that a CPU is polled for its answer before it is reported as not answering.
const MOST_POLLS: usize = 20_000_000;

/// The largest number of frames that are recorded. The rest of a longer backtrace is left out.
const MAX_FRAMES: usize = 48;

/// The value of [`Snapshot::answered`] for a CPU that has stopped for ever. This value counts as the answer
/// to every request.
const STOPPED: u32 = u32::MAX;

/// Held by [`write_all`] while a CPU asks the others and waits for their answers, because each CPU has room for only
/// one answer. A panic and the watchdog ask without this lock.
static ASKING: InterruptMutex<()> = InterruptMutex::new(());

cpu_local! {
    static SNAPSHOT: Snapshot = Snapshot::new();
}

/// Returns the last request to a CPU and the CPU's last answer, or `None` if the CPU is not up.
pub(crate) fn of(cpu: CpuId) -> Option<&'static Snapshot> {
    SNAPSHOT.of(cpu)
}

/// The last request to a CPU, and the last answer: where the CPU was. The asked CPU itself writes the answer, usually
/// in the handler of a non-maskable interrupt.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The number of the last request.
    asked: AtomicU32,
    /// The number of the last request that the CPU has answered, or [`STOPPED`].
    answered: AtomicU32,
    /// When the last request was made, in ns.
    asked_at: AtomicU64,
    /// When the last answer was recorded, in ns.
    answered_at: AtomicU64,
    /// The number of interrupts that may still come although their requests have been answered. If several requests are
    /// waiting when the first interrupt comes, its handler answers all of them.
    left_over: AtomicU32,
    preempt_count: AtomicU32,
    /// The number of handlers, nested in each other, that were active when the interrupt of the request came.
    trap_depth: AtomicU32,
    /// Where the lock was taken that had turned interrupts off; null if no lock had turned them off.
    interrupts_off_at: AtomicPtr<Location<'static>>,
    /// Where preemption was turned off; null if preemption was on, or if the location is not known.
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
            asked_at: AtomicU64::new(0),
            answered_at: AtomicU64::new(0),
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

    /// Whether the CPU has answered the last request. If so, the other fields contain this answer until the CPU is
    /// asked again.
    pub(crate) fn is_answered(&self) -> bool {
        // Ordering: Acquire; partners: the stores in `answer` and `answer_for_good`. So the state that the CPU has
        // recorded is visible.
        let answered = self.answered.load(Ordering::Acquire);
        answered == STOPPED || answered == self.asked.load(Ordering::Relaxed)
    }

    /// Returns the time from the last request to its answer, in ns. If the host does not run a virtual CPU when it is
    /// asked, the CPU answers late.
    pub(crate) fn latency(&self) -> u64 {
        self.answered_at.load(Ordering::Relaxed).saturating_sub(self.asked_at.load(Ordering::Relaxed))
    }

    /// Whether the CPU could take no interrupts when it was asked, because it was in a handler or had interrupts off.
    pub(crate) fn had_interrupts_off(&self) -> bool {
        self.trap_depth.load(Ordering::Relaxed) != 0
            || !RFlags::from_bits_truncate(self.registers().rflags).contains(RFlags::INTERRUPT_FLAG)
    }

    /// Returns the CPU's preempt count (its preemption-disable depth) at the time when it was asked.
    pub(crate) fn preempt_count(&self) -> u32 {
        self.preempt_count.load(Ordering::Relaxed)
    }

    /// Records where this CPU is. `frame` has the registers of the code that was interrupted.
    fn note(&self, frame: &TrapFrame) {
        self.answered_at.store(timer::now(), Ordering::Relaxed);
        self.preempt_count.store(percpu::preempt_count(), Ordering::Relaxed);
        // The handler that calls this function is not counted, because it was not active in the interrupted code.
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
    // SAFETY: the pointer is null or was made from a reference to a location. Locations are constants, so they live for
    // ever.
    let location = unsafe { location.load(Ordering::Relaxed).as_ref() };
    location.map_or(Ok(()), |location| write!(f, " since {location}"))
}

/// Asks a CPU where it is. Does not wait for the answer. Callable from everywhere.
pub(crate) fn ask(cpu: CpuId) {
    if let Some(snapshot) = of(cpu) {
        snapshot.asked_at.store(timer::now(), Ordering::Relaxed);
        // Ordering: SeqCst, because the request must be visible before the command to the APIC, which is a write to
        // device memory. Partner: the load of `asked` in `answer`.
        snapshot.asked.fetch_add(1, Ordering::SeqCst);
        apic::send_nmi(cpu);
    }
}

/// Returns the number of the last request that a CPU has answered, [`STOPPED`] if it has stopped for ever, or 0 if it
/// is not up.
pub(crate) fn answers(cpu: CpuId) -> u32 {
    of(cpu).map_or(0, |snapshot| snapshot.answered.load(Ordering::Relaxed))
}

/// Answers all requests that this CPU has not answered yet. Called in the handler of a non-maskable interrupt. Returns
/// `false` if no request can have caused this interrupt, and `true` otherwise.
pub(crate) fn answer(frame: &TrapFrame) -> bool {
    let snapshot = SNAPSHOT.here();
    let asked = snapshot.asked.load(Ordering::Acquire);
    let new = asked.wrapping_sub(snapshot.answered.load(Ordering::Relaxed));
    // A load and a store are enough, because only this CPU writes `left_over`, and non-maskable interrupts do not nest.
    let left_over = snapshot.left_over.load(Ordering::Relaxed);
    if new == 0 {
        snapshot.left_over.store(left_over.saturating_sub(1), Ordering::Relaxed);
        return left_over > 0;
    }
    // This interrupt answers all `new` requests. The interrupts of the other requests may still come, or may have been
    // merged with this one.
    snapshot.left_over.store(left_over.saturating_add(new - 1), Ordering::Relaxed);
    snapshot.note(frame);
    // Ordering: Release; partner: the load in `is_answered`.
    snapshot.answered.store(asked, Ordering::Release);
    true
}

/// Records where this CPU is, as the answer to all later requests. The caller then stops this CPU for ever.
pub(crate) fn answer_for_good(frame: &TrapFrame) {
    let snapshot = SNAPSHOT.here();
    snapshot.note(frame);
    // Ordering: Release; partner: the load in `is_answered`.
    snapshot.answered.store(STOPPED, Ordering::Release);
}

/// Asks all other CPUs where they are, and waits for each answer for at most a few seconds. Takes no lock. If two
/// CPUs call this at the same time, each may see the answers to the requests of the other.
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

/// Writes the last answer of each other CPU, or that the CPU has not answered the last request.
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

/// Writes the backtrace of this CPU, and the state of each other CPU: whether interrupts are on, its preempt count, its
/// registers and its backtrace. All CPUs continue. Interrupts are off on this CPU while it waits for the other CPUs.
/// The wait takes microseconds, or some seconds if a CPU does not answer. Callable from everywhere except the handler
/// of a non-maskable interrupt.
///
/// # Errors
/// The errors that `out` returns.
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
