//! Panics and exceptions that stop the kernel.
//!
//! The first CPU that panics stops all other CPUs by a non-maskable interrupt, which also reaches CPUs with interrupts
//! off. This first CPU then prints the cause, details, and the cause again, and stops the kernel. The details contain
//! the backtrace of the code that has failed. (A deadlock has none.) If the kernel is at fault, the details also
//! contain the state of every other CPU and the last log messages. If the program is at fault, they also contain the
//! state of every G. The reporting CPU waits for no lock and does not allocate, except in the program's `Display`
//! implementations, from which the message of a panic is formatted. If such an implementation blocks, waits for a lock
//! of a CPU that has stopped, or panics, the report ends there.
//!
//! A panic or an exception in a G's own code is the fault of the program. With preemption or interrupts off, the code
//! that panics may be the kernel's. Such a panic of a G is the fault of the program in two cases: it reports a
//! [misuse](contexts::misuse), or its location is in the source of the program. (The location of a panic in a library
//! function with `#[track_caller]` is the call.) The commit of a park is code of the program, so a panic or an
//! exception there is the fault of the program, too. In a handler, a panic is always the fault of the kernel.

use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use boot_protocol::console::Frames;
use boot_protocol::status::{EXCEPTION, KERNEL_BROKEN};
use gmp_sched::goroutine::Goroutine;
use spin::Once;
use x86_64::instructions::interrupts;

use crate::arch::x86_64::cpu;
use crate::arch::x86_64::trap::{TrapFrame, Vector};
use crate::cpu::contexts;
use crate::cpu::percpu::{self, CpuId};
use crate::cpu::sync;
use crate::diagnostics::backtrace::{Backtrace, place};
use crate::diagnostics::exception::{self, Description, Registers};
use crate::diagnostics::{inspection, isolation, snapshot};
use crate::drivers::console::Emergency;
use crate::drivers::debug_exit;
use crate::sched::goroutines;
use crate::sched::platform::{Kernel, scheduler};

/// The index of the CPU that reports and stops the kernel; [`NOBODY`] if no CPU does.
static ENDING: AtomicU32 = AtomicU32::new(NOBODY);
const NOBODY: u32 = u32::MAX;

/// The status with which the kernel ends. The first failure decides it, and its report announces it. A second failure
/// during the report does not change it.
static STATUS: AtomicU8 = AtomicU8::new(KERNEL_BROKEN);

/// How the paths of the program's source files begin. Not set while the kernel boots.
static PROGRAM_SOURCE: Once<&str> = Once::new();

/// Sets how the paths of the program's source files begin.
pub(crate) fn init(program_source: &'static str) {
    PROGRAM_SOURCE.call_once(|| program_source);
}

/// The exit status of a program that has panicked or cannot continue, as in Go.
const STATUS_FATAL: u8 = 2;

/// What the report shows in addition to the cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Show {
    /// The state of every other CPU, and the last log messages. These are shown for a fault of the kernel.
    Cpus,
    /// The state of every G. This is shown for a fault of the program.
    Goroutines,
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let backtrace = Backtrace::here();
    let in_user_code = goroutines::in_user_code();
    if let Some(goroutine) = in_user_code
        && isolation::covers(goroutine)
    {
        isolation::end(goroutine, info, backtrace);
    }
    // `at_fault` is called only if no G is in user code. So if a G runs here, preemption or interrupts are off, and the
    // G stays on this CPU.
    let at_fault = || is_fault_of_program(info).then(goroutines::interrupted).flatten();
    if let Some(goroutine) = in_user_code.or_else(at_fault) {
        let cause = |console: &mut Emergency, _| write_cause(console, "panic", info);
        end(STATUS_FATAL, None, Show::Goroutines, cause, |console, cpu| {
            writeln!(console, "\ngoroutine {} [running] on CPU {cpu}:", goroutine.id())?;
            write!(console, "{}", Frames(backtrace.clone()))
        })
    }
    // A handler may have interrupted the commit. The panic of a handler is the kernel's fault, so it is excluded here.
    if let Some(parks) = goroutines::committing().filter(|_| percpu::trap_depth() == 0) {
        let cause = |console: &mut Emergency, _| write_cause(console, InCommit("panic", parks), info);
        end(STATUS_FATAL, None, Show::Goroutines, cause, |console, _| write!(console, "{}", Frames(backtrace.clone())))
    }
    let cause = |console: &mut Emergency, cpu| write_cause(console, format_args!("panic on CPU {cpu}"), info);
    end(KERNEL_BROKEN, None, Show::Cpus, cause, |console, _| write!(console, "{}", Frames(backtrace.clone())))
}

