//! The platform of operating-system threads: an M is a thread, and an idle M sleeps in the operating system. This
//! platform is for programs, examples, benchmarks and tests on Linux.
//!
//! ```
//! use gmp_sched::native;
//!
//! // SAFETY: no G uses a thread-local variable.
//! let threads = unsafe { native::enter() };
//! let sum = threads.run(4, || {
//!     let halves: Vec<_> = (0..2u64).map(|half| native::go(move || (half * 50..half * 50 + 50).sum::<u64>())).collect();
//!     halves.into_iter().map(|half| half.join().unwrap()).sum::<u64>()
//! });
//! assert_eq!(sum, 4950);
//! ```
//!
//! # Calls that block the thread
//!
//! When an operation of this crate (on a channel or a lock, [`sleep`], [`JoinHandle::join`]) blocks a G, the thread and
//! the P run other Gs. A call of the operating system is different: reading from a socket of `std`,
//! `std::thread::sleep`, and waiting for a lock of `std` block the thread *together with its P*. If there are as many
//! such calls as Ps, the whole program stops until one of them returns. So announce such calls to the scheduler:
//!
//! | call | its P | for |
//! |---|---|---|
//! | `call()` | stays blocked; the Gs in its queue are stolen by other Ps, if one has nothing to run | what returns in microseconds |
//! | [`syscall`]`(call)` | goes to another thread if the call lasts, usually after 20 µs to 20 ms | what may or may not block |
//! | [`blocking`]`(call)` | goes to another thread before the call begins | what will block |
//!
//! ```
//! use gmp_sched::native;
//! use std::{sync::mpsc, thread, time::Duration};
//!
//! // With the only P blocked, the other G could not send.
//! let received = unsafe { native::enter() }.run(1, || {
//!     let (sender, receiver) = mpsc::channel();
//!     let other = native::go(move || sender.send(7));
//!     let received = native::blocking(|| receiver.recv());
//!     other.join().unwrap().unwrap();
//!     received
//! });
//! assert_eq!(received, Ok(7));
//! ```
//!
//! If a G has blocked its thread without such an announcement for 100 ms, a note on standard error names the G. The
//! note is printed once per process.
//!
//! A blocked call takes a thread of its own. Threads that no P needs end after a while ([`set_idle_limit`]), and calls
//! beyond [`BLOCKING_LIMIT`] wait in order. This crate has no sockets. A library may have sockets that park only the G:
//! see [`set_netpoll`].
//!
//! If there is no thread for a new M, what needs the M returns an error or panics. But if `std` has no memory for what
//! describes the thread, it ends the process with the line `memory allocation of N bytes failed`.
//!
//! Threads that are not Ms send and receive by [`blocking_send`](crate::chan::Sender::blocking_send) and
//! [`blocking_recv`](crate::chan::Receiver::blocking_recv), and run futures by `block_on`. See [`expect_wakes`] for how
//! the detection of deadlocks treats such threads.
//!
//! # Slices
//!
//! The end of a slice, and a stop of the world, take effect when the G next yields, ends, returns from a system call, or
//! calls an operation that may wait, even if the operation does not have to wait. A G that does none of these keeps its
//! M, as in Go before 1.14, and other Ps steal the Gs queued behind it. With [`set_preemption`], a signal interrupts such
//! a G. Then it gives its P up, but keeps its thread, so nothing changes for code that relies on being on one thread.
//!
#![doc = include_str!("what_moves.md")]
//!
//! # Panics, stack overflows and exceptions
//!
//! A panic ends its G, and [`JoinError::Panicked`](crate::JoinError::Panicked) carries the payload to the joiner. A
//! panic of a detached G ends the process, with status 2, as in Go. (If the G is a child of a scope, the scope panics
//! instead.) The message names the G: [`Threads::run`] installs a panic hook that prints a line about the G, and then
//! calls the hook that was set before. A stack has 512 KiB unless [`Builder::stack_size`] chooses another size (for the
//! main G, [`Threads::stack_size`]), and takes memory as it is used. An overflow ends the process with a message that
//! names the G and the size of its stack, says whether a single huge frame is the cause, and shows the functions that
//! call one another without end. An exception of the processor (a division by zero in assembly, an access to unmapped
//! memory, an invalid instruction) also ends the process. Its report names the G and the cause, and shows a backtrace
//! and all Gs. A function passed to [`set_exception_hook`] replaces this report. If the program has installed a signal
//! handler before the first run, that handler runs first. An exception outside of Gs, and a signal that a process
//! sends, are not reported: they end the process by the default action, unless the program's handler resolves them.
//!
//! # Seeing what the scheduler does
//!
//! With the environment variable `GMP_DEBUG=schedtrace=1000`, a line about the state of each scheduler is printed to
//! standard error every 1000 ms, in the format of Go's `GODEBUG=schedtrace=1000`. With
//! `GMP_DEBUG=schedtrace=1000,scheddetail=1`, lines for each P, M and G follow. (A blank may replace the comma.)
//! [`Threads::schedtrace`] does the same for the runs of a program. See [`crate::schedtrace`] for the fields.
//!
//! With the environment variable `GMP_TRACE=FILE`, the first run of the process writes its [trace](crate::trace) to
//! this file, in the layout of [`trace::memory`](crate::trace::memory). The file is complete however the process ends.
//! In the source tree of this project, `cargo run -- timeline FILE OUT` draws it as the page `OUT.html`.
//!
//! # Runs
//!
//! Several threads may each [`run`](Threads::run) a scheduler. The Gs of these schedulers may share channels, locks and
//! all other handles, and each G runs only on the Ms of its own scheduler. If the Gs of all schedulers wait, that is a
//! deadlock.
//!
//! Later runs reuse a scheduler and its Ms, each with a new thread. So a run leaks nothing if all its Gs have ended and
//! no timer is set when `main` returns. Otherwise the run leaks the scheduler, about 1 MiB, and the stacks of the Gs
//! that are left, because other code may have borrowed values on these stacks.

