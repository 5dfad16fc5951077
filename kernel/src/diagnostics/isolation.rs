//! The kernel option `panic=isolate`: a panic, an exception or a stack overflow ends only the G in which it happens.
//!
//! Without this option, each of the three stops the kernel, as in Go. With this option, a report about the G is
//! printed, and the other Gs continue. Joining the G returns [`JoinError::StackOverflow`] after a stack overflow, and
//! [`JoinError::Panicked`] after a panic or an exception. The stack of the G is not unwound, so nothing that the G
//! owned is dropped. If the G held a lock, the lock is never released. If it was about to send a value, the value is
//! never sent. Its connections are reset, and its UDP sockets and listeners end: see [`kernel_net::Stack::abandon`]. The
//! stack of the G is never used again, because other Gs may have references into that stack. If the G ran the function
//! of a `Once`, the waiters and later callers of that `Once` panic.
//!
//! If the G has open scopes, their children continue, and they may borrow from the stack frames of the G and of its
//! ancestors. So joining the G returns only after the last child has ended, as it would with unwinding. If a child
//! waits for a lock that the G held, joining never returns.
//!
//! If a G has overflowed its stack, the code that ends it runs on another stack, of 16 KiB. That stack is not used
//! again either.
//!
//! The kernel stops in spite of the option in these cases:
//!
//! - The main G panics, raises an exception or overflows its stack. The program cannot continue without the main G.
//! - The panic or exception is in the scheduler or in a handler, or preemption or interrupts are off. Shared data may
//!   be inconsistent.
//! - The G is in a system call. Its M may have lost its P, and a G can end only on an M with a P.
//! - A second panic happens during the report of the first.
//! - The stack has overflowed, and there is no memory for the other stack.

use core::fmt::{self, Write as _};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use boot_protocol::console::Frames;
use gmp_sched::JoinError;
use gmp_sched::exit::abandon;
use gmp_sched::goroutine::{Goroutine, GoroutineId, Status};
use gmp_sched::platform::Pinned;

use crate::arch::x86_64::trap::TrapFrame;
use crate::cpu::percpu::{self, CpuId, PreemptGuard};
use crate::diagnostics::backtrace::Backtrace;
use crate::diagnostics::exception::{self, Description, Registers};
use crate::drivers::console::{self, LineWriter};
use crate::drivers::net;
use crate::sched::platform::Kernel;

/// Whether a panic, an exception or a stack overflow ends only its G. Set once, before the first G runs.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Sets whether a panic, an exception or a stack overflow stops the kernel or ends only its G. `what` is the value of
/// the kernel option `panic`.
pub(crate) fn init(what: Option<&str>) {
    IS_ON.store(what == Some("isolate"), Ordering::Relaxed);
}

/// Returns whether a panic, an exception or a stack overflow of `goroutine` ends only that G. `goroutine` is the
/// current G, and the caller has checked that the failure is in its user code.
pub(crate) fn covers(goroutine: &Goroutine<Kernel>) -> bool {
    // The last condition excludes a G in a system call, whose status is not `Running`.
    IS_ON.load(Ordering::Relaxed) && goroutine.id() != GoroutineId::MAIN && goroutine.status() == Status::Running
}

/// Reports the panic and ends the calling G. The caller has checked that [`covers`] returns `true`.
pub(crate) fn end(goroutine: &Goroutine<Kernel>, info: &PanicInfo<'_>, backtrace: Backtrace) -> ! {
    report(goroutine, Cause::Panic(info), backtrace);
    leave(JoinError::panicked())
}

/// Reports that the calling G has overflowed its stack, and ends the G. If a stack probe has touched the guard page,
/// `frame_bytes` is the size of the frame that was probed. The caller has checked that [`covers`] returns `true`, and
/// has switched to another stack.
pub(crate) fn end_after_overflow(frame_bytes: Option<usize>, backtrace: Backtrace) -> ! {
    let goroutine = Pinned::<Kernel>::new().goroutine();
    report(goroutine, Cause::Overflow { frame_bytes }, backtrace);
    leave(JoinError::StackOverflow)
}

/// Ends the calling G without unwinding its stack.
fn leave(reason: JoinError) -> ! {
    let goroutine = Pinned::<Kernel>::new().goroutine().id();
    net::abandon(goroutine);
    #[expect(unsafe_code, reason = "leaves frames without unwinding them")]
    // SAFETY: only the children of the G's scopes can borrow from its frames, and `abandon` waits until they have
    // ended. Programs are `no_std`, so no frame belongs to code, such as `std::thread::scope`, that must not be left
    // early.
    unsafe {
        abandon::<Kernel>(reason)
    }
}

/// Reports that `goroutine`, which is [covered](covers), has raised the exception that this CPU is handling. Other
/// output may come between the lines.
pub(crate) fn report_exception(goroutine: &Goroutine<Kernel>, frame: &TrapFrame) {
    let cause = Cause::Exception(frame, Description::new(frame));
    let report = Report { goroutine, cause, backtrace: Backtrace::of(frame), cpu: percpu::current() };
    // Writing to the console returns no errors.
    let _ = write!(LineWriter::to_stderr(), "{report}");
}

/// Ends the calling G, which has raised an exception. The exception has been [reported](report_exception).
pub(crate) fn end_after_exception() -> ! {
    leave(JoinError::panicked())
}

fn report(goroutine: &Goroutine<Kernel>, cause: Cause<'_>, backtrace: Backtrace) {
    // Formatting the message may panic, too. That second panic stops the kernel, because preemption is off.
    let _off = PreemptGuard::of_kernel();
    let report = Report { goroutine, cause, backtrace, cpu: percpu::current() };
    console::eprint(format_args!("{report}"));
}

/// Why a G ends.
enum Cause<'a> {
    Panic(&'a PanicInfo<'a>),
    /// The stack has overflowed.
    Overflow {
        /// The size of the stack frame that did not fit, if a stack probe has touched the guard page; otherwise `None`.
        frame_bytes: Option<usize>,
    },
    Exception(&'a TrapFrame, Description<'a>),
}

struct Report<'a> {
    goroutine: &'a Goroutine<Kernel>,
    cause: Cause<'a>,
    backtrace: Backtrace,
    cpu: CpuId,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.goroutine.id();
        match self.cause {
            Cause::Panic(info) => match info.location() {
                Some(location) => writeln!(f, "panic at {location}:\n{}\n", info.message())?,
                None => writeln!(f, "panic: {}\n", info.message())?,
            },
            Cause::Exception(frame, ref description) => {
                writeln!(f, "exception in goroutine {id}: {description}\n{}", Registers(frame))?;
            }
            Cause::Overflow { frame_bytes } => {
                writeln!(f, "stack overflow:\n{}\n", exception::stack_overflow(self.goroutine, frame_bytes))?;
            }
        }
        writeln!(f, "goroutine {id} [running] on CPU {}:", self.cpu)?;
        write!(f, "{}", Frames(self.backtrace.clone()))?;
        let stack = self.goroutine.stack();
        writeln!(
            f,
            "goroutine {id} is dead and the others go on. What it held stays held; its stack of {} KiB is not used again.",
            (stack.end - stack.start) / 1024
        )
    }
}
