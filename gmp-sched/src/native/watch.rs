//! The threads that watch a scheduler while a run lasts: sysmon, and the one that prints the state of the scheduler.
//!
//! While Gs are preempted, one of them may hold a lock of the C library or of `std`. sysmon preempts the others, so that
//! this G gets its turn. So sysmon then allocates nothing and takes no such lock, not even for the note that `blocked`
//! prints. The state is printed on a thread of its own.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;

use super::park::Thread;
use super::{Native, blocked, netpoll, pool, schedtrace};
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

#[derive(Default)]
struct Stop {
    has_begun: AtomicBool,
    is_stopped: AtomicBool,
    token: Thread,
}

/// A thread that repeats something from the beginning of a run until it is stopped. It is made before the run begins: the
/// Gs of a run that has begun cannot be taken back if there is no thread or memory.
pub(super) struct Watch(&'static Stop);

impl Watch {
    /// Makes a thread that calls `check` again and again, and waits each time for as long as `check` returns. It waits
    /// for [`begin`](Self::begin) first. When the thread has been stopped, it ends as soon as `goes_on` returns `false`.
    /// The thread is a user of `scheduler`.
    ///
    /// # Errors
    ///
    /// If there is no thread.
    fn new(
        scheduler: &'static Scheduler<Native>,
        stop: &'static Stop,
        mut check: impl FnMut() -> Duration + Send + 'static,
        goes_on: impl Fn() -> bool + Send + 'static,
    ) -> Result<Self, OutOfResources> {
        stop.has_begun.store(false, Ordering::Relaxed);
        stop.is_stopped.store(false, Ordering::Relaxed);
        pool::thread_begins(scheduler);
        let made = thread::Builder::new().spawn(move || {
            // Ordering: Acquire, here and below; partners: the Release in `begin` and in `drop`.
            while !stop.has_begun.load(Ordering::Acquire) && !stop.is_stopped.load(Ordering::Acquire) {
                stop.token.park(None);
            }
            while !stop.is_stopped.load(Ordering::Acquire) || goes_on() {
                let delay = check();
                stop.token.park(Some(Native::now() + delay));
            }
            pool::thread_ends(scheduler);
        });
        if made.is_err() {
            pool::thread_ends(scheduler);
        }
        made.map(|_| Self(stop)).map_err(|_| OutOfResources)
    }

    /// Called when the run has begun.
    pub(super) fn begin(&self) {
        self.0.has_begun.store(true, Ordering::Release);
        self.0.token.unpark();
    }
}

impl Drop for Watch {
    /// Stops the thread.
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Release);
        self.0.token.unpark();
    }
}

/// Makes sysmon. After the run it continues while Gs are preempted, because they have to get their Ps back.
///
/// # Errors
///
/// If there is no thread or memory.
pub(super) fn make_sysmon(scheduler: &'static Scheduler<Native>) -> Result<Watch, OutOfResources> {
    let mut sysmon = Sysmon::new(scheduler);
    let mut blocked = blocked::Check::new(scheduler);
    let mut left = 0;
    let check = move || {
        blocked.run();
        let look = netpoll::watch(scheduler, &mut left);
        look.into_iter().fold(sysmon.check(), Duration::min)
    };
    let watches = scheduler.watches.get_or_make(Watches::default)?;
    Watch::new(scheduler, &watches.sysmon, check, || has_preempted(scheduler))
}

/// Lets the sysmon of `scheduler`, if there is one, check at once. Async-signal-safe.
pub(super) fn wake_sysmon(scheduler: &'static Scheduler<Native>) {
    if let Some(watches) = scheduler.watches.get::<Watches>() {
        watches.sysmon.token.unpark();
    }
}

/// Makes the thread that prints the state of the scheduler periodically.
///
/// # Errors
///
/// If there is no thread or memory.
pub(super) fn make_printer(
    scheduler: &'static Scheduler<Native>,
    settings: Schedtrace,
) -> Result<Watch, OutOfResources> {
    let mut printer = Printer::new(scheduler, settings);
    let check = move || {
        if let Some(text) = printer.text_if_due() {
            schedtrace::print(text);
        }
        printer.next() - Native::now()
    };
    let watches = scheduler.watches.get_or_make(Watches::default)?;
    Watch::new(scheduler, &watches.printer, check, || false)
}
