//! What the kernel and the host tools must agree on, written once so that it cannot drift.
//!
//! - [`status`]: the exit statuses, and how one travels through QEMU's `isa-debug-exit` device.
//! - [`command_line`]: how words are quoted on the kernel's command line, and which of them are whose.
//! - [`console`]: the bytes with a meaning on the console, and the form of an address in a backtrace.
//! - [`report`]: the lines by which tests inside the machine are listed and report.
//!
//! Nothing here allocates, blocks or touches hardware: everything may be called anywhere, also in an interrupt handler.
#![no_std]
#![deny(unsafe_code)]

pub mod command_line;
pub mod console;
pub mod report;
pub mod status;
