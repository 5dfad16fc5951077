//! A bare-metal x86_64 multicore kernel whose scheduler is [`gmp_sched`], as a library: a program for the machine is an
//! ordinary `no_std` crate with a `main`, linked with this one into a single ELF that QEMU (or a bare machine) boots.
//!
//! ```no_run
//! #![no_std]
//! #![no_main]
//! use kernel::prelude::*;
//!
//! kernel::main!(main);
//!
//! fn main(args: &[&str]) {
//!     println!("hello, {args:?}");
//! }
//! ```
//!
//! Everything runs in ring 0 and one address space; isolation is Rust's, not the hardware's. The crate is compiled for
//! the host's Linux target, whose prebuilt `core` has a red zone and uses SSE2. Hence three rules that hold everywhere:
//! interrupts and exceptions enter on stacks of their own, nothing is ever written to the 128 bytes below an
//! interrupted stack pointer, and SSE is on before the first line of Rust on every CPU.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | `entry` | boot protocols, order of the start |
//! | [`program`], [`args`], [`exit`] | what a program sees: `main!`, its arguments, its status |
//! | [`console`] | `println!`, the log, input |
//! | [`panic`](mod@panic), `isolation`, `inspection`, [`snapshot`], [`backtrace`] | the last words of a machine; where every CPU is |
//! | [`percpu`], [`cpus`], [`sync`] | per-CPU data and the preempt count, the CPUs that are up, locks |
//! | [`watchdog`] | finds CPUs that have interrupts or preemption off for too long |
//! | [`mm`] | frames, page tables, stacks, heap |
//! | [`arch`] | the processor: descriptor tables, traps, interrupt controllers, clocks, start of the other CPUs |
//! | [`acpi`] | what the firmware's tables say |
//! | `pci`, `virtio`, [`disk`] | devices on the bus, and what a program sees of them |
//! | [`platform`], [`kthread`] | the scheduler's side: the one file that knows both worlds, kernel threads |
//! | [`storm`] | preemptions every few microseconds, for tests |

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

#[expect(unsafe_code, reason = "reads firmware tables from physical memory")]
pub mod acpi;
#[expect(unsafe_code, reason = "the processor's own interface")]
pub mod arch;
pub mod args;
#[expect(unsafe_code, reason = "reads the stacks of stopped CPUs")]
pub mod backtrace;
pub mod blocking;
#[expect(unsafe_code, reason = "names the serial port's registers")]
pub mod console;
pub mod cpus;
pub mod disk;
#[expect(unsafe_code, reason = "boot protocols hand over raw memory")]
mod entry;
#[expect(unsafe_code, reason = "writes to the port that ends QEMU")]
pub mod exit;
mod idle;
mod inspection;
mod isolation;
#[expect(unsafe_code, reason = "promises what kernel threads rely on")]
pub mod kthread;
#[expect(unsafe_code, reason = "what the compiler expects from the C library")]
mod memory;
#[expect(unsafe_code, reason = "makes memory")]
pub mod mm;
pub mod panic;
#[expect(unsafe_code, reason = "reads and writes registers of devices")]
mod pci;
#[expect(unsafe_code, reason = "reads per-CPU words through GS")]
pub mod percpu;
#[expect(unsafe_code, reason = "promises what the scheduler relies on")]
pub mod platform;
#[expect(unsafe_code, reason = "calls the program by a name that only the linker checks")]
pub mod program;
#[expect(unsafe_code, reason = "keeps a place as a pointer")]
pub mod snapshot;
pub mod storm;
#[expect(unsafe_code, reason = "locks")]
pub mod sync;
#[expect(unsafe_code, reason = "shares memory with devices")]
mod virtio;
pub mod watchdog;

/// What nearly every program uses.
pub mod prelude {
    pub use alloc::borrow::ToOwned;
    pub use alloc::boxed::Box;
    pub use alloc::string::{String, ToString};
    pub use alloc::vec::Vec;
    pub use alloc::{format, vec};

    pub use crate::platform::{
        Barrier, Builder, Condvar, JoinHandle, Lazy, Mutex, MutexGuard, Once, OnceCell, ReadMostlyRwLock, RwLock,
        Semaphore, WaitGroup, exit, go, num_cpu, num_goroutine, procs, set_procs, sleep, yield_now,
    };
    pub use crate::{print, println};
}

#[global_allocator]
static HEAP: mm::heap::KernelHeap = mm::heap::KernelHeap;