use std::sync;

mod alive;
#[expect(unsafe_code, reason = "makes threads")]
mod bare_thread;
mod blocked;
mod bridge;
#[expect(unsafe_code, reason = "calls the unwinder")]
mod call_stack;
mod calls;
#[expect(unsafe_code, reason = "a thread-local variable whose address the compiler must not keep")]
mod current;
mod entry;
#[expect(unsafe_code, reason = "diverts a G from a signal handler")]
mod exception;
mod netpoll;
mod overflow;
mod panic_hook;
mod park;
#[expect(unsafe_code, reason = "promises what the scheduler relies on")]
mod platform;
mod pool;
#[expect(unsafe_code, reason = "handles a signal")]
mod preempt;
#[expect(unsafe_code, reason = "makes system calls")]
mod process_copy;
mod schedtrace;
mod sections;
mod settings;
mod short_backtrace;
mod spares;
pub(crate) mod stack;
mod starting;
#[cfg(feature = "refinements")]
mod trace_file;
mod unwinding;
mod watch;

pub use alive::{ExpectedWakes, expect_wakes};
pub use calls::{BLOCKING_LIMIT, blocking, set_blocking_limit, syscall, try_blocking};
#[cfg(test)]
pub(crate) use entry::THREADS;
pub use entry::{PROCS_LIMIT, Threads, enter};
pub use exception::{Exception, set_exception_hook};
pub use netpoll::{Netpoll, set_netpoll};
pub use park::Thread;
#[doc(hidden)]
pub use preempt::must_not_allocate;
pub use preempt::{PREEMPTED_LIMIT, set_preempted_limit, set_preemption};
pub use sections::{WaitsForbidden, assert_may_wait, forbid_waits, may_wait};
pub use settings::{num_cpu, num_goroutine, poison_dead_stacks, procs, set_idle_limit, set_slice};
pub use short_backtrace::short_backtrace;

/// The platform type; see the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct Native;

crate::platform_aliases!(Native);

/// Waits for one of several channel operations. The description is at [`select!`](macro@crate::select). This macro also
/// accepts a select without channels.
#[doc(hidden)]
#[macro_export]
macro_rules! __native_select {
    ($($arms:tt)*) => { $crate::select! { on $crate::native::Native; $($arms)* } };
}

#[doc(inline)]
pub use __native_select as select;

/// Begins a span of the calling G that lasts to the end of the enclosing block. The description is at
/// [`trace::span!`](crate::trace::span!).
#[cfg(feature = "refinements")]
#[doc(hidden)]
#[macro_export]
macro_rules! __native_span {
    ($($arguments:tt)*) => { $crate::trace::span! { on $crate::native::Native; $($arguments)* } };
}

#[cfg(feature = "refinements")]
#[doc(inline)]
pub use __native_span as span;

/// The items that nearly every program uses.
///
/// ```
/// use gmp_sched::native::{self, prelude::*};
///
/// let shared = Arc::new(Mutex::new(0));
/// let counted = shared.clone();
/// // SAFETY: no G uses a thread-local variable.
/// unsafe { native::enter() }.run(2, move || {
///     let start: Instant = now();
///     scope(|scope| (0..10).for_each(|_| drop(scope.go(|| *counted.lock() += 1))));
///     assert!(now() >= start);
/// });
/// assert_eq!(*shared.lock(), 10);
/// ```
pub mod prelude {
    pub use alloc::sync::Arc;
    pub use core::time::Duration;

    pub use super::{
        Barrier, Builder, Chan, Condvar, Context, JoinHandle, Lazy, Mutex, MutexGuard, Once, OnceCell, Receiver,
        RwLock, Semaphore, Sender, Ticker, Timer, WaitGroup, after, after_func, blocking, channel, go, goexit, now,
        num_cpu, num_goroutine, procs, scope, select, sleep, syscall, yield_now,
    };
    #[cfg(feature = "refinements")]
    pub use super::{set_procs, span};
    pub use crate::base::instant::Instant;
}

/// Locks a mutex of this platform. Ignores poisoning, because code that panics while such a mutex is locked (for
/// example `pool::enter` for 0 Ps) leaves the value consistent.
fn lock<T>(mutex: &sync::Mutex<T>) -> sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|error| error.into_inner())
}
