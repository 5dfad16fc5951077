//! The options of the kernel's command line. The functions of this module read and check them. The module `boot` passes
//! each value to the module that the option configures. docs/manual/options.md lists all options.

use core::fmt::Display;
use core::net::IpAddr;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use boot_protocol::kernel_option::{self, DNS, GATEWAY, IP, PREEMPTION, STDERR, STDERR_TERMINAL};
use boot_protocol::memory_disk::DiskFault;
use boot_protocol::observed_memory::Purpose;
use gmp_sched::schedtrace::Schedtrace;
use kernel_net::{Configuration, Ipv6};

use crate::cpu::cpus;
use crate::diagnostics::{publish, schedtrace};
use crate::drivers::console::Service;
use crate::drivers::disk::Model;
use crate::drivers::random;
use crate::drivers::shared_memory;
use crate::program::{args, exit};
use crate::sched::startup::{self, Observer, Settings, TraceSettings};

/// The exit status for an invalid option, and for too little memory. It is the usual status for wrong use of a command
/// (`EX_USAGE` in sysexits.h).
pub(super) const WRONG_USE: u8 = 64;

/// The default of the option `disk_timeout_s`. Linux has the same default for the time that a request to a block device
/// may take (`queue/io_timeout` in sysfs).
const DISK_TIMEOUT: Duration = Duration::from_secs(30);

/// The default of the option `disk_access_us`: the access time of a solid-state disk.
const DISK_ACCESS: Duration = Duration::from_micros(80);

/// Checks all options against the table [`kernel_option::OPTIONS`], which the host's command `boot` also uses. If an
/// option is unknown or its value is invalid, prints a message and ends the program with exit status [`WRONG_USE`].
/// Prints a note for an option that has an effect only on the host.
pub(super) fn check() {
    for word in args::kernel_options() {
        match kernel_option::check(word) {
            Err(mistake) => refuse(&word, &mistake),
            Ok(Some(option)) if option.key == PREEMPTION => {
                crate::eprintln!("note: the kernel option {word} has no effect on the machine, only on the host");
            }
            Ok(_) => {}
        }
    }
}

fn refuse(word: &dyn Display, mistake: &dyn Display) -> ! {
    crate::eprintln!("kernel option {word}: {mistake}");
    exit::exit(WRONG_USE)
}

/// Returns the value of the option `log`, which says which log messages are printed.
pub(super) fn log_level() -> Option<&'static str> {
    args::option("log")
}

/// Returns the value of the option `drain_s`: how long to wait at shutdown while the console accepts no output.
pub(super) fn drain_time() -> Option<Duration> {
    number("drain_s").map(Duration::from_secs)
}

/// Whether standard error is a terminal, according to the option `stderr`.
pub(super) fn stderr_is_terminal() -> bool {
    args::option(STDERR) == Some(STDERR_TERMINAL)
}

/// Returns how the serial port is served, according to the option `console`: with the value `polled` it is polled, and
/// otherwise it is served by interrupts.
pub(super) fn console_service() -> Service {
    if args::option("console") == Some("polled") { Service::Polled } else { Service::ByInterrupt }
}

/// Whether output may use the virtio console instead of the serial port, according to the option `console`.
pub(super) fn allows_virtio_console() -> bool {
    args::option("console").is_none_or(|console| console == "virtio")
}

/// Returns the value of the option `disk_timeout_s`: how long a disk may leave a request without an answer before it is
/// reset.
pub(super) fn disk_timeout() -> Duration {
    number("disk_timeout_s").map_or(DISK_TIMEOUT, Duration::from_secs)
}

/// Returns the model of a disk in memory, according to the options `disk_access_us`, `disk_seed` and `disk_fault`.
/// Without `disk_seed`, the value of the option `seed` is used.
pub(super) fn disk_model() -> Model {
    let access = number("disk_access_us").map_or(DISK_ACCESS, Duration::from_micros);
    Model {
        // The conversion loses nothing, because `check` has ensured that the number is in the range of the option.
        access: access.as_nanos() as u64,
        seed: number("disk_seed").or_else(seed).unwrap_or(0),
        fault: args::option("disk_fault").and_then(DiskFault::parse),
    }
}

/// Returns the addresses of the computer, according to the options `ip`, `gateway` and `dns`. The first two may each be
/// given twice: once for IPv4 and once for IPv6.
pub(super) fn net_configuration() -> Configuration {
    let mut configuration = Configuration { ipv6: Ipv6::Automatic, ..Configuration::default() };
    let mut gateway6 = None;
    for gateway in args::options(GATEWAY).filter_map(|text| text.parse().ok()) {
        match gateway {
            IpAddr::V4(gateway) => configuration.gateway = Some(gateway),
            IpAddr::V6(gateway) => gateway6 = Some(gateway),
        }
    }
    for (address, bits) in args::options(IP).filter_map(kernel_option::network) {
        match address {
            IpAddr::V4(address) => configuration.address = Some((address, bits)),
            IpAddr::V6(address) => {
                configuration.ipv6 = Ipv6::Fixed { address: (address, bits), gateway: gateway6 };
            }
        }
    }
    configuration.dns = args::option(DNS).and_then(|text| text.parse().ok());
    configuration
}

