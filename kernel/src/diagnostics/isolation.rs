//! `panic=isolate`: a panic or a stack overflow ends only the G that it happens in.
//!
//! Without that option both stop the kernel, as in Go. With it a report about the G is printed, joining the G returns
//! [`JoinError::Panicked`] or [`JoinError::StackOverflow`], and the other Gs continue. The stack of the G is not unwound,
//! so nothing that the G owned is dropped. A lock that it held is never released, and a value that it was about to send is
//! never sent. Its stack is never used again, because other Gs may have references into it.
//!
//! The children of the G's open scopes continue. They may borrow from the stack frames of the G and of its ancestors. So
//! joining the G returns only after the last child has ended, as it would with unwinding. If a child waits for a lock that
//! the G held, joining never returns.
//!
//! A G that has overflowed its stack ends on another stack, of 16 KiB. That stack is not used again either.
//!
//! The kernel still stops if more than one G is affected:
//!
//! - the main G panics: there is no program without it;
//! - the panic is in the scheduler, in a handler, or with preemption or interrupts off: shared data may be inconsistent;
//! - the G is in a system call: its M may have lost its P, without which a G cannot end;
//! - there is a second panic during the report of the first;
//! - there is no memory for the other stack, after an overflow.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use boot_protocol::console::Frames;
use gmp_sched::JoinError;
use gmp_sched::exit::abandon;
use gmp_sched::goroutine::{Goroutine, GoroutineId, Status};
use gmp_sched::platform::Pinned;

use crate::cpu::percpu::{self, CpuId, PreemptGuard};
use crate::diagnostics::backtrace::Backtrace;
use crate::diagnostics::exception::StackOverflow;
use crate::drivers::console;
use crate::mm::stack::Slot;
use crate::sched::platform::Kernel;

/// Whether a panic ends only its G. Set once, before the first G runs.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Chooses what a panic ends. `what` is the value of the kernel option `panic`.
pub(crate) fn init(what: Option<&str>) {
    match what {
        None | Some("end") => {}
        Some("isolate") => IS_ON.store(true, Ordering::Relaxed),
        Some(other) => log::warn!("panic={other}: not `isolate` or `end`"),
    }
}

/// Whether a panic of `goroutine`, which is the calling G, ends only that G.
pub(crate) fn covers(goroutine: &Goroutine<Kernel>) -> bool {
    // The status of a G in a system call is not `Running`.
    IS_ON.load(Ordering::Relaxed) && goroutine.id() != GoroutineId::MAIN && goroutine.status() == Status::Running
}

/// Reports the panic and ends the calling G, which is [covered](covers).
pub(crate) fn end(goroutine: &Goroutine<Kernel>, info: &PanicInfo<'_>, backtrace: Backtrace) -> ! {
    report(goroutine, Cause::Panic(info), backtrace);
    leave(JoinError::panicked())
}

/// Reports that the calling G has overflowed its stack, the one in `slot`, and ends the G. The G is [covered](covers), and
/// runs on another stack now.
pub(crate) fn end_after_overflow(slot: Slot, backtrace: Backtrace) -> ! {
    let goroutine = Pinned::<Kernel>::new().goroutine();
    report(goroutine, Cause::Overflow(slot), backtrace);
    leave(JoinError::StackOverflow)
}

/// Ends the calling G without unwinding.
fn leave(reason: JoinError) -> ! {
    #[expect(unsafe_code, reason = "leaves frames without unwinding them")]
    // SAFETY: only the children of a G's scopes can borrow from its frames, and `abandon` waits until they have ended.
    unsafe {
        abandon::<Kernel>(reason)
    }
}

fn report(goroutine: &Goroutine<Kernel>, cause: Cause<'_>, backtrace: Backtrace) {
    // Because preemption is off, a second panic in this function, for example while it formats the message, stops the
    // kernel.
    let _off = PreemptGuard::new();
    let report = Report { goroutine, cause, backtrace, cpu: percpu::current() };
    console::print(format_args!("{report}"));
}

/// Why a G ends.
enum Cause<'a> {
    Panic(&'a PanicInfo<'a>),
    /// The stack that overflowed.
    Overflow(Slot),
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
            Cause::Overflow(slot) => writeln!(f, "stack overflow:\n{}\n", StackOverflow { goroutine: id, slot })?,
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
