//! Builds a bare-metal program, boots it in QEMU, and shows its console.
//!
//! The command `boot` takes these steps. The test runner for the tests in the kernel takes them, too.
//!
//! 1. [`program`] finds the program for a name or a path.
//! 2. [`build`] builds the program into a bootable ELF file, with cargo.
//! 3. [`qemu`] turns the configuration of the machine into QEMU's arguments. [`memory`] checks that the program fits.
//! 4. [`session`] runs the machine and determines how it ended. [`process`] ensures that QEMU ends when `boot` ends.
//! 5. [`annotator`] adds functions and lines to the addresses that the machine prints. It finds them in the symbols of
//!    the ELF file.
//! 6. [`console`] shows the result.
//!
//! [`new`] creates the crate of a new program.
//!
//! All these modules run on the host.
#![deny(unsafe_code)]

pub mod annotator;
pub mod build;
pub mod console;
mod error;
pub mod memory;
mod monitor;
pub mod new;
pub mod process;
pub mod program;
pub mod qemu;
pub mod session;
mod symbols;

pub use error::Error;
