//! Runs a program, or a test of a program, on threads.

use alloc::format;
use alloc::string::{String, ToString as _};
use core::ffi::{CStr, c_char, c_int};
use core::fmt;
use core::fmt::Write as _;
use core::mem;
use core::slice;
use core::time::Duration;
use std::env;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::sync::Once;

use boot_protocol::command_line::{self, SEPARATOR, quote, with_blanks};
use boot_protocol::kernel_option::{self, PREEMPTION, PREEMPTION_OFF, STDERR};
use gmp_sched::native::{self, PROCS_LIMIT, Threads};
use gmp_sched::policy::Policy;
use gmp_sched::schedtrace::Schedtrace;

use super::{args, exit};
use crate::host::note::report;
use crate::host::{console, cpus, disk, panic};

/// The environment variable that contains the kernel options, with blanks or commas between them.
const OPTIONS: &str = "GMP_KERNEL_OPTIONS";
/// The keys of the kernel options that have an effect on the host.
const EFFECTIVE: [&str; 7] = ["blocking_limit", "panic", PREEMPTION, "procs", "scheddetail", "schedtrace", STDERR];
/// Exit status for wrong arguments, kernel options or disks. The command `boot` uses the same status.
pub(crate) const WRONG_USE: u8 = 64;
/// Exit status if standard output cannot be written. The command `boot` uses the same status. A closed pipe ends the
/// process by SIGPIPE instead.
pub(crate) const CANNOT_WRITE: u8 = 74;

/// Runs `main` as the main G, on a stack of `stack_size` bytes, by the rules of `policy`. Ends the process with the
/// status that `main` returns.
///
/// # Safety
///
/// `words` must point to `count` C strings, which live as long as the process, and `count` must be at least one. While
/// a G waits, it must not keep a reference to thread-local data, as [`native::enter`] requires.
pub unsafe fn program(
    count: c_int,
    words: *const *const c_char,
    stack_size: usize,
    policy: Option<&'static dyn Policy>,
    main: fn(&[&str]) -> u8,
) -> ! {
    open_standard_streams();
    let mut line = options();
    line.push_str(SEPARATOR);
    // SAFETY: the caller promises that `words` points to `count` pointers.
    let words = unsafe { slice::from_raw_parts(words, usize::try_from(count).unwrap_or(0)) };
    // The first word is the name of the program.
    for word in words.iter().skip(1) {
        // SAFETY: the caller promises that each word is a C string that lives as long as the process.
        let word = unsafe { CStr::from_ptr(*word) };
        let Ok(word) = word.to_str() else {
            fail(WRONG_USE, format_args!("the argument `{}` is not Unicode", word.to_string_lossy()))
        };
        let _ = write!(line, " {}", quote(word));
    }
    args::init(&line);
    check_options();
    disk::init();
    let procs = procs();
    // SAFETY: the caller promises that no G keeps a reference to thread-local data while it waits.
    let threads = unsafe { native::enter() };
    let threads = policy.map_or(threads, |policy| threads.policy(policy));
    with_schedtrace(threads).stack_size(stack_size).run(procs, move || {
        panic::end_program();
        exit::exit(__rust_begin_short_backtrace(|| main(args::program())))
    })
}

/// Opens `/dev/null` in place of each of standard input, output and error that the process was started without. The
/// next file or socket that the program opens would otherwise have the number of that stream, and what the program
/// prints would be written to a disk, or to a connection. (In a program with the `main` of `std`, `std` does the same.)
fn open_standard_streams() {
    const LAST: i32 = 2;
    // A file that is opened has the lowest number that is free. Without this device, the streams stay as they are.
    while let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        if null.as_raw_fd() > LAST {
            break;
        }
        // The stream stays open as long as the process.
        mem::forget(null);
    }
}

