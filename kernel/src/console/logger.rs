//! The log: messages of the `log` crate, on the console.

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::arch::x86_64::timer;

struct Console;

impl Log for Console {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        // The level is checked by the macros.
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
        crate::println!("[{seconds:3}.{micros:06}] {level}: {}: {}", record.target(), record.args());
    }

    fn flush(&self) {}
}

/// Sends the log to the console, from warnings up.
pub(super) fn init() {
    log::set_logger(&Console).expect("nothing else sets a logger");
    log::set_max_level(LevelFilter::Warn);
}

/// Sets the level by the value of the `log` option, if there is one.
pub(crate) fn set_level(option: Option<&str>) {
    let Some(option) = option else { return };
    match option.parse() {
        Ok(level) => log::set_max_level(level),
        Err(_) => log::warn!("log={option}: not one of off, error, warn, info, debug, trace"),
    }
}
