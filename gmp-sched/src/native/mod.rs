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
//! beyond [`BLOCKING_LIMIT`] wait in order. There are no sockets yet that park only the G.
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
//! A panic ends its G, and [`JoinError::Panicked`] carries the payload to the joiner. A panic of a detached G ends the
//! process, with status 2, as in Go. (If the G is a child of a scope, the scope panics instead.) The message names the
//! G: [`Threads::run`] installs a panic hook that prints a line about the G, and then calls the hook that was set
//! before. A stack has 512 KiB unless [`Builder::stack_size`] chooses another size (for the main G,
//! [`Threads::stack_size`]), and takes memory as it is used. An overflow ends the process with a message that names the
//! G and the size of its stack, says whether a single huge frame is the cause, and shows the functions that call one
//! another without end. An exception of the processor (a division by zero in assembly, an access to unmapped memory, an
//! invalid instruction) also ends the process. Its report names the G and the cause, and shows a backtrace and all Gs.
//! A function passed to [`set_exception_hook`] replaces this report. If the program has installed a signal handler
//! before the first run, that handler runs first. An exception outside of Gs, and a signal that a process sends, are
//! not reported: they end the process by the default action, unless the program's handler resolves them.
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

use alloc::boxed::Box;
use core::cell::Cell;
use core::fmt::{Arguments, Write as _};
use core::ops::Range;
use core::panic::AssertUnwindSafe;
use std::panic;
use std::sync;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use std::time::Instant as SystemInstant;

use self::overflow::AlternateStack;
use crate::base::error::{JoinError, OutOfResources, Panic};
use crate::base::instant::Instant;
use crate::base::points::Points;
use crate::entities::machine::{EndedMachine, Machine, NewMachine};
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Parking, Pinned, Platform};

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

impl Points for Native {
    /// Spins, and in every 128th call lets another thread run. The thread for which the caller waits may have been
    /// descheduled while it holds a lock. If there are many more threads than CPUs, the threads that spin for the lock
    /// would otherwise use up the CPUs. Each critical section would then take as long as the time slices of all these
    /// threads.
    #[inline(never)]
    fn relax() {
        /// Number of calls after which the operating system is called. Together these calls take longer than any
        /// critical section.
        const SPINS: u32 = 128;
        std::thread_local!(static SPUN: Cell<u32> = const { Cell::new(0) });
        SPUN.set(SPUN.get().wrapping_add(1));
        if SPUN.get().is_multiple_of(SPINS) {
            thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }
}

#[expect(unsafe_code, reason = "promises what the scheduler relies on")]
// SAFETY: a G that is preempted keeps its thread, so a flow of control leaves its M only where it switches. While it
// is pinned, it is not preempted, so the M keeps its P. `raise_checked_pin` panics before the number of pins can
// overflow. The current M is loaded each time, never from an address kept across a switch (see `current`). Stacks
// are mapped with a guard page below, and end at a multiple of 128. A new thread waits until the scheduler has put
// its M into use. No other thread uses that M: a former thread of the M has stopped using it before the M is reused.
unsafe impl Platform for Native {
    type Thread = &'static Thread;

    const STACK_SIZE: usize = stack::DEFAULT;
    const TIMER_INTERRUPTS: bool = false;
    const HAS_OTHER_THREADS: bool = true;
    const CAN_POISON_DEAD_STACKS: bool = cfg!(debug_assertions);

    fn poisons_dead_stacks() -> bool {
        settings::poisons_dead_stacks()
    }

    #[inline(always)]
    unsafe fn raise_pin() {
        current::raise_pin();
    }

    #[inline(always)]
    unsafe fn raise_pin_and_check() -> bool {
        current::raise_pin_and_check()
    }

    #[inline(always)]
    #[track_caller]
    fn raise_checked_pin() {
        if current::pins() >= PINS_LIMIT {
            Self::misuse(format_args!("too many pins have been leaked"));
        }
        current::raise_pin();
    }

    #[inline(always)]
    unsafe fn lower_pin() {
        current::lower_pin();
    }

    #[inline(always)]
    fn is_pinned_once() -> bool {
        current::pins() == 1
    }

    #[inline(always)]
    fn may_migrate() {
        // If no thread panics, `panicking` only loads one global word.
        if thread::panicking() {
            unwinding::stay_on_thread();
        }
    }

    #[cold]
    #[track_caller]
    fn refuse_to_block() -> ! {
        sections::refuse_to_wait()
    }

    #[inline(always)]
    fn current_machine() -> Option<&'static Machine<Self>> {
        current::get()
    }

    fn linger(duration: Duration) {
        thread::sleep(duration);
    }

    fn now() -> Instant {
        static START: sync::OnceLock<SystemInstant> = sync::OnceLock::new();
        let elapsed = START.get_or_init(SystemInstant::now).elapsed();
        Instant::from_nanos(0) + elapsed
    }

    fn slice() -> Duration {
        settings::slice()
    }

    fn seed(index: usize) -> u64 {
        0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(index as u64 + 1)
    }

