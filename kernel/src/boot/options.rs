//! The options of the kernel's command line. The functions of this module read and check them. `boot` passes each value
//! to the module that the option configures. README.md lists all options.

use core::ops::RangeInclusive;
use core::time::Duration;

use crate::cpu::cpus;
use crate::drivers::console::Service;
use crate::program::{args, exit};
use crate::sched::startup::{self, Settings};

/// The exit status for an invalid option. It is the usual status for wrong use of a command (`EX_USAGE` in sysexits.h).
const WRONG_USE: u8 = 64;

/// The values that `slice_us` accepts, in microseconds. With a shorter slice the CPUs would spend most of their time on
/// switches. With a longer one a G could wait for more than ten seconds.
const SLICES_US: RangeInclusive<u64> = 100..=10_000_000;
/// The values that `undisturbed_us` accepts, in microseconds: how long after a displacement no other one follows on the
/// same P.
const UNDISTURBED_US: RangeInclusive<u64> = 0..=10_000_000;
/// The values that `halt_poll_us` accepts, in microseconds: how long the last CPU that becomes idle polls for work before
/// it halts.
const HALT_POLL_US: RangeInclusive<u64> = 0..=10_000_000;
/// The values that `drain_s` accepts, in seconds: how long to wait at shutdown while the console accepts no output.
const DRAIN_S: RangeInclusive<u64> = 0..=1_000_000;

/// The option `log`: which log messages are printed.
pub(super) fn log_level() -> Option<&'static str> {
    args::option("log")
}

/// The option `drain_s`: how long to wait at shutdown while the console accepts no output.
pub(super) fn drain_time() -> Option<Duration> {
    number("drain_s", DRAIN_S).map(Duration::from_secs)
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
/// because defaults and limits depend on it.
pub(super) fn scheduler() -> Settings {
    let micros = |key, range, default| number(key, range).map_or(default, Duration::from_micros);
    let standard = Settings::standard(cpus::count());
    let most = startup::procs_limit();
    Settings {
        procs: number("procs", 1..=most as u64).map_or(standard.procs, |procs| usize::try_from(procs).unwrap_or(most)),
        seed: number("seed", 0..=u64::MAX).unwrap_or(standard.seed),
        slice: micros("slice_us", SLICES_US, standard.slice),
        undisturbed: micros("undisturbed_us", UNDISTURBED_US, standard.undisturbed),
        halt_poll: micros("halt_poll_us", HALT_POLL_US, standard.halt_poll),
    }
}

/// Returns the value of the kernel option `KEY=NUMBER`, or `None` if the option was not given. If the value is not a number
/// in `range`, prints a message and ends the program with exit status [`WRONG_USE`].
fn number(key: &str, range: RangeInclusive<u64>) -> Option<u64> {
    let value = args::option(key)?;
    match value.parse() {
        Ok(number) if range.contains(&number) => Some(number),
        _ => {
            let (from, to) = (range.start(), range.end());
            crate::eprintln!("kernel option {key}={value}: expected a number from {from} to {to}");
            exit::exit(WRONG_USE)
        }
    }
}
