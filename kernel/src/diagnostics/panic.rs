//! The end of a broken machine: panics and exceptions.
//!
//! The first CPU that gets here stops all others by a non-maskable interrupt, which also reaches those that have
//! interrupts off, then prints what happened and where every CPU was, and ends the machine. It takes no lock and
//! allocates nothing.

use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};

use boot_protocol::console::Frames;
use boot_protocol::status::{EXCEPTION, KERNEL_BROKEN};
use gmp_sched::goroutine::GoroutineId;
use x86_64::instructions::interrupts;

use crate::arch::x86_64::cpu;
use crate::arch::x86_64::exception::{Description, Registers};
use crate::arch::x86_64::trap::TrapFrame;
use crate::cpu::percpu::{self, CpuId};
use crate::diagnostics::backtrace::Backtrace;
use crate::diagnostics::{inspection, isolation, snapshot};
use crate::drivers::console::{self, Emergency};
use crate::mm::stack::Slot;
use crate::program::exit;
use crate::sched::platform;

/// The CPU that ends the machine, or [`NOBODY`].
static ENDING: AtomicU32 = AtomicU32::new(NOBODY);
const NOBODY: u32 = u32::MAX;

/// What is shown besides the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Show {
    /// Where every CPU was: something is wrong with the kernel.
    Cpus,
    /// What every G was doing: something is wrong with the program.
    Goroutines,
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let backtrace = Backtrace::here();
    if let Some(goroutine) = platform::goroutine_in_user_code() {
        if isolation::covers(goroutine) {
            isolation::end(goroutine, info, backtrace);
        }
        end(platform::STATUS_FATAL, None, Show::Goroutines, |console, cpu| {
            match info.location() {
                Some(location) => writeln!(console, "panic at {location}:\n{}\n", info.message())?,
                None => writeln!(console, "panic: {}\n", info.message())?,
            }
            writeln!(console, "goroutine {} [running] on CPU {cpu}:", goroutine.id())?;
            write!(console, "{}", Frames(backtrace.clone()))
        })
    }
    end(KERNEL_BROKEN, None, Show::Cpus, |console, cpu| {
        match info.location() {
            Some(location) => writeln!(console, "panic on CPU {cpu} at {location}:\n{}", info.message())?,
            None => writeln!(console, "panic on CPU {cpu}: {}", info.message())?,
        }
        write!(console, "{}", Frames(backtrace.clone()))
    })
}

/// Ends the machine because of an exception that nobody serves.
pub(crate) fn exception(frame: &TrapFrame) -> ! {
    let description = Description::new(frame);
    end(EXCEPTION, Some(frame), Show::Cpus, |console, cpu| {
        writeln!(console, "exception on CPU {cpu}: {description}")?;
        write!(console, "{}", Registers(frame))?;
        write!(console, "{}", Frames(Backtrace::of(frame)))
    })
}

/// Ends the machine because a G has used up its stack. Called on another one.
pub(crate) fn stack_overflow(frame: &TrapFrame, goroutine: GoroutineId, slot: Slot) -> ! {
    end(platform::STATUS_FATAL, Some(frame), Show::Goroutines, |console, cpu| {
        writeln!(console, "{}", StackOverflow { goroutine, slot })?;
        writeln!(console, "fatal error: stack overflow\n\ngoroutine {goroutine} [running] on CPU {cpu}:")?;
        write!(console, "{}", Frames(Backtrace::of(frame)))
    })
}

/// What there is to say of a G that has used up its stack.
pub(crate) struct StackOverflow {
    pub(crate) goroutine: GoroutineId,
    pub(crate) slot: Slot,
}

impl fmt::Display for StackOverflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { goroutine, slot } = *self;
        // What is left to preemption is not counted.
        let touched = slot.touched().min(slot.bytes()) / 1024;
        write!(f, "goroutine {goroutine} exceeds its {slot}, of which {touched} KiB have been in use")
    }
}

/// Ends the machine because the program cannot go on, though no one G is to blame.
pub(crate) fn fatal(message: fmt::Arguments<'_>) -> ! {
    end(platform::STATUS_FATAL, None, Show::Goroutines, |console, _| writeln!(console, "fatal error: {message}"))
}

/// Serves a non-maskable interrupt: stops this CPU if another one is ending the machine, says where it is if it was
/// asked, has the machine described if somebody outside asks. If no CPU can answer that, it is an exception.
pub(crate) fn non_maskable(frame: &TrapFrame) {
    match ENDING.load(Ordering::Relaxed) {
        NOBODY if snapshot::answer(frame) || inspection::ask() => {}
        NOBODY => exception(frame),
        // Whoever sent it, the report goes on.
        ending if ending as usize == percpu::current().index() => {}
        _ => {
            snapshot::answer_for_good(frame);
            cpu::halt()
        }
    }
}

/// Ends the machine: `report` says why. Only the first CPU to get here does so; what others have to say at the same
/// time is lost, but for where they were. `frame` is what was interrupted, if that is why.
fn end(status: u8, frame: Option<&TrapFrame>, show: Show, report: impl Fn(&mut Emergency, CpuId) -> fmt::Result) -> ! {
    interrupts::disable();
    let this = percpu::current();
    let number = u32::try_from(this.index()).expect("few CPUs");
    match ENDING.compare_exchange(NOBODY, number, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        // A panic while the report of the first one is printed: the reason may be anything, so no more than this.
        Err(first) if first == number => {
            let _ = Emergency::new().write_str("panic while panicking\n");
            exit::end_qemu(status);
            cpu::halt()
        }
        // A non-maskable interrupt that is being served keeps away the one that is on its way.
        Err(_) => {
            if let Some(frame) = frame {
                snapshot::answer_for_good(frame);
            }
            cpu::halt()
        }
    }
    snapshot::ask_others();
    let mut console = Emergency::new();
    // The port takes what it takes.
    let _ = report(&mut console, this);
    let _ = match show {
        Show::Goroutines => platform::list_goroutines(&mut console),
        Show::Cpus => snapshot::write_others(&mut console)
            .and_then(|()| writeln!(console, "the kernel's last messages:"))
            .and_then(|()| console::write_history(&mut console)),
    };
    console.flush();
    exit::end_qemu(status);
    let _ = console.write_str("The machine has stopped.\n");
    cpu::halt()
}
