//! Definitions on which the kernel and the host tools must agree.
//!
//! - [`status`]: the exit statuses, and how they are passed through QEMU's `isa-debug-exit` device.
//! - [`command_line`]: quoting on the kernel's command line, and which of its words are for the kernel and which for the
//!   program.
//! - [`console`]: the bytes with a special meaning on the console, and the forms of the texts that `boot` annotates.
//! - [`report`]: the lines that list the tests in the kernel and report their results.
//!
//! Nothing here allocates, blocks or accesses hardware: everything is callable from anywhere, including interrupt handlers.
#![no_std]
#![deny(unsafe_code)]

pub mod command_line;
pub mod console;
pub mod report;
pub mod status;
