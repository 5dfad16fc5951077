//! Panics on the host. Their report names the G and the line of code, as the report on the machine does.
//!
//! In a program, a panic of a G ends the process with status 2, as it ends the run on the machine. In a test, a panic
//! fails the test: a panic of the main G at once, and a panic of another G when the main G has ended. With the kernel
//! option `panic=isolate`, a panic of a G other than the main G ends only that G, by unwinding the stack, in programs
//! and in tests. As on the machine, the option has no effect on a panic of a G that is in a system call, holds a spin
//! lock or has preemption off.
//!
//! An exception of the processor, such as a division by zero, is reported like a panic. In a program with
//! `panic=isolate`, an exception ends the G that has raised it, without unwinding, as on the machine. In a test, an
//! exception always ends the process. A stack overflow always ends the process, unlike on the machine.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ptr;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::format;
use std::panic::{self, PanicHookInfo};
use std::process;
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

use boot_protocol::status::KERNEL_BROKEN;
use gmp_sched::JoinError;
use gmp_sched::exit::abandon;
use gmp_sched::goroutine::{Goroutine, GoroutineId, Status};
use gmp_sched::native::{self, Exception};
use gmp_sched::scheduler::Scheduler;

use super::note;
use super::platform::{self, Kernel};
use super::program::args;

/// The exit status of a program that has panicked, as in Go.
const STATUS_FATAL: u8 = 2;

/// Whether the kernel option `panic=isolate` is set.
fn is_isolated() -> bool {
    args::option("panic") == Some("isolate")
}

/// Installs a panic hook, and a function that reports exceptions. From then on a panic or an exception ends the
/// process, or only the G if it is [covered](is_covered). Must be called in a G: [`gmp_sched::native`] installs its own
/// hook before the first G runs, and this function must replace that hook.
pub(super) fn end_program() {
    panic::set_hook(Box::new(|info| {
        let (cause, backtrace) = (format!("panic at {}", Panic(info)), Backtrace::capture());
        match platform::goroutine() {
            Some(goroutine) if is_covered(goroutine) => end_goroutine(goroutine, &cause, &backtrace),
            goroutine => end(goroutine, &cause, &backtrace),
        }
    }));
    native::set_exception_hook(exception);
}

/// Whether a panic or an exception of `goroutine`, which is the calling G, ends only this G.
fn is_covered(goroutine: &Goroutine<Kernel>) -> bool {
    // A G in a system call, whose status is not `Running`, cannot end alone, because its M may have no P. A G that
    // holds a spin lock or has preemption off has perhaps changed shared data only in part. Also, without unwinding,
    // its thread would stay in this state.
    let is_in_user_code = goroutine.status() == Status::Running && native::may_wait();
    is_isolated() && goroutine.id() != GoroutineId::MAIN && is_in_user_code
}

/// Reports an exception of the calling G, and ends this G or the process.
fn exception(exception: &Exception) {
    let (goroutine, backtrace) = (exception.goroutine(), Backtrace::force_capture());
    if !is_covered(goroutine) {
        end(Some(goroutine), exception, &backtrace);
    }
    end_goroutine(goroutine, exception, &backtrace);
    #[expect(unsafe_code, reason = "leaves frames without unwinding them")]
    // SAFETY: the program does not link `std`, so only the children of the G's scopes can borrow from its frames.
    // `abandon` waits until they have ended.
    unsafe {
        abandon::<Kernel>(JoinError::panicked())
    }
}

/// Reports that the calling G ends because of `cause`.
fn end_goroutine(goroutine: &'static Goroutine<Kernel>, cause: &dyn fmt::Display, backtrace: &Backtrace) {
    let end = format!("goroutine {} is dead and the others go on.\n", goroutine.id());
    print(Some(goroutine), cause, backtrace, &end);
}

/// Reports `cause`, which is a panic or an exception of the calling G, and ends the process. If the caller is a thread
/// that runs no G, `goroutine` is `None`.
fn end(goroutine: Option<&'static Goroutine<Kernel>>, cause: &dyn fmt::Display, backtrace: &Backtrace) -> ! {
    static ENDING: OnceLock<ThreadId> = OnceLock::new();
    // Only the first cause is reported, as on the machine. If another thread calls this function meanwhile, it waits
    // here until the process ends.
    let me = thread::current().id();
    if ENDING.set(me).is_err() {
        if ENDING.get() == Some(&me) {
            // The report itself has panicked or raised an exception.
            process::abort();
        }
        loop {
            thread::park();
        }
    }
    let end = goroutine.map_or_else(String::new, |goroutine| {
        // The cause is repeated after the list of Gs, so that it is also at the end of the report.
        let list = goroutine.scheduler().goroutine_list();
        format!("{list}\n\n{cause}")
    });
    print(goroutine, cause, backtrace, &end);
    process::exit(if goroutine.is_some() { STATUS_FATAL } else { KERNEL_BROKEN }.into());
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

/// Prints a report on standard error: the cause, the G that it concerns (`None` for a thread that runs no G), the
/// backtrace, and the text `end`.
fn print(goroutine: Option<&'static Goroutine<Kernel>>, cause: &dyn fmt::Display, backtrace: &Backtrace, end: &str) {
    let who = goroutine.map_or_else(
        || String::from("a thread that runs no goroutine"),
        |goroutine| format!("goroutine {} [running]", goroutine.id()),
    );
    let head = format!("{cause}\n\n{who}:\n");
    let write = || match backtrace.status() {
        BacktraceStatus::Captured => {
            let calls = native::short_backtrace(&format!("{backtrace}"));
            note::report(format_args!("{head}{calls}{end}"));
        }
        _ => note::report(format_args!("{head}  (RUST_BACKTRACE=1 shows its backtrace)\n{end}")),
    };
    // No note is printed that the G blocks its thread.
    let _section = native::forbid_waits("while a report is printed");
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

/// Takes one of this file's locks. Poisoning is ignored, because nothing panics while such a lock is held.
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

/// Prints that a G of a test has panicked. If this must fail the test after the main G has ended, also stores the text
/// in the record of the test. Called by the panic hook.
fn record(goroutine: &'static Goroutine<Kernel>, info: &PanicHookInfo<'_>) {
    let text = format!("goroutine {} panicked at {}", goroutine.id(), Panic(info));
    // The test harness shows this text if the test fails.
    std::eprintln!("{text}");
    if goroutine.id() != GoroutineId::MAIN && !is_covered(goroutine) {
        let records = lock(&RECORDS);
        if let Some((_, record)) = records.iter().find(|(of, _)| *of == key(goroutine.scheduler())) {
            lock(&record.0).get_or_insert(text);
        }
    }
}
