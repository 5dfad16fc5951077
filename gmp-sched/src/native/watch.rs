//! The threads that watch a scheduler while a run lasts: sysmon, and the one that prints the state of the scheduler.
//!
//! While Gs are preempted, one of them may hold a lock of the C library or of `std`. sysmon preempts the others, so that
//! this G gets its turn. So sysmon allocates nothing, prints nothing and takes no such lock. The state is printed on a
//! thread of its own.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;

use super::park::Thread;
use super::{Native, blocked, pool, schedtrace};
use crate::engine::hooks::has_preempted;
use crate::engine::sysmon::Sysmon;
use crate::entities::scheduler::Scheduler;
use crate::platform::{OutOfResources, Platform};
use crate::report::schedtrace::{Printer, Schedtrace};

/// What wakes and stops the threads that watch a scheduler. It belongs to the scheduler, and later runs use it again.
#[derive(Default)]
struct Watches {
    sysmon: Stop,
    printer: Stop,
}

impl Watches {
    /// Those of `scheduler`, which [`prepare`] has made.
    fn of(scheduler: &'static Scheduler<Native>) -> &'static Self {
        scheduler.watches.get().expect("a scheduler that was prepared")
    }
}

#[derive(Default)]
struct Stop {
    is_stopped: AtomicBool,
    token: Thread,
}

/// A thread that repeats something until it is stopped.
pub(super) struct Watch(&'static Stop);

impl Watch {
    /// Starts a thread that calls `check` again and again, and waits each time for as long as `check` returns. When the
    /// thread has been stopped, it ends as soon as `goes_on` returns `false`. The thread is a user of `scheduler`.
    fn start(
        scheduler: &'static Scheduler<Native>,
        stop: &'static Stop,
        mut check: impl FnMut() -> Duration + Send + 'static,
        goes_on: impl Fn() -> bool + Send + 'static,
    ) -> Self {
        stop.is_stopped.store(false, Ordering::Relaxed);
        pool::thread_begins(scheduler);
        thread::spawn(move || {
            // Ordering: Acquire; partner: the Release in `drop`.
            while !stop.is_stopped.load(Ordering::Acquire) || goes_on() {
                let delay = check();
                stop.token.park(Some(Native::now() + delay));
            }
            pool::thread_ends(scheduler);
        });
        Self(stop)
    }
}

impl Drop for Watch {
    /// Stops the thread.
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Release);
        self.0.token.unpark();
    }
}

/// Makes what the other functions need. Called before a run starts, because a run cannot be taken back for want of memory.
///
/// # Errors
///
/// If there is no memory.
pub(super) fn prepare(scheduler: &'static Scheduler<Native>) -> Result<(), OutOfResources> {
    scheduler.watches.get_or_make(Watches::default).map(|_| ())
}

/// Starts sysmon. After the run it continues while Gs are preempted, because they have to get their Ps back.
pub(super) fn start_sysmon(scheduler: &'static Scheduler<Native>) -> Watch {
    let mut sysmon = Sysmon::new(scheduler);
    let mut blocked = blocked::Check::new(scheduler);
    let check = move || {
        blocked.run();
        sysmon.check()
    };
    Watch::start(scheduler, &Watches::of(scheduler).sysmon, check, || has_preempted(scheduler))
}

/// Lets the sysmon of `scheduler`, if there is one, check at once. Async-signal-safe.
pub(super) fn wake_sysmon(scheduler: &'static Scheduler<Native>) {
    if let Some(watches) = scheduler.watches.get::<Watches>() {
        watches.sysmon.token.unpark();
    }
}

/// Prints the state of the scheduler periodically.
pub(super) fn start_printer(scheduler: &'static Scheduler<Native>, settings: Schedtrace) -> Watch {
    let mut printer = Printer::new(scheduler, settings);
    let check = move || {
        if let Some(text) = printer.text_if_due() {
            schedtrace::print(text);
        }
        printer.next() - Native::now()
    };
    Watch::start(scheduler, &Watches::of(scheduler).printer, check, || false)
}
