//! Builds a program for the machine, boots it in QEMU, and shows its console.
//!
//! The steps, each of which the command `boot` and the tests inside the machine use:
//!
//! 1. [`program`] finds what is meant by a name or a path,
//! 2. [`build`] has cargo make an ELF file of it that boots,
//! 3. [`qemu`] turns the machine asked for into QEMU's arguments,
//! 4. [`session`] runs it and knows how it ended; [`process`] sees to it that no QEMU is left behind,
//! 5. [`annotator`] adds functions and lines to the addresses that the machine prints, by its symbols,
//! 6. [`console`] shows what comes of that.
//!
//! None of it may be called from the machine: this is the host's side.
#![deny(unsafe_code)]

pub mod annotator;
pub mod build;
pub mod console;
mod error;
mod monitor;
pub mod process;
pub mod program;
pub mod qemu;
pub mod session;
mod symbols;

pub use error::Error;
