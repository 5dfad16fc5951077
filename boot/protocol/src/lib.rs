//! Definitions on which the kernel and the host tools must agree.
//!
//! - [`status`]: the exit statuses, and how the guest passes them through QEMU's `isa-debug-exit` device.
//! - [`command_line`]: the quoting of words on the kernel's command line, and which words are for the kernel and which
//!   for the program.
//! - [`kernel_option`]: the kernel's options, with the values that they accept.
//! - [`console`]: the bytes with a special meaning on the console, and the texts that `boot` annotates.
//! - [`input`]: the bytes of the input, the keys with a meaning, and the end of the input.
//! - [`input_memory`]: the memory from which a machine gets input at instants of its own clock.
//! - [`memory_disk`]: the layout of a disk in memory.
//! - [`observed_memory`]: the memory in which the host observes the scheduler.
//! - [`report`]: the lines that list the tests in the kernel and report their results.
//!
//! Nothing here allocates, blocks or accesses hardware. So all functions can be called in every context, including
//! interrupt handlers.
#![no_std]
#![deny(unsafe_code)]

pub mod command_line;
pub mod console;
pub mod input;
pub mod input_memory;
pub mod kernel_option;
pub mod memory_disk;
pub mod observed_memory;
pub mod report;
pub mod status;