/// Displays that something happened in the commit of a park of this G. The commit is code of the program, and runs on
/// the stack of another G or of g0.
struct InCommit<'a>(&'a str, &'a Goroutine<Kernel>);

impl fmt::Display for InCommit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in the commit of the park of goroutine {}", self.0, self.1.id())
    }
}

/// Whether this panic, of code that may have preemption or interrupts off, is the fault of the program.
fn is_fault_of_program(info: &PanicInfo<'_>) -> bool {
    let is_in_program = || {
        let source = PROGRAM_SOURCE.get();
        info.location().zip(source).is_some_and(|(location, source)| location.file().starts_with(source))
    };
    contexts::is_misuse() || percpu::trap_depth() == 0 && is_in_program()
}

/// Writes where the panic is, and its message.
fn write_cause(console: &mut Emergency, what: impl fmt::Display, info: &PanicInfo<'_>) -> fmt::Result {
    match info.location() {
        Some(location) => writeln!(console, "{what} at {location}:\n{}", info.message()),
        None => writeln!(console, "{what}: {}", info.message()),
    }
}

/// Returns the G whose own code has raised the exception that this CPU is handling, or `None` if the cause is in the
/// kernel or unknown.
pub(crate) fn faulty(frame: &TrapFrame) -> Option<&'static Goroutine<Kernel>> {
    if is_of_instruction(frame) { goroutines::interrupted_in_user_code(frame) } else { None }
}

/// Whether the interrupted instruction has raised the exception. Each of the three exceptions that are excluded here
/// may have another cause.
fn is_of_instruction(frame: &TrapFrame) -> bool {
    !matches!(frame.vector(), Vector::DOUBLE_FAULT | Vector::MACHINE_CHECK | Vector::NON_MASKABLE)
}

/// Stops the kernel because of an exception that cannot be handled. If the exception is the fault of a G's own code,
/// the program has failed. Otherwise the kernel has failed.
pub(crate) fn exception(frame: &TrapFrame) -> ! {
    let description = Description::new(frame);
    let commits = goroutines::committing().filter(|_| percpu::trap_depth() == 1 && is_of_instruction(frame));
    if let Some(parks) = commits {
        let cause = |console: &mut Emergency, _| {
            let place = InCommit("exception", parks);
            writeln!(console, "{place}: {description}")
        };
        end(STATUS_FATAL, Some(frame), Show::Goroutines, cause, |console, _| {
            write!(console, "{}{}", Registers(frame), Frames(Backtrace::of(frame)))
        })
    }
    let goroutine = faulty(frame).map(Goroutine::id);
    let (status, show) = if goroutine.is_some() { (STATUS_FATAL, Show::Goroutines) } else { (EXCEPTION, Show::Cpus) };
    let cause = |console: &mut Emergency, cpu| match goroutine {
        Some(goroutine) => writeln!(console, "exception on CPU {cpu} in goroutine {goroutine}: {description}"),
        None => writeln!(console, "exception on CPU {cpu}: {description}"),
    };
    end(status, Some(frame), show, cause, |console, cpu| {
        write!(console, "{}", Registers(frame))?;
        if let Some(goroutine) = goroutine {
            writeln!(console, "\ngoroutine {goroutine} [running] on CPU {cpu}:")?;
        }
        write!(console, "{}", Frames(Backtrace::of(frame)))
    })
}

/// Stops the kernel because `goroutine` has overflowed its stack. If a stack probe has touched the guard page,
/// `frame_bytes` is the size of the frame that was probed. Runs on another stack than that of the G.
pub(crate) fn stack_overflow(frame: &TrapFrame, goroutine: &Goroutine<Kernel>, frame_bytes: Option<usize>) -> ! {
    let overflow = exception::stack_overflow(goroutine, frame_bytes);
    let cause = |console: &mut Emergency, _| writeln!(console, "{overflow}\nfatal error: stack overflow");
    end(STATUS_FATAL, Some(frame), Show::Goroutines, cause, |console, cpu| {
        writeln!(console, "\ngoroutine {} [running] on CPU {cpu}:", goroutine.id())?;
        write!(console, "{}", Frames(Backtrace::of(frame)))
    })
}

