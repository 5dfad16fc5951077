//! The current state of the scheduler as text, in the format of Go's `schedtrace` and `scheddetail`, byte for byte.
//!
//! A platform that prints the state periodically uses a [`Printer`]:
//!
//! ```
//! use core::time::Duration;
//! use gmp_sched::native;
//! use gmp_sched::schedtrace::{Printer, Schedtrace};
//!
//! unsafe { native::enter() }.run_with(2, |scheduler| {
//!     let settings = Schedtrace { interval: Duration::from_millis(10), detailed: false };
//!     let mut printer = Printer::new(scheduler, settings);
//!     let text = printer.text_if_due().expect("the first text is due at once").to_string();
//!     assert!(text.starts_with("SCHED 0ms: gomaxprocs=2 idleprocs="));
//!     assert!(printer.text_if_due().is_none());
//! });
//! ```
//!
//! Go holds the scheduler's lock while it prints. This crate takes no lock to make the text, and stops no G. So a
//! scheduler that hangs can be inspected, even from an interrupt handler, and printing does not delay the scheduler.
//! The states of the Ps, Ms and Gs are read one after the other, so they may be from different moments.
//!
//! # Where the values differ from Go's
//!
//! | field | here |
//! |---|---|
//! | `needspinning` | always 0: no G waits for an M that has to spin |
//! | `threads`, lines of Ms | without sysmon, which is no M |
//! | `mallocing`, `throwing`, `preemptoff`, `locks`, `dying` | always as in an M for which none of this applies |
//! | `sysmonwait` | always `false`, as in Go while it traces |
//! | reason in a line of a G | only while the G waits. In Go, the reason of the last wait remains |
//! | order of Gs | the slots that were made last come first, and in Go last |

use core::fmt;
use core::time::Duration;

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::platform::Platform;

/// At which interval, and in how much detail, the state of a scheduler is printed. Go: the settings `schedtrace` and
/// `scheddetail` of `GODEBUG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedtrace {
    /// The time from one printed text to the next, and at least a millisecond, the unit of Go's setting. A shorter time
    /// counts as a millisecond. The actual time is longer if the thread that prints runs late.
    pub interval: Duration,
    /// Whether the text has a line for each P, M and G.
    pub detailed: bool,
}

/// The shortest interval. Without it, an interval of zero would keep a CPU busy with printing.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);

/// Determines when the state of a scheduler is to be printed, and makes the text. Go: the part of `sysmon` that calls
/// `schedtrace`.
#[derive(Debug)]
pub struct Printer<Plat: Platform> {
    scheduler: &'static Scheduler<Plat>,
    settings: Schedtrace,
    /// The time at which the first text was made. Go: `starttime`.
    started: Option<Instant>,
    next: Instant,
}

impl<Plat: Platform> Printer<Plat> {
    /// Makes a printer. The first text is due at once.
    #[must_use]
    pub fn new(scheduler: &'static Scheduler<Plat>, settings: Schedtrace) -> Self {
        Self { scheduler, settings, started: None, next: Instant::from_nanos(0) }
    }

