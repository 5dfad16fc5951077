//! The kernel's options: each is read from the command line here, checked, and passed to the module that it is for. README.md
//! lists them.

use core::ops::RangeInclusive;
use core::time::Duration;

use crate::cpu::cpus;
use crate::drivers::console::Service;
use crate::program::{args, exit};
use crate::sched::startup::{self, Settings};

/// Exit status for invalid options, as of a command with wrong usage (`EX_USAGE`).
const WRONG_USE: u8 = 64;

/// The slices that can be chosen, in microseconds. With shorter ones the CPUs do little else than switch; with longer ones a G
/// could wait for more than ten seconds.
const SLICES_US: RangeInclusive<u64> = 100..=10_000_000;
/// How long no displacement may follow another one, in microseconds.
const UNDISTURBED_US: RangeInclusive<u64> = 0..=10_000_000;
/// How long the last CPU to become idle may poll, in microseconds.
const HALT_POLL_US: RangeInclusive<u64> = 0..=10_000_000;
/// How long the console may take nothing at shutdown, in seconds.
const DRAIN_S: RangeInclusive<u64> = 0..=1_000_000;

/// `log`: the level of the messages that are printed.
pub(super) fn log_level() -> Option<&'static str> {
    args::option("log")
}

/// `drain_s`: how long to wait at shutdown for a console that accepts nothing.
pub(super) fn drain_time() -> Option<Duration> {
    number("drain_s", DRAIN_S).map(Duration::from_secs)
}

/// `console`: how the console's port is served.
pub(super) fn console_service() -> Service {
    if args::option("console") == Some("polled") { Service::Polled } else { Service::ByInterrupt }
}

/// `timer`: the kind of timer.
pub(super) fn timer() -> Option<&'static str> {
    args::option("timer")
}

/// `dead_cpu`: whether the CPU with this APIC id is not to be started, as if it did not answer.
pub(super) fn is_dead(apic_id: u32) -> bool {
    args::options("dead_cpu").any(|dead| dead.parse() == Ok(apic_id))
}

/// `panic`: what a panic ends.
pub(super) fn panic() -> Option<&'static str> {
    args::option("panic")
}

/// `procs`, `seed`, `slice_us`, `undisturbed_us` and `halt_poll_us`. Read when the number of CPUs is known.
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

/// The value of the kernel option `KEY=NUMBER`, `None` if it was not given. Anything but a number in `range` ends the program
/// with a message and the status of wrong usage.
fn number(key: &str, range: RangeInclusive<u64>) -> Option<u64> {
    let value = args::option(key)?;
    match value.parse() {
        Ok(number) if range.contains(&number) => Some(number),
        _ => {
            let (from, to) = (range.start(), range.end());
            crate::println!("kernel option {key}={value}: expected a number from {from} to {to}");
            exit::exit(WRONG_USE)
        }
    }
}