/// Stops the kernel because the program cannot continue, for a reason that concerns no particular G, such as a
/// deadlock.
pub(crate) fn fatal(message: fmt::Arguments<'_>) -> ! {
    let cause = |console: &mut Emergency, _| writeln!(console, "fatal error: {message}");
    end(STATUS_FATAL, None, Show::Goroutines, cause, |_, _| Ok(()))
}

/// Handles a non-maskable interrupt, which has one of four causes:
///
/// - Another CPU is stopping the kernel: this CPU records its state and stops.
/// - Another CPU has asked for this CPU's state: this CPU records its state and continues.
/// - The interrupt comes from outside of the kernel: a report is requested.
/// - The interrupt comes from outside, but a report was requested before and no CPU has begun it in time: the kernel
///   stops, as for an exception.
pub(crate) fn non_maskable(frame: &TrapFrame) {
    match ENDING.load(Ordering::Relaxed) {
        NOBODY if snapshot::answer(frame) || inspection::ask() => {}
        NOBODY => exception(frame),
        // This CPU is writing the report of a panic. It ignores the interrupt and continues the report.
        ending if ending as usize == percpu::current().index() => {}
        _ => {
            snapshot::answer_for_good(frame);
            cpu::halt()
        }
    }
}

/// Stops the kernel. Only the first CPU that calls this function writes a report. `cause` writes the first lines of the
/// report, and is called again for its last lines. `details` writes what follows the first lines. If other CPUs call
/// this function meanwhile, they only stop. The report shows where these CPUs were, but not why they called this
/// function. If the caller handles an exception, `frame` contains the registers of the interrupted code.
fn end(
    status: u8,
    frame: Option<&TrapFrame>,
    show: Show,
    cause: impl Fn(&mut Emergency, CpuId) -> fmt::Result,
    details: impl Fn(&mut Emergency, CpuId) -> fmt::Result,
) -> ! {
    interrupts::disable();
    // The program's code that formats the message must not block: a G that parked here would never be resumed. With
    // preemption off, the attempt to block is a misuse, which panics.
    percpu::preempt_disable();
    let this = percpu::current();
    let number = u32::try_from(this.index()).expect("few CPUs");
    match ENDING.compare_exchange(NOBODY, number, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => STATUS.store(status, Ordering::Relaxed),
        // This CPU has panicked or raised an exception while it reports its first failure. The second failure is not
        // described, because describing it could fail, too.
        Err(first) if first == number => {
            let _ = Emergency::new().write_str("panic while panicking\n");
            debug_exit::end_qemu(STATUS.load(Ordering::Relaxed));
            cpu::halt()
        }
        // Another CPU writes the report, and asks this CPU for its state by a non-maskable interrupt. If this CPU is
        // already handling a non-maskable interrupt, the new one is not delivered. So this CPU records its state here.
        Err(_) => {
            if let Some(frame) = frame {
                snapshot::answer_for_good(frame);
            }
            cpu::halt()
        }
    }
    snapshot::ask_others();
    sync::others_have_stopped();
    let mut console = Emergency::new();
    console.announce(status);
    // Writing cannot fail, because bytes that the port does not accept are dropped.
    let _ = cause(&mut console, this).and_then(|()| details(&mut console, this));
    let _ = match show {
        Show::Goroutines => {
            scheduler().map_or(Ok(()), |scheduler| writeln!(console, "{}", scheduler.goroutine_list_with_places(place)))
        }
        Show::Cpus => snapshot::write_others(&mut console)
            .and_then(|()| writeln!(console, "the kernel's last messages:"))
            .map(|()| console.print_history()),
    };
    let _ = console.write_str("\n").and_then(|()| cause(&mut console, this));
    console.flush();
    debug_exit::end_qemu(status);
    let _ = console.write_str("The machine has stopped.\n");
    cpu::halt()
}