    /// The time at which the next text is due.
    #[must_use]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Returns the text if it is due. In this case, the next text is due one interval from now. The text is made while
    /// it is displayed, and does not end with a line break. Callable from anywhere; takes no lock and does not
    /// allocate.
    pub fn text_if_due(&mut self) -> Option<impl fmt::Display + use<Plat>> {
        let now = Plat::now();
        if now < self.next {
            return None;
        }
        self.next = now + self.settings.interval.max(LEAST_INTERVAL);
        let start = *self.started.get_or_insert(now);
        let detail = if self.settings.detailed { Detail::Everything } else { Detail::Line };
        Some(Text { scheduler: self.scheduler, time: now - start, detail })
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Displays one line about the whole scheduler. Go: `GODEBUG=schedtrace`.
    ///
    /// An example of this line: `SCHED 49ms: gomaxprocs=2 idleprocs=0 threads=4 spinningthreads=0 needspinning=0
    /// idlethreads=1 runqueue=2 [ 0 2 ] schedticks=[ 7 4 ]`. The first number is the time of the platform's clock. The
    /// lengths of the local rings, without `runnext`, are in the first brackets. Callable from anywhere; takes no lock
    /// and does not allocate.
    pub fn schedtrace(&'static self) -> impl fmt::Display {
        self.text(Detail::Line)
    }

    /// Displays a line like that of [`schedtrace`](Self::schedtrace), but with other fields instead of the two lists in
    /// brackets. Then displays a line about each P, M and G. Go: `GODEBUG=scheddetail=1`.
    ///
    /// As in Go, the slots of dead Gs are displayed, too. Callable from anywhere; takes no lock and does not allocate.
    pub fn scheddetail(&'static self) -> impl fmt::Display {
        self.text(Detail::Everything)
    }

    /// Displays [`scheddetail`](Self::scheddetail) without the lines about Gs, for reports that also contain the
    /// [`goroutine_list`](Self::goroutine_list). That list is short even if there are many Gs.
    ///
    /// Callable from anywhere; takes no lock and does not allocate.
    pub fn scheddetail_without_goroutines(&'static self) -> impl fmt::Display {
        self.text(Detail::WithoutGoroutines)
    }

    fn text(&'static self, detail: Detail) -> Text<Plat> {
        Text { scheduler: self, time: Plat::now() - Instant::from_nanos(0), detail }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// One line.
    Line,
    /// Also a line for each P and M.
    WithoutGoroutines,
    /// Also a line for each P, M and G.
    Everything,
}

struct Text<Plat: Platform> {
    scheduler: &'static Scheduler<Plat>,
    /// The time that the first line shows.
    time: Duration,
    detail: Detail,
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

impl<Plat: Platform> fmt::Display for Text<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheduler = self.scheduler;
        write!(
            f,
            "SCHED {}ms: gomaxprocs={} idleprocs={} threads={} spinningthreads={} needspinning=0 idlethreads={} runqueue={}",
            self.time.as_millis(),
            scheduler.procs(),
            scheduler.idle_processors.load(Ordering::Relaxed),
            scheduler.machines().count(),
            scheduler.spinning.load(Ordering::Relaxed),
            scheduler.machines().filter(|machine| is_idle(machine)).count(),
            scheduler.global_length.load(Ordering::Relaxed),
        )?;
        if self.detail == Detail::Line {
            f.write_str(" [ ")?;
            scheduler.processors().iter().try_for_each(|processor| write!(f, "{} ", processor.queue_length()))?;
            f.write_str("] schedticks=[ ")?;
            scheduler.processors().iter().try_for_each(|processor| write!(f, "{} ", processor.tick()))?;
            return f.write_str("]");
        }
        write!(
            f,
            " gcwaiting={} nmidlelocked={} stopwait={} sysmonwait=false",
            scheduler.is_stopping(),
            scheduler.machines().filter(|machine| is_waiting_locked(machine)).count(),
            unstopped(scheduler),
        )?;
        scheduler.processors().iter().try_for_each(|processor| self.write_processor(f, processor))?;
        scheduler.machines().try_for_each(|machine| self.write_machine(f, machine))?;
        if self.detail == Detail::Everything {
            scheduler.goroutines().try_for_each(|goroutine| self.write_goroutine(f, goroutine))?;
        }
        Ok(())
    }
}

/// Go's number of the status of a P. A P whose M is in a system call counts as running, as in Go since version 1.26.
fn number(status: ProcessorStatus) -> u32 {
    match status {
        ProcessorStatus::Idle => 0,
        ProcessorStatus::Running | ProcessorStatus::Syscall => 1,
        ProcessorStatus::Stopped | ProcessorStatus::StoppedInSyscall => 3,
        ProcessorStatus::Dead => 4,
    }
}

/// The number of Ps that have not stopped yet. The P of the G that stops the world is not counted. Go: `stopwait`.
fn unstopped<Plat: Platform>(scheduler: &'static Scheduler<Plat>) -> usize {
    if !scheduler.is_stopping() {
        return 0;
    }
    let running = scheduler.processors().iter().filter(|processor| number(processor.status()) < 3);
    running.count().saturating_sub(1)
}

impl<Plat: Platform> Text<Plat> {
    fn write_processor(&self, f: &mut fmt::Formatter<'_>, processor: &'static Processor<Plat>) -> fmt::Result {
        write!(
            f,
            "\n  P{}: status={} schedtick={} syscalltick={} m={} runqsize={} gfreecnt={} timerslen={}",
            processor.id().get(),
            number(processor.status()),
            processor.tick(),
            processor.syscall_tick.load(Ordering::Relaxed),
            OrNil(holder(self.scheduler, processor).map(number_of_machine)),
            processor.queue_length(),
            processor.free.len(),
            processor.timers.len(),
        )
    }