/// Returns the value of the option `timer`, which says which mode of the local APIC's timer is used.
pub(super) fn timer() -> Option<&'static str> {
    args::option("timer")
}

/// Whether the work of a timer's interrupt begins at a fixed count of instructions, according to the option
/// `timer_align`.
pub(super) fn aligns_timer() -> bool {
    args::option("timer_align") == Some("on")
}

/// Whether to treat the CPU with this APIC id as one that does not start, according to the option `dead_cpu`, which is
/// for tests.
pub(super) fn is_dead(apic_id: u32) -> bool {
    args::options("dead_cpu").any(|dead| dead.parse() == Ok(apic_id))
}

/// Whether to start the CPU with this APIC id only when the kernel does not wait for it any more, according to the
/// option `late_cpu`, which is for tests.
pub(super) fn is_late(apic_id: u32) -> bool {
    args::options("late_cpu").any(|late| late.parse() == Ok(apic_id))
}

/// Returns the value of the option `panic`, which says whether a panic ends one G or the program.
pub(super) fn panic() -> Option<&'static str> {
    args::option("panic")
}

/// Returns the value of the option `seed`: the seed of all random numbers.
pub(super) fn seed() -> Option<u64> {
    number("seed")
}

/// Returns the memory into which the scheduler writes its trace, and what the trace contains, according to the option
/// `trace`. Returns `None` if the option is not set.
fn trace() -> Option<TraceSettings> {
    let kind = args::option("trace")?;
    let memory = observed_memory(Purpose::Trace, &format_args!("trace={kind}"));
    Some(TraceSettings { memory, is_profile: kind == "profile" })
}

/// Returns the function of the kernel thread that publishes the numbers of the scheduler, or `None` if the option `top`
/// is not set.
fn publisher() -> Option<Observer> {
    let value = args::option("top")?;
    Some(publish::configure(observed_memory(Purpose::Numbers, &format_args!("top={value}"))))
}

/// Returns the memory for `purpose`, which `option` needs. If there is none, refuses the option.
fn observed_memory(purpose: Purpose, option: &dyn Display) -> &'static [AtomicU64] {
    shared_memory::observed(purpose).unwrap_or_else(|| {
        let missing = "the machine has no memory that the host reads for it, or not enough memory to use it";
        refuse(option, &missing)
    })
}

/// Returns the function of the kernel thread that prints the state of the scheduler (options `schedtrace` and
/// `scheddetail`), or `None` if `schedtrace` is not set.
fn schedtrace() -> Option<Observer> {
    let interval = Duration::from_millis(number("schedtrace")?);
    Some(schedtrace::configure(Schedtrace { interval, detailed: number("scheddetail") == Some(1) }))
}

/// Returns the settings of the scheduler, according to the options `procs`, `seed`, `slice_us`, `undisturbed_us`,
/// `halt_poll_us`, `blocking_limit`, `trace`, `top`, `schedtrace` and `scheddetail`. Called when the number of CPUs is
/// known, because the default and the limit of `procs` depend on it.
pub(super) fn scheduler() -> Settings {
    let micros = |key, default| number(key).map_or(default, Duration::from_micros);
    let standard = Settings::standard(cpus::count(), seed().unwrap_or_else(random::seed));
    // The seed is logged, so that a run that fails can be repeated with the same random choices.
    log::info!("seed={}", standard.seed);
    let procs = number("procs").map_or(standard.procs, |procs| procs as usize);
    let limit = startup::procs_limit();
    if procs > limit {
        refuse(&format_args!("procs={procs}"), &format_args!("expected a number from 1 to {limit}"));
    }
    Settings {
        procs,
        slice: micros("slice_us", standard.slice),
        undisturbed: micros("undisturbed_us", standard.undisturbed),
        halt_poll: micros("halt_poll_us", standard.halt_poll),
        // The conversion loses nothing, because `check` has ensured that the number is in the range of the option.
        blocking_limit: number("blocking_limit").map_or(standard.blocking_limit, |limit| limit as u32),
        trace: trace(),
        observers: [schedtrace(), publisher()],
        ..standard
    }
}

/// Returns the value of a kernel option that is a number, or `None` if the option is not given. [`check`] has ensured
/// that the value is in the range of the option.
fn number(key: &str) -> Option<u64> {
    args::option(key)?.parse().ok()
}
