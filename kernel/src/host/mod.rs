//! The kernel for programs that run on the host: the same interface as the machine's, over [`gmp_sched::native`].
//!
//! A G runs on threads of the process, the console is standard input and output, a disk is a file. What the host cannot do,
//! such as preempting a loop or counting the frames of memory, is said on standard error at its first use: see [`note`].
//!
//! Five files are the machine's own, included by their paths: `program/args.rs`, `program/entry.rs`, `mm/error.rs`,
//! `drivers/disk_error.rs` and `drivers/console/macros.rs`.

pub mod clock;
pub mod console;
pub mod cpus;
pub mod disk;
pub mod mm;
mod note;
mod panic;
pub mod percpu;
pub mod platform;
pub mod program;
mod slices;
pub mod sync;
pub mod watchdog;
