//! The kernel for programs that run on the host. It has the same interface as the kernel on the machine, and is
//! implemented with [`gmp_sched::native`].
//!
//! A G runs on threads of the process, the console is standard input and output, and a disk is a file. The host lacks
//! some features of the machine, such as hardware and the count of free memory. When a program first relies on such a
//! feature, a note is printed on standard error: see [`note`].
//!
//! Some files of the machine's half of the crate are used on the host, too. This module includes them by their paths:
//! `program/args.rs`, `program/entry.rs`, `cpu/id.rs`, `cpu/sync/locks.rs`, `mm/error.rs`, `mm/usage.rs`,
//! `drivers/disk_access.rs`, `drivers/disk_error.rs`, `drivers/disk_cursor.rs`, `drivers/net/interface.rs`,
//! `drivers/net/sim.rs`, `drivers/pit/wait.rs`, `drivers/random/numbers.rs`, `drivers/console/macros.rs`,
//! `drivers/console/stdin.rs`, `sched/platform/counts.rs` and `diagnostics/watchdog/off_times.rs`.

pub mod clock;
pub mod console;
pub mod cpus;
pub mod disk;
#[expect(unsafe_code, reason = "implements an allocator")]
mod heap;
#[expect(dead_code, reason = "per-CPU data of the machine uses more of it")]
#[path = "../cpu/id.rs"]
mod id;
pub mod mm;
pub mod net;
mod note;
mod panic;
pub mod percpu;
pub mod pit;
pub mod platform;
pub mod program;
pub(crate) mod random;
pub mod sync;
pub mod watchdog;
