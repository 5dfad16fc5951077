//! Panics on the host. Their report names the G and the line of code, as the report on the machine does.
//!
//! In a program, a panic ends the process with status 2, as it ends the run on the machine. With the kernel option
//! `panic=isolate`, a panic ends only its G, by unwinding the stack. In a test, a panic fails the test. A panic of the
//! main G fails the test at once, and a panic of another G fails it when the main G has ended.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::format;
use std::panic::{self, PanicHookInfo};
use std::process;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use boot_protocol::status::KERNEL_BROKEN;
use gmp_sched::goroutine::{Goroutine, GoroutineId};
use gmp_sched::scheduler::Scheduler;

use super::note;
use super::platform::{self, Kernel};
use super::program::args;

/// Exit status of a program that has panicked, as in Go.
const STATUS_FATAL: u8 = 2;

/// Whether a panic of a G other than the main G ends only that G.
fn is_isolated() -> bool {
    args::option("panic") == Some("isolate")
}

/// Installs a panic hook. From then on a panic ends the process, or only its G if panics are isolated. Must be called
/// in a G: [`gmp_sched::native`] installs its own hook before the first G runs, and this function must replace that
/// hook.
pub(super) fn end_program() {
    panic::set_hook(Box::new(|info| match platform::goroutine() {
        Some(goroutine) if is_isolated() && goroutine.id() != GoroutineId::MAIN => {
            let end = format!("goroutine {} is dead and the others go on.\n", goroutine.id());
            print(&Report { goroutine: Some(goroutine), info, end });
        }
        goroutine => {
            static IS_ENDING: AtomicBool = AtomicBool::new(false);
            // Only the first panic is reported, as on the machine. A thread that panics later waits here until the
            // process ends.
            while IS_ENDING.swap(true, Ordering::Relaxed) {
                thread::park();
            }
            let end = goroutine.map_or_else(String::new, |goroutine| {
                // The cause is repeated after the list of Gs, so that it is also at the end of the report.
                let list = goroutine.scheduler().goroutine_list();
                format!("{list}\n\npanic at {}", Panic(info))
            });
            print(&Report { goroutine, info, end });
            process::exit(if goroutine.is_some() { STATUS_FATAL } else { KERNEL_BROKEN }.into());
        }
    }));
}

/// The report of a panic, without the backtrace.
struct Report<'a> {
    /// The G that panics; `None` on a thread that runs no G.
    goroutine: Option<&'static Goroutine<Kernel>>,
    info: &'a PanicHookInfo<'a>,
    /// The text after the backtrace.
    end: String,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "panic at {}\n", Panic(self.info))?;
        match self.goroutine {
            Some(goroutine) => writeln!(f, "goroutine {} [running]:", goroutine.id()),
            None => writeln!(f, "a thread that runs no goroutine:"),
        }
    }
}

/// Displays the line of code and the message of a panic.
struct Panic<'a>(&'a PanicHookInfo<'a>);

impl fmt::Display for Panic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = self.0.location() {
            writeln!(f, "{location}:")?;
        }
        f.write_str(self.0.payload_as_str().unwrap_or("(the payload is not text)"))
    }
}

/// Prints a report on standard error, together with the backtrace of the caller.
fn print(report: &Report<'_>) {
    let (head, end) = (format!("{report}"), &report.end);
    let backtrace = Backtrace::capture();
    let write = || match backtrace.status() {
        BacktraceStatus::Captured => note::report(format_args!("{head}{backtrace}{end}")),
        _ => note::report(format_args!("{head}  (RUST_BACKTRACE=1 shows its backtrace)\n{end}")),
    };
    // Another thread writes the report, because finding function names and line numbers may need more stack than a G
    // has.
    thread::scope(|scope| match thread::Builder::new().spawn_scoped(scope, write) {
        Ok(writer) => drop(writer.join()),
        Err(_) => write(),
    });
}

/// The first panic of a G other than the main G, during one test; `None` if there was no such panic.
#[derive(Clone, Debug, Default)]
pub(super) struct Record(Arc<Mutex<Option<String>>>);

/// The records of the tests that are running. The key of a record is the address of the test's scheduler.
static RECORDS: Mutex<Vec<(usize, Record)>> = Mutex::new(Vec::new());

/// Takes a lock. Poisoning is ignored, because nothing panics while one of these locks is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(scheduler: &'static Scheduler<Kernel>) -> usize {
    ptr::from_ref(scheduler).addr()
}

impl Record {
    /// Records the panics of the Gs of `scheduler` until the result is dropped. Must be called in one of these Gs:
    /// [`gmp_sched::native`] installs its own panic hook before the first G runs, and this function must replace that
    /// hook.
    pub(super) fn begin(&self, scheduler: &'static Scheduler<Kernel>) -> Recording {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| match platform::goroutine() {
                Some(goroutine) => record(goroutine, info),
                None => previous(info),
            }));
        });
        lock(&RECORDS).push((key(scheduler), self.clone()));
        Recording(key(scheduler))
    }

    /// # Panics
    ///
    /// If a G other than the main G has panicked.
    #[track_caller]
    pub(super) fn assert_none(&self) {
        let first = lock(&self.0).take();
        if let Some(first) = first {
            panic!("{first}");
        }
    }
}

/// Dropping this value ends the recording of panics.
#[must_use]
pub(super) struct Recording(usize);

impl Drop for Recording {
    fn drop(&mut self) {
        lock(&RECORDS).retain(|(key, _)| *key != self.0);
    }
}

/// Called by the panic hook when a G of a test panics.
fn record(goroutine: &'static Goroutine<Kernel>, info: &PanicHookInfo<'_>) {
    let text = format!("goroutine {} panicked at {}", goroutine.id(), Panic(info));
    // The test harness shows this text if the test fails.
    std::eprintln!("{text}");
    if goroutine.id() != GoroutineId::MAIN && !is_isolated() {
        let records = lock(&RECORDS);
        if let Some((_, record)) = records.iter().find(|(of, _)| *of == key(goroutine.scheduler())) {
            lock(&record.0).get_or_insert(text);
        }
    }
}
