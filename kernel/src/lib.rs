//! A bare-metal x86_64 multicore kernel whose scheduler is [`gmp_sched`], as a library. A program is an ordinary
//! `no_std` crate with a `main`. It is linked with this crate into one ELF file that QEMU (or a real computer) boots.
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
//! The command `boot` compiles the program and this crate with `--cfg gmp_machine`. Without that flag, as with
//! `cargo run` and `cargo test` in the program's crate, the module `host` provides the same interface. The program then
//! runs on threads of the host, its console is standard input and output, and its disks are files. See [`program`].
//!
//! Everything runs in ring 0 and in one address space. Only Rust's types isolate Gs from each other, not the hardware.
//! The crate is compiled for the host's Linux target, whose prebuilt `core` uses the red zone and SSE2. So three rules
//! hold everywhere:
//!
//! - Interrupts and exceptions enter on stacks of their own.
//! - Nothing is ever written to the 128 bytes below an interrupted stack pointer.
//! - Every CPU turns SSE on before it executes its first line of Rust.
//!
//! # What is safe
//!
//! A program that contains no `unsafe` cannot break the kernel's guarantees. It can call the scheduler's interface
//! ([`platform`]), locks ([`sync`]), devices, and queries about the computer, which are all safe. Everything else is
//! private, or `unsafe` if tests need it. The following table says what is allowed in which context: in a G, with
//! preemption off, while holding a lock that handlers take, or in a handler. The kernel enforces this table:
//!
#![doc = include_str!("cpu/contexts.md")]
//!
//! "Pinned" means that preemption is off because of a [`PreemptGuard`](percpu::PreemptGuard) or a `PreemptMutex`. An
//! operation that the table forbids panics. The message names the context and, if known, the line of code where the
//! context began. No safe code of a program runs in a handler.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`program`], [`args`], [`exit`], [`interrupted`] | what a program gets from the kernel: `main!`, its arguments, its status, Ctrl-C |
//! | [`platform`] | the scheduler, for this kernel: Gs, channels, locks that block |
//! | [`mod@select`], [`chan`], [`cancel`], [`time`] | types that belong to the scheduler: cases of selects, errors, points in time |
//! | [`gmp_sched`] | the crate of the scheduler itself |
//! | [`embedded_io`] | the traits of a [`DiskCursor`](disk::DiskCursor), which is a disk with a position |
//! | [`console`], [`disk`], [`net`], [`pit`], [`clock`] | `println!` and input, disks, the network, a device that is polled, time |
//! | [`random()`], [`fill_random`] | random numbers |
//! | [`cpus`], [`percpu`], [`sync`] | the CPUs that are up, preemption, locks that do not block |
//! | [`mm`], [`watchdog`] | how much memory is in use; CPUs that have interrupts or preemption off for too long |
//!
//! The source is a stack of layers. Each layer is one folder; ARCHITECTURE.md shows their order, and `docs/files.md` their
//! files.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

// The modules of the kernel for the machine.
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
    drivers::{
        console, disk, net, pit,
        random::{fill_random, fill_random_until, random, random_until},
    },
    program::{args, exit, interrupted},
    sched::platform,
};

/// The machine's clock, in nanoseconds. It can be read in every context.
#[cfg(gmp_machine)]
pub mod clock {
    pub use crate::arch::x86_64::timer::{now, since_power_on};
}

#[cfg(gmp_machine)]
#[global_allocator]
static HEAP: mm::heap::KernelHeap = mm::heap::KernelHeap;

// The kernel for the host. The test `qemu-tests/tests/surface` checks that it has the same public modules as the kernel
// for the machine.
#[cfg(not(gmp_machine))]
extern crate std;
#[cfg(not(gmp_machine))]
mod host;

#[cfg(not(gmp_machine))]
pub use host::{
    clock, console, cpus, disk, mm, net, percpu, pit, platform, program,
    program::{args, exit, interrupted},
    random::{fill_random, fill_random_until, random, random_until},
    sync, watchdog,
};

// Because of these re-exports, a program needs no dependency other than this crate.
pub use embedded_io;
pub use gmp_sched::{self, JoinError, cancel, chan, time};

/// Functions and types for waiting for one of several channel operations. The macro [`select!`](macro@select) uses
/// them. A program can use them directly if the number of operations is known only at run time.
pub mod select {
    pub use gmp_sched::select::*;
}

/// Waits for one of several channel operations. A `select!` with a `default` arm does not wait. One with neither
/// channel operations nor `default` waits until its timeout, or for ever if it has no timeout. This is
/// [`gmp_sched::select!`](macro@gmp_sched::select) for this kernel. The documentation of that macro describes the arms.
///
/// ```
/// # #![no_std]
/// # #![cfg_attr(not(test), no_main)]
/// # kernel::main!(main);
/// # fn main(_: &[&str]) { first(channel(0).1, channel(0).1); }
/// use kernel::prelude::*;
///
/// fn first(numbers: Receiver<u32>, words: Receiver<String>) {
///     select! {
///         recv(numbers) -> number => println!("{number:?}"),
///         recv(words) -> word => println!("{word:?}"),
///         timeout(Duration::from_millis(1)) => println!("neither"),
///     }
/// }
/// ```
#[macro_export]
macro_rules! select {
    ($($arms:tt)*) => { $crate::gmp_sched::select! { on $crate::platform::Kernel; $($arms)* } };
}

/// Begins a span of the calling G, which a trace shows. `span!("name");` lasts to the end of the enclosing block, and
/// `span!("name", expression)` only while the expression is evaluated. The same as
/// [`trace::span!`](gmp_sched::trace::span!) for this kernel.
///
/// ```
/// use kernel::prelude::*;
///
/// fn parse(text: &str) -> usize {
///     span!("parse");
///     span!("count", text.lines().count())
/// }
/// # assert_eq!(parse("a\nb"), 2);
/// ```
#[macro_export]
macro_rules! span {
    ($($arguments:tt)*) => { $crate::gmp_sched::trace::span! { on $crate::platform::Kernel; $($arguments)* } };
}

/// The items that nearly every program uses.
pub mod prelude {
    pub use alloc::borrow::ToOwned;
    pub use alloc::boxed::Box;
    pub use alloc::string::{String, ToString};
    pub use alloc::sync::Arc;
    pub use alloc::vec::Vec;
    pub use alloc::{format, vec};
    pub use core::time::Duration;

    pub use gmp_sched::time::Instant;

    pub use crate::console::stdin;
    pub use crate::platform::{
        Barrier, Builder, Chan, Condvar, Context, JoinHandle, Lazy, Mutex, MutexGuard, Once, OnceCell,
        ReadMostlyRwLock, Receiver, RwLock, Semaphore, Sender, Ticker, Timer, WaitGroup, after, after_func, channel,
        go, goexit, now, num_cpu, num_goroutine, procs, scope, set_procs, sleep, yield_now,
    };
    pub use crate::{eprint, eprintln, print, println, select, span};
}
