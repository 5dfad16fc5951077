//! A bare-metal x86_64 multicore kernel whose scheduler is [`gmp_sched`], as a library: a program is an ordinary `no_std` crate
//! with a `main`, linked with this one into a single ELF that QEMU (or a bare machine) boots.
//!
//! ```no_run
//! #![no_std]
//! #![cfg_attr(not(test), no_main)]
//! use kernel::prelude::*;
//!
//! kernel::main!(main);
//!
//! fn main(args: &[&str]) {
//!     println!("hello, {args:?}");
//! }
//! ```
//!
//! `boot` compiles it with `--cfg gmp_machine`. Without that, as by `cargo run` and `cargo test` in the program's crate, this
//! crate has its other half, with the same interface: the same program runs on threads of the host, its console is standard
//! input and output, its disks are files. See [`program`].
//!
//! Everything runs in ring 0 and one address space; isolation is Rust's, not the hardware's. The crate is compiled for
//! the host's Linux target, whose prebuilt `core` has a red zone and uses SSE2. Hence three rules that hold everywhere:
//! interrupts and exceptions enter on stacks of their own, nothing is ever written to the 128 bytes below an
//! interrupted stack pointer, and SSE is on before the first line of Rust on every CPU.
//!
//! # What is safe
//!
//! What is public and safe keeps its promises whatever a program does with it: the scheduler's interface ([`platform`]),
//! locks ([`sync`]), devices, and what can be asked of the machine. What is not for programs is private, or `unsafe`
//! where a test needs it. Which of it may be used where (in a G, with preemption off, with a lock of handlers held, in a
//! handler) is one table that the kernel checks:
//!
#![doc = include_str!("cpu/contexts.md")]
//!
//! "Pinned" is with preemption off: with a [`PreemptGuard`](percpu::PreemptGuard) or a `PreemptMutex`. What is refused is
//! a panic that names the context and the place where it began. No safe code of a program runs in a handler.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`program`], [`args`], [`exit`] | what a program sees: `main!`, its arguments, its status |
//! | [`platform`] | the scheduler, for this kernel: Gs, channels, locks that block |
//! | [`console`], [`disk`], [`clock`] | `println!` and input, disks, time |
//! | [`cpus`], [`percpu`], [`sync`] | the CPUs that are up, preemption, locks that do not block |
//! | [`mm`], [`watchdog`] | how much memory is in use; CPUs that have interrupts or preemption off for too long |
//!
//! The source is a stack of layers, one folder each; see ARCHITECTURE.md. What is listed above is exported from:
//!
//! | folder | what |
//! |---|---|
//! | `boot` | boot protocols, order of the start, start of the other CPUs, the kernel's options |
//! | `program` | what a program sees; `internals`: what else the guest tests need |
//! | `traps` | interrupts and exceptions: how they enter Rust, and what each does |
//! | `drivers` | console, disk, `pci`, `virtio` |
//! | `diagnostics` | `panic`, `isolation`, `inspection`, `snapshot`, `backtrace`: the last words of a machine; where every CPU is |
//! | `sched` | `platform`; `kthread`, `blocking`, `idle`: kernel threads; blocking in a driver; what a CPU does that has nothing to run; `storm`: preemptions every few microseconds |
//! | `arch` | the processor: segments and interrupt stacks, interrupt controllers, clocks; `acpi`: what the firmware's tables say |
//! | `mm` | frames, page tables, heap, stacks |
//! | `cpu` | per-CPU data, locks; `contexts`: the table above, and its checks |

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

// The machine.
#[cfg(gmp_machine)]
mod arch;
#[cfg(gmp_machine)]
#[expect(unsafe_code, reason = "boot protocols hand over raw memory")]
mod boot;
#[cfg(gmp_machine)]
mod cpu;
#[cfg(gmp_machine)]
mod diagnostics;
#[cfg(gmp_machine)]
mod drivers;
#[cfg(gmp_machine)]
#[expect(unsafe_code, reason = "makes memory")]
pub mod mm;
#[cfg(gmp_machine)]
pub mod program;
#[cfg(gmp_machine)]
mod sched;
#[cfg(gmp_machine)]
#[expect(unsafe_code, reason = "continues interrupted code")]
mod traps;

#[cfg(gmp_machine)]
#[doc(hidden)]
pub use program::internals;
#[cfg(gmp_machine)]
pub use {
    cpu::{cpus, percpu, sync},
    diagnostics::watchdog,
    drivers::{console, disk},
    program::{args, exit},
    sched::platform,
};

/// The machine's clock, in nanoseconds. Readable in every context.
#[cfg(gmp_machine)]
pub mod clock {
    pub use crate::arch::x86_64::timer::{now, since_power_on};
}

#[cfg(gmp_machine)]
#[global_allocator]
static HEAP: mm::heap::KernelHeap = mm::heap::KernelHeap;

// The host, with the same public modules: `qemu-tests/tests/surface` compares them.
#[cfg(not(gmp_machine))]
extern crate std;
#[cfg(not(gmp_machine))]
mod host;

#[cfg(not(gmp_machine))]
pub use host::{
    clock, console, cpus, disk, mm, percpu, platform, program,
    program::{args, exit},
    sync, watchdog,
};

/// Whether a G that runs a loop is preempted: on the machine it is, on the host it runs until it waits, yields or ends.
pub const PREEMPTS_LOOPS: bool = cfg!(gmp_machine);

/// What nearly every program uses.
pub mod prelude {
    pub use alloc::borrow::ToOwned;
    pub use alloc::boxed::Box;
    pub use alloc::string::{String, ToString};
    pub use alloc::vec::Vec;
    pub use alloc::{format, vec};

    pub use crate::platform::{
        Barrier, Builder, Condvar, JoinHandle, Lazy, Mutex, MutexGuard, Once, OnceCell, ReadMostlyRwLock, RwLock,
        Semaphore, WaitGroup, go, goexit, num_cpu, num_goroutine, procs, set_procs, sleep, yield_now,
    };
    pub use crate::{print, println};
}
