//! The kernel for programs that run on the host. The interface is that of the kernel on the machine; the implementation
//! uses [`gmp_sched::native`].
//!
//! A G runs on threads of the process, the console is standard input and output, and a disk is a file. Some things the host
//! cannot do, such as preempting a loop or counting the frames of memory. When a program first relies on one of them, a
//! note is printed on standard error: see [`note`].
//!
//! Five files are shared with the machine's half of the crate, and included by their paths: `program/args.rs`,
//! `program/entry.rs`, `mm/error.rs`, `drivers/disk_error.rs` and `drivers/console/macros.rs`.

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
