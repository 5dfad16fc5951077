//! The report of an exception or a stack overflow: the cause, the calls of the G, and all Gs.
//!
//! The G may hold any lock, and the process must still end with a report. So this module takes no lock and does not
//! allocate. Only a [copy](process_copy) of the process looks up the names of functions. If it cannot, for example
//! because the stack has overflowed while `std` displayed another backtrace, a second copy prints addresses.

use core::fmt::Write as _;
use core::sync::atomic::{AtomicBool, Ordering};
use std::backtrace::Backtrace;
use std::thread;

use super::{__rust_end_short_backtrace, Cause, Frame, is_own_code};
use crate::native::overflow::{Buffered, STACK_OVERFLOW, Unbuffered};
use crate::native::panic_hook::Named;
use crate::native::{call_stack, process_copy, short_backtrace};
use crate::record::trace_ring::FRAMES;

/// Whether a report is being printed, after which the process ends.
pub(super) static IS_REPORTING: AtomicBool = AtomicBool::new(false);

/// Prints the report. If the cause is a stack overflow, the signal handler has already printed the first lines of the
/// report, and this function prints the other lines.
pub(super) fn print(frame: &Frame) {
    // Only the first exception is reported. A thread that raises another exception meanwhile waits here until the
    // process ends.
    while IS_REPORTING.swap(true, Ordering::Relaxed) {
        thread::park();
    }
    let (goroutine, exception) = match &frame.cause {
        Cause::Exception(exception) => (exception.goroutine, Some(exception)),
        Cause::Overflow(goroutine) => (*goroutine, None),
    };
    let mut output = Buffered::new();
    // Writing to standard error may fail, but there is no other place for the report.
    if let Some(exception) = exception {
        let _ = writeln!(output, "{exception}");
    }
    let _ = writeln!(output, "\n{} [running]:", Named(goroutine));
    output.flush();
    let skipped = usize::from(frame.start.is_uncertain);
    if !process_copy::run(|| print_names(skipped)) && !process_copy::run(print_addresses) {
        let _ = writeln!(output, "  (the calls are unknown)");
    }
    let _ = write!(output, "{}\n\n", goroutine.scheduler().goroutine_list());
    let _ = match exception {
        Some(exception) => writeln!(output, "{exception}"),
        None => writeln!(output, "{STACK_OVERFLOW}"),
    };
    output.flush();
}

/// Prints the calls with the names of the functions and the lines of code. Allocates and takes locks.
fn print_names(skipped: usize) {
    let backtrace = std::format!("{}", Backtrace::force_capture());
    let _ = Unbuffered.write_str(&short_backtrace::shorten(&backtrace, skipped));
}

/// Prints the addresses of the innermost calls. An address in the executable file of the program is relative to its
/// beginning, as in the file itself.
fn print_addresses() {
    // The linker defines this symbol. Only its address is used.
    unsafe extern "C" {
        safe static __executable_start: u8;
    }
    let mut addresses = [0; FRAMES];
    let count = call_stack::read(&mut addresses);
    let begin = __rust_end_short_backtrace as *const () as u64;
    // The call in `__rust_end_short_backtrace` is its first instruction.
    let is_of_report = |address: &u64| (begin..begin + 8).contains(address);
    let of_report = addresses[..count].iter().position(is_of_report).map_or(0, |last| last + 1);
    let mut output = Buffered::new();
    let mut calls = &addresses[of_report..count];
    while !calls.is_empty() {
        let (length, repeats) = short_backtrace::cycle(calls, u64::eq).unwrap_or((1, 1));
        for &address in &calls[..length] {
            let _ = if is_own_code(address) {
                writeln!(output, "  at {:#x} of the program", address - &raw const __executable_start as u64)
            } else {
                writeln!(output, "  at {address:#x} in a library")
            };
        }
        if repeats > 1 {
            let _ = writeln!(output, "      ... {repeats} times in succession ...");
        }
        calls = &calls[length * repeats..];
    }
    let _ = writeln!(output, "  (`addr2line -Cife PROGRAM ADDRESS` shows the function of an address)");
    output.flush();
}
