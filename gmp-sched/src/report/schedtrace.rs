//! The current state of the scheduler as text, after Go's `schedtrace` and `scheddetail`.
//!
//! Printing this text waits for no lock and stops nothing. So a scheduler that hangs can be inspected, even from an
//! interrupt handler. The states of the Gs, Ms and Ps are read one after the other, so they may be from different
//! moments. A value whose lock is held is shown as `?`.

use core::fmt;

use crate::base::atomic::Ordering;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::platform::Platform;

/// The maximum number of Gs that are listed; further Gs are only counted.
const MOST_GOROUTINES: usize = 1000;

impl<P: Platform> Scheduler<P> {
    /// Displays one line about the whole scheduler. Go: `GODEBUG=schedtrace`.
    ///
    /// An example of this line:
    /// `SCHED 49ms: gomaxprocs=2 idleprocs=0 threads=4 spinningthreads=0 idlethreads=1 runqueue=2 [ 0 2 ] schedticks=[ 7 4 ]`.
    /// The lengths of the local rings are in the first brackets. Callable from anywhere; takes no lock.
    pub fn schedtrace(&'static self) -> impl fmt::Display {
        Trace { scheduler: self, detailed: false }
    }

    /// Displays the line of [`schedtrace`](Self::schedtrace) without the parts in brackets, and a line about each P, M
    /// and living G. Go: `GODEBUG=scheddetail=1`.
    ///
    /// Callable from anywhere; takes no lock.
    pub fn scheddetail(&'static self) -> impl fmt::Display {
        Trace { scheduler: self, detailed: true }
    }
}

struct Trace<P: Platform> {
    scheduler: &'static Scheduler<P>,
    detailed: bool,
}

/// A number, or `nil` as in Go.
struct OrNil<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrNil<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("nil"),
        }
    }
}

impl<P: Platform> fmt::Display for Trace<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheduler = self.scheduler;
        write!(
            f,
            "SCHED {}ms: gomaxprocs={} idleprocs={} threads={} spinningthreads={} idlethreads={} runqueue={}",
            P::now().as_nanos() / 1_000_000,
            scheduler.procs(),
            scheduler.idle_processors.load(Ordering::Relaxed),
            scheduler.machines().count(),
            scheduler.spinning.load(Ordering::Relaxed),
            scheduler.machines().filter(|machine| is_idle(machine)).count(),
            scheduler.global_length.load(Ordering::Relaxed),
        )?;
        if !self.detailed {
            f.write_str(" [ ")?;
            scheduler.processors().iter().try_for_each(|processor| write!(f, "{} ", processor.queue_length()))?;
            f.write_str("] schedticks=[ ")?;
            scheduler.processors().iter().try_for_each(|processor| write!(f, "{} ", processor.tick()))?;
            return f.write_str("]");
        }
        scheduler.processors().iter().try_for_each(|processor| self.processor(f, processor))?;
        scheduler.machines().try_for_each(|machine| Self::machine(f, machine))?;
        let mut alive = scheduler.goroutines().filter(|goroutine| goroutine.status() != Status::Dead);
        alive.by_ref().take(MOST_GOROUTINES).try_for_each(|goroutine| self.goroutine(f, goroutine))?;
        match alive.count() {
            0 => Ok(()),
            more => write!(f, "\n  … and {more} more"),
        }
    }
}

impl<P: Platform> Trace<P> {
    fn processor(&self, f: &mut fmt::Formatter<'_>, processor: &'static Processor<P>) -> fmt::Result {
        let is_holder = |held: &Processor<P>| core::ptr::eq(held, processor);
        let holder = self.scheduler.machines().find(|machine| machine.processor().is_some_and(is_holder));
        write!(
            f,
            "\n  P{}: status={}({}) schedtick={} syscalltick={} m={} runqsize={} gfreecnt={} timerslen=",
            processor.id().get(),
            processor.status() as u32,
            match processor.status() {
                ProcessorStatus::Idle => "idle",
                ProcessorStatus::Running => "running",
                ProcessorStatus::Syscall => "syscall",
                ProcessorStatus::Stopped => "stopped",
                ProcessorStatus::StoppedInSyscall => "stopped in syscall",
                ProcessorStatus::Dead => "dead",
            },
            processor.tick(),
            processor.syscall_tick.load(Ordering::Relaxed),
            OrNil(holder.map(|machine| machine.id().get())),
            processor.queue_length(),
            processor.free.len(),
        )?;
        match processor.timers.try_len() {
            Some(length) => write!(f, "{length}"),
            None => f.write_str("?"),
        }
    }

    fn machine(f: &mut fmt::Formatter<'_>, machine: &'static Machine<P>) -> fmt::Result {
        let current = machine.current_goroutine();
        let blocked = machine.processor().is_none() && current.is_some();
        write!(
            f,
            "\n  M{}: p={} curg={} spinning={} blocked={blocked}",
            machine.id().get(),
            OrNil(machine.processor().map(|processor| processor.id().get())),
            OrNil(current.map(Goroutine::id)),
            machine.is_spinning(),
        )
    }

    fn goroutine(&self, f: &mut fmt::Formatter<'_>, goroutine: &'static Goroutine<P>) -> fmt::Result {
        let status = goroutine.status();
        write!(f, "\n  G{}: status={}(", goroutine.id(), status as u32)?;
        match goroutine.wait_reason() {
            reason if status == Status::Waiting && reason != WaitReason::None => write!(f, "{reason})")?,
            _ => write!(f, "{status})")?,
        }
        let is_here = |current: &Goroutine<P>| core::ptr::eq(current, goroutine);
        let machine = self.scheduler.machines().find(|machine| machine.current_goroutine().is_some_and(is_here));
        write!(f, " m={}", OrNil(machine.map(|machine| machine.id().get())))?;
        if status == Status::Waiting {
            write!(f, " waiting={}ms", (P::now() - goroutine.waiting_since()).as_millis())?;
        }
        if let Some(name) = goroutine.name() {
            write!(f, " name={name}")?;
        }
        match goroutine.creator() {
            Some(creator) => write!(f, " creator={creator}"),
            None => Ok(()),
        }
    }
}

/// Whether the M waits for a P.
fn is_idle<P: Platform>(machine: &Machine<P>) -> bool {
    machine.processor().is_none() && machine.current_goroutine().is_none()
}
