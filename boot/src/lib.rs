//! Builds a bare-metal program, boots it in QEMU, and shows its console.
//!
//! The command `boot` takes these steps. The test runner for the tests in the kernel takes all of them but the last.
//!
//! 1. [`program`] finds the program for a name or a path.
//! 2. [`build`] builds the program into a bootable ELF file, with cargo.
//! 3. [`image`] writes a disk image that contains the ELF file, if the machine is to boot on BIOS or UEFI.
//! 4. [`qemu`] turns the configuration of the machine into QEMU's arguments. [`memory`] checks that the program fits.
//! 5. [`session`] runs the machine and determines how it ended. [`process`] and [`signals`] ensure that QEMU ends when
//!    `boot` ends.
//! 6. [`annotator`] adds functions and lines to the addresses that the machine prints. It finds them in the symbols of
//!    the ELF file.
//! 7. [`console`] shows the result.
//!
//! With `--trace` or `--profile`, [`recording`] records what the scheduler of the machine does. With `--top`, [`top`]
//! shows it live. Both read memory that the machine shares with the host ([`shared_memory`]).
//!
//! With `--icount`, the disks of the machine are in its memory ([`memory_disk`]), and its input can come at instants of
//! its own clock ([`input_memory`], [`input_script`]). The frames of its network are then input, too (`wire`).
//! [`repeat`] finds the command that repeats a failed run. With `--pcap`, [`capture`] writes the frames to a file.
//!
//! [`convert`] makes a timeline of a trace that a program on threads has written. [`new`] creates the crate of a new
//! program. [`compare`] runs the benchmarks of this scheduler and of others.
//!
//! All these modules run on the host.
#![deny(unsafe_code)]

mod advice;
pub mod annotator;
pub mod build;
pub mod capture;
pub mod checkout;
pub mod compare;
pub mod console;
pub mod convert;
mod disk;
mod error;
mod host_program;
pub mod image;
pub mod input_memory;
pub mod input_script;
mod listed_child;
pub mod memory;
pub mod memory_disk;
mod memory_file;
mod monitor;
mod net;
pub mod new;
mod paths;
pub mod process;
mod profiler;
pub mod program;
pub mod qemu;
pub mod recording;
pub mod repeat;
mod reserved;
pub mod same_file;
pub mod session;
pub mod shared_memory;
pub mod signals;
mod symbols;
mod temporary;
pub mod top;
mod wire;

pub use error::Error;
