//! The log: messages of the `log` crate. A message is printed to standard error if it is at least as severe as a chosen
//! level. Messages are also stored in a ring in memory, traces only if they are printed. The report of a panic includes
//! this ring.

use core::sync::atomic::{AtomicUsize, Ordering};

use boot_protocol::console::Stream;
use log::{Level, LevelFilter, Log, Metadata, Record};

use super::history::History;
use super::{line, output};
use crate::arch::x86_64::timer;

/// The level of the messages that are stored, whether or not they are printed. Traces are stored only if they are
/// printed, because they would displace the other messages.
const KEPT: LevelFilter = LevelFilter::Debug;

/// The latest messages: about fifty lines.
pub(super) static HISTORY: History<4096> = History::new();

/// The [`LevelFilter`] of the messages that are printed.
static PRINTED: AtomicUsize = AtomicUsize::new(LevelFilter::Warn as usize);

struct Console;

impl Log for Console {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        // The macros of the `log` crate have checked the level already.
        true
    }

    fn log(&self, record: &Record<'_>) {
        let micros = timer::now() / 1000;
        let level = match record.level() {
            Level::Error => "error",
            Level::Warn => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        };
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        let is_printed = record.level() as usize <= PRINTED.load(Ordering::Relaxed);
        let (target, message) = (record.target(), record.args());
        line::with_formatted(format_args!("[{seconds:3}.{micros:06}] {level}: {target}: {message}\n"), |text| {
            HISTORY.append(text);
            if is_printed {
                output::write_to(Stream::Error, text);
            }
        });
    }

    fn flush(&self) {}
}

/// Starts the log. At first only warnings and errors are printed.
pub(super) fn init() {
    log::set_logger(&Console).expect("nothing else sets a logger");
    set_printed(LevelFilter::Warn);
}

/// If the kernel option `log` is set, its value becomes the level of the messages that are printed.
pub(super) fn set_level(option: Option<&str>) {
    if let Some(option) = option {
        set_printed(option.parse().expect("the table of kernel options allows only levels"));
    }
}

fn set_printed(level: LevelFilter) {
    PRINTED.store(level as usize, Ordering::Relaxed);
    log::set_max_level(level.max(KEPT));
}
