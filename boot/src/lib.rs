//! Builds a bare-metal program, boots it in QEMU, and shows its console.
//!
//! The command `boot`, and the test runner for the tests in the kernel, take these steps:
//!
//! 1. [`program`] finds the program for a name or a path,
//! 2. [`build`] builds the program into a bootable ELF file, with cargo,
//! 3. [`qemu`] turns the configuration of the machine into QEMU's arguments,
//! 4. [`session`] runs the machine and determines how it ended; [`process`] makes sure that no QEMU is left behind,
//! 5. [`annotator`] adds functions and lines, from the symbols of the ELF file, to the addresses that the machine prints,
//! 6. [`console`] shows the result.
//!
//! [`new`] makes the crate of a new program.
//!
//! All of this runs on the host.
#![deny(unsafe_code)]

pub mod annotator;
pub mod build;
pub mod console;
mod error;
mod monitor;
pub mod new;
pub mod process;
pub mod program;
pub mod qemu;
pub mod session;
mod symbols;

pub use error::Error;
