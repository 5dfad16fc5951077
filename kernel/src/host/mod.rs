//! The kernel for programs that run on the host. It has the same interface as the kernel on the machine, and is
//! implemented with [`gmp_sched::native`].
//!
//! A G runs on threads of the process, the console is standard input and output, and a disk is a file. The host lacks
//! some features of the machine, such as preemption of loops and the count of free memory. When a program first relies
//! on such a feature, a note is printed on standard error: see [`note`].
//!
//! Five files are used by the machine's half of the crate, too. The host's half includes them by their paths:
//! `program/args.rs`, `program/entry.rs`, `mm/error.rs`, `drivers/disk_error.rs` and `drivers/console/macros.rs`.

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
