//! The options of the kernel's command line. The functions of this module read and check them. The module `boot` passes
//! each value to the module that the option configures. README.md lists all options.

use core::fmt::Display;
use core::time::Duration;

use boot_protocol::kernel_option;

use crate::cpu::cpus;
use crate::drivers::console::Service;
use crate::program::{args, exit};
use crate::sched::startup::{self, Settings};

/// The exit status for an invalid option. It is the usual status for wrong use of a command (`EX_USAGE` in sysexits.h).
const WRONG_USE: u8 = 64;

/// Checks all options against the table [`kernel_option::OPTIONS`], which the host's command `boot` also uses. If an option
/// is unknown or its value is invalid, prints a message and ends the program with exit status [`WRONG_USE`].
pub(super) fn check() {
    for word in args::kernel_options() {
        if let Err(mistake) = kernel_option::check(word) {
            refuse(&word, &mistake);
        }
    }
}

fn refuse(word: &dyn Display, mistake: &dyn Display) -> ! {
    crate::eprintln!("kernel option {word}: {mistake}");
    exit::exit(WRONG_USE)
}

/// The option `log`: which log messages are printed.
pub(super) fn log_level() -> Option<&'static str> {
    args::option("log")
}

/// The option `drain_s`: how long to wait at shutdown while the console accepts no output.
pub(super) fn drain_time() -> Option<Duration> {
    number("drain_s").map(Duration::from_secs)
}

/// The option `console`: whether the serial port is served by interrupts or polled.
pub(super) fn console_service() -> Service {
    if args::option("console") == Some("polled") { Service::Polled } else { Service::ByInterrupt }
}

/// The option `timer`: which mode of the local APIC's timer is used.
pub(super) fn timer() -> Option<&'static str> {
    args::option("timer")
}

/// The option `dead_cpu`, for tests: whether to treat the CPU with this APIC id as one that does not start.
pub(super) fn is_dead(apic_id: u32) -> bool {
    args::options("dead_cpu").any(|dead| dead.parse() == Ok(apic_id))
}

/// The option `panic`: whether a panic ends one G or the program.
pub(super) fn panic() -> Option<&'static str> {
    args::option("panic")
}

/// The options `procs`, `seed`, `slice_us`, `undisturbed_us` and `halt_poll_us`. Called when the number of CPUs is known,
/// because the default and the limit of `procs` depend on it.
pub(super) fn scheduler() -> Settings {
    let micros = |key, default| number(key).map_or(default, Duration::from_micros);
    let standard = Settings::standard(cpus::count());
    let procs = number("procs").map_or(standard.procs, |procs| procs as usize);
    let limit = startup::procs_limit();
    if procs > limit {
        refuse(&format_args!("procs={procs}"), &format_args!("expected a number from 1 to {limit}"));
    }
    Settings {
        procs,
        seed: number("seed").unwrap_or(standard.seed),
        slice: micros("slice_us", standard.slice),
        undisturbed: micros("undisturbed_us", standard.undisturbed),
        halt_poll: micros("halt_poll_us", standard.halt_poll),
    }
}

/// The value of a kernel option that is a number. [`check`] has ensured that it is in the range of the option.
fn number(key: &str) -> Option<u64> {
    args::option(key)?.parse().ok()
}
