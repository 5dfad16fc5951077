//! `panic=isolate`: a panic ends the G it happens in, and nothing else.
//!
//! Without that option a panic in any G ends the machine, as in Go. With it, the G's report is printed, its joiner gets
//! [`JoinError::Panicked`], and the others go on. There is no unwinding on this machine, so nothing that the G owned is
//! dropped: what it held stays held (a lock it had taken is never free again, what it was to send is never sent), and its
//! stack, into which others may point, is never used again.
//!
//! The machine still ends where more than one G is at stake:
//!
//! - the main G panics: there is no program without it;
//! - the panic is in the scheduler, in a handler, or with preemption or interrupts off: what is half changed is shared;
//! - the G is in a system call: its M is not its own;
//! - a second panic comes while the report of the first is made.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use boot_protocol::console::Frame;
use gmp_sched::JoinError;
use gmp_sched::exit::abandon;
use gmp_sched::goroutine::{Goroutine, GoroutineId, Status};

use crate::backtrace::Backtrace;
use crate::percpu::{self, CpuId, PreemptGuard};
use crate::platform::Kernel;
use crate::{args, console};

/// Set once, before the first G runs.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Reads the kernel option.
pub(crate) fn init() {
    match args::option("panic") {
        None | Some("end") => {}
        Some("isolate") => IS_ON.store(true, Ordering::Relaxed),
        Some(other) => log::warn!("panic={other}: not `isolate` or `end`"),
    }
}

/// Whether a panic in the code of `goroutine`, which is the caller, ends it alone.
pub(crate) fn covers(goroutine: &Goroutine<Kernel>) -> bool {
    // In a system call it is not running.
    IS_ON.load(Ordering::Relaxed) && goroutine.id() != GoroutineId::MAIN && goroutine.status() == Status::Running
}

/// Reports the panic and ends the calling G, which is [covered](covers).
pub(crate) fn end(goroutine: &Goroutine<Kernel>, info: &PanicInfo<'_>, backtrace: Backtrace) -> ! {
    {
        // A panic in here, in the message's own code say, is with preemption off: it ends the machine.
        let _off = PreemptGuard::new();
        let report = Report { goroutine, info, backtrace, cpu: percpu::current() };
        console::print(format_args!("{report}"));
    }
    abandon::<Kernel>(JoinError::Panicked)
}

struct Report<'a> {
    goroutine: &'a Goroutine<Kernel>,
    info: &'a PanicInfo<'a>,
    backtrace: Backtrace,
    cpu: CpuId,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info.location() {
            Some(location) => writeln!(f, "panic at {location}:\n{}\n", self.info.message())?,
            None => writeln!(f, "panic: {}\n", self.info.message())?,
        }
        let id = self.goroutine.id();
        writeln!(f, "goroutine {id} [running] on CPU {}:", self.cpu)?;
        self.backtrace.clone().try_for_each(|address| writeln!(f, "{}", Frame(address)))?;
        let stack = self.goroutine.stack();
        writeln!(
            f,
            "goroutine {id} is dead and the others go on. What it held stays held; its stack of {} KiB is not used again.",
            (stack.end - stack.start) / 1024
        )
    }
}