    fn start_thread(machine: NewMachine<Self>) -> Result<Self::Thread, OutOfResources> {
        let scheduler = machine.machine().scheduler();
        // The park token of an M is kept when the M's thread ends, because other threads may set the token at any time.
        let token = machine.machine().thread().copied().unwrap_or_else(|| Box::leak(Box::default()));
        let alternate = AlternateStack::allocate();
        let is_captured = pool::thread_begins(scheduler);
        let started = if is_captured {
            starting::start(machine, token, alternate)
        } else {
            bare_thread::start(machine, token, alternate)
        };
        if started.is_err() {
            pool::thread_ends(scheduler);
            return Err(OutOfResources);
        }
        Ok(token)
    }

    fn park_thread(parking: Parking<'_, Self>, deadline: Option<Instant>) {
        let machine = parking.pinned().machine();
        if !(parking.is_idle() && netpoll::park(machine, deadline))
            && let Some(thread) = machine.thread()
        {
            thread.park(deadline);
        }
    }

    fn polls_later(scheduler: &Scheduler<Self>) -> bool {
        netpoll::polls_later(scheduler)
    }

    fn unpark_thread(machine: &'static Machine<Self>) {
        if let Some(thread) = machine.thread() {
            thread.unpark();
        }
    }

    fn idle_limit() -> Option<Duration> {
        Some(settings::idle_limit())
    }

    fn exit_thread(ended: EndedMachine<Self>) -> ! {
        // Unwinds g0, whose frames are only those of the search for work, down to the thread's first function.
        panic::resume_unwind(Box::new(ended))
    }

    fn request_machine(_: &'static Scheduler<Self>) -> bool {
        spares::request()
    }

    fn request_preemption(machine: &'static Machine<Self>) {
        preempt::request(machine);
    }

    fn arm_timer(pinned: &Pinned<Self>, _: &Processor<Self>, _: Instant) {
        watch::wake_sysmon(pinned.machine().scheduler());
    }

    fn allocate_stack(size: usize) -> Result<Range<usize>, OutOfResources> {
        stack::allocate(size)
    }

    unsafe fn release_stack(stack: Range<usize>) {
        // SAFETY: the caller guarantees that `allocate_stack` returned `stack` and that it is no longer used.
        unsafe { stack::release(stack) }
    }

    unsafe fn release_stacks(stacks: impl Iterator<Item = Range<usize>>) {
        // SAFETY: the caller guarantees that `allocate_stack` returned the stacks and that they are no longer used.
        unsafe { stack::release_all(stacks) }
    }

    fn run_body<R>(body: impl FnOnce() -> R) -> Result<R, JoinError> {
        panic::catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
            unwinding::ended();
            if payload.is::<BodyEnds>() { JoinError::Exited } else { JoinError::Panicked(Panic::new(payload)) }
        })
    }

    fn block_thread_on<F: Future>(future: F) -> Result<F::Output, F> {
        Ok(bridge::block_thread_on(future))
    }

    fn unwind_body() {
        // Unwinds like a panic, so that the body's values are dropped, but prints no message.
        panic::resume_unwind(Box::new(BodyEnds))
    }

    fn is_left_alone(scheduler: &'static Scheduler<Self>) -> bool {
        alive::are_all_dead(scheduler)
    }

    fn call_stack(addresses: &mut [u64]) -> usize {
        call_stack::read(addresses)
    }

    fn fatal(scheduler: &'static Scheduler<Self>, message: Arguments<'_>) -> ! {
        // Several Ms may find the same error, such as a deadlock, at the same time. Only the first one reports it.
        // Ordering: Relaxed, because no data is passed.
        static IS_REPORTED: AtomicBool = AtomicBool::new(false);
        if IS_REPORTED.swap(true, Ordering::Relaxed) {
            loop {
                thread::park();
            }
        }
        // The message is repeated at the end, because the list may be long. A preempted G may hold the lock of standard
        // error, so the report takes no lock.
        let mut output = overflow::Buffered::new();
        let list = scheduler.goroutine_list();
        let _ = writeln!(output, "fatal error: {message}\n{list}\n\nfatal error: {message}");
        output.flush();
        std::process::exit(2);
    }
}

/// The number of pins at which a thread raises no further pin that a program could leak. The few pins that the scheduler
/// itself raises do not count against this limit.
const PINS_LIMIT: u32 = 1 << 30;

/// The function that the thread of an M runs. Calls `has_begun` when the thread needs no lock of a library any more.
fn run_machine(
    new: NewMachine<Native>,
    token: &'static Thread,
    alternate: Option<AlternateStack>,
    has_begun: impl FnOnce(),
) {
    let machine = new.machine();
    current::set(Some(machine));
    // `NewMachine::run` takes this pin over. If the thread ends, the unwinding lowers it.
    current::raise_pin();
    token.number.set();
    let alternate = alternate.map(AlternateStack::install);
    has_begun();
    // If this M had a thread before, other threads may unpark the M before it is in use again. So this loop checks
    // again after each wakeup.
    while !new.is_ready() {
        token.park(None);
    }
    let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| new.run()));
    let Ok(ended) = payload.downcast::<EndedMachine<Native>>() else {
        // The scheduler itself has panicked, and the panic has printed the reason. Without this M the other Ms would
        // only hang.
        std::process::abort()
    };
    drop(alternate);
    current::set(None);
    let scheduler = machine.scheduler();
    ended.reuse();
    pool::thread_ends(scheduler);
}

/// The panic payload that unwinds a G that exits.
struct BodyEnds;