/// Runs `body` as the main G of a new scheduler, and returns its result.
///
/// # Safety
///
/// While a G waits, it must not keep a reference to thread-local data, as [`native::enter`] requires.
///
/// # Panics
///
/// If `body` panics. Also if another G panics and the kernel option `panic=isolate` is not set.
#[track_caller]
pub unsafe fn test<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    args::init(&options());
    check_options();
    console::capture();
    let panics = panic::Record::default();
    let own = panics.clone();
    // SAFETY: the caller promises that no G keeps a reference to thread-local data while it waits.
    let threads = unsafe { native::enter() };
    let result = with_schedtrace(threads).run_with(procs(), move |scheduler| {
        let _recording = own.begin(scheduler);
        disk::forget_interrupts(scheduler);
        __rust_begin_short_backtrace(body)
    });
    panics.assert_none();
    result
}

/// Calls a function of the program. Because of its name, a shortened backtrace ends with the program's function.
#[inline(always)]
fn __rust_begin_short_backtrace<T>(function: impl FnOnce() -> T) -> T {
    function()
}

/// Returns the kernel options in the form of the machine's command line. If there are any, a space follows them.
fn options() -> String {
    match env::var(OPTIONS) {
        Ok(options) => {
            let options: String = with_blanks(&options).collect();
            // Each word is written anew, so that one without its last quote does not contain the program's arguments.
            command_line::split(&options).map(|word| option(&word.to_string())).collect()
        }
        Err(env::VarError::NotPresent) => String::new(),
        Err(env::VarError::NotUnicode(_)) => fail(WRONG_USE, format_args!("{OPTIONS} is not Unicode")),
    }
}

/// Returns a kernel option as the command line has it, with a space after it. The separator, which is no option, has
/// quotes, so that it does not separate, and is refused.
fn option(word: &str) -> String {
    if word == SEPARATOR { format!("\"{word}\" ") } else { format!("{} ", quote(word)) }
}

/// Checks the kernel options. If one of them is not an option of the kernel or has a wrong value, prints a message and
/// ends the process with the status [`WRONG_USE`]. Prints a note for each option that has an effect only on the
/// machine. Sets the limit of blocking calls, and turns preemption on or leaves it off. Only the first call in a
/// process has an effect, because all tests of a process have the same options.
fn check_options() {
    static CHECK: Once = Once::new();
    CHECK.call_once(|| {
        for word in args::kernel_options() {
            match kernel_option::check(word) {
                Err(mistake) => fail(WRONG_USE, format_args!("kernel option {word}: {mistake}")),
                Ok(Some(option)) if !EFFECTIVE.contains(&option.key) => {
                    report(format_args!(
                        "note: the kernel option {word} has no effect on the host, only on the machine"
                    ));
                }
                Ok(_) => {}
            }
        }
        if let Some(limit) = args::option("blocking_limit").and_then(|limit| limit.parse().ok()) {
            native::set_blocking_limit(limit);
        }
        if args::option(PREEMPTION) != Some(PREEMPTION_OFF) {
            native::set_preemption(true);
        }
    });
}

/// Applies the kernel options `schedtrace` and `scheddetail`.
fn with_schedtrace(threads: Threads) -> Threads {
    let number = |key| args::option(key)?.parse::<u64>().ok();
    match number("schedtrace") {
        Some(milliseconds) => threads.schedtrace(Schedtrace {
            interval: Duration::from_millis(milliseconds),
            detailed: number("scheddetail") == Some(1),
        }),
        None => threads,
    }
}

/// Returns the number of Ps: the value of the kernel option `procs`, or the number of CPUs if the option is not set. If
/// the value is not allowed, ends the process with the status [`WRONG_USE`].
fn procs() -> usize {
    let limit = cpus::count().max(PROCS_LIMIT);
    let Some(value) = args::option("procs") else { return cpus::count() };
    match value.parse() {
        Ok(procs) if (1..=limit).contains(&procs) => procs,
        _ => fail(WRONG_USE, format_args!("kernel option procs={value}: expected a number from 1 to {limit}")),
    }
}

/// Prints a message on standard error, and ends the process with a status.
pub(crate) fn fail(status: u8, message: fmt::Arguments<'_>) -> ! {
    report(message);
    exit::exit(status)
}