    fn write_machine(&self, f: &mut fmt::Formatter<'_>, machine: &'static Machine<Plat>) -> fmt::Result {
        let is_holder =
            |processor| holder(self.scheduler, processor).is_some_and(|holder| core::ptr::eq(holder, machine));
        let processor = machine.processor_of_slice().filter(|processor| is_holder(processor));
        write!(
            f,
            "\n  M{}: p={} curg={} mallocing=0 throwing=0 preemptoff= locks=0 dying=0 spinning={} blocked={} lockedg={}",
            machine.id().get(),
            OrNil(processor.map(|processor| processor.id().get())),
            OrNil(goroutine_on(machine).map(Goroutine::id)),
            machine.is_spinning(),
            is_blocked(machine),
            OrNil(machine.locked_goroutine().map(Goroutine::id)),
        )
    }

    fn write_goroutine(&self, f: &mut fmt::Formatter<'_>, goroutine: &'static Goroutine<Plat>) -> fmt::Result {
        let status = goroutine.status();
        let is_here =
            |machine: &&'static Machine<Plat>| goroutine_on(machine).is_some_and(|here| core::ptr::eq(here, goroutine));
        // A G that neither runs nor is in a system call is on no M.
        let is_on_machine = matches!(status, Status::Running | Status::Syscall);
        let machine = is_on_machine.then(|| self.scheduler.machines().find(is_here)).flatten();
        write!(
            f,
            "\n  G{}: status={}({}) m={} lockedm={}",
            goroutine.id(),
            status as u32,
            goroutine.wait_reason(),
            OrNil(machine.map(number_of_machine)),
            OrNil(goroutine.locked_machine().map(number_of_machine)),
        )
    }
}

/// The M that holds `processor`. If no M holds it, an M in a system call that may still take this P back at its return.
pub(super) fn holder<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Machine<Plat>> {
    let is_this = |held: &Processor<Plat>| core::ptr::eq(held, processor);
    let holds = |machine: &&'static Machine<Plat>| machine.processor().is_some_and(is_this);
    let may_return_to = |machine: &&'static Machine<Plat>| machine.processor_of_slice().is_some_and(is_this);
    scheduler.machines().find(holds).or_else(|| scheduler.machines().find(may_return_to))
}

fn number_of_machine<Plat: Platform>(machine: &'static Machine<Plat>) -> u32 {
    machine.id().get()
}

/// The G that runs on `machine`. The result is `None` if the M waits for a P in order to run the G that is locked to
/// it.
pub(super) fn goroutine_on<Plat: Platform>(machine: &Machine<Plat>) -> Option<&'static Goroutine<Plat>> {
    machine.observe_current().filter(|_| !is_waiting_locked(machine))
}

/// Whether the M waits for a P in order to run the G that is locked to it.
fn is_waiting_locked<Plat: Platform>(machine: &Machine<Plat>) -> bool {
    machine.locked.waits.load(Ordering::Relaxed)
}

/// Whether the M has neither a P nor a G, because there is nothing to run.
pub(super) fn is_idle<Plat: Platform>(machine: &Machine<Plat>) -> bool {
    is_blocked(machine) && !is_waiting_locked(machine)
}

/// Whether the M waits for a P, either because there is nothing to run or in order to run the G that is locked to it.
fn is_blocked<Plat: Platform>(machine: &Machine<Plat>) -> bool {
    machine.processor().is_none() && goroutine_on(machine).is_none()
}
