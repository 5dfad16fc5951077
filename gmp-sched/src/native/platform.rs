//! What the scheduler calls on threads, and what the thread of an M runs.

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

use super::overflow::{self, AlternateStack};
use super::{
    Native, Thread, alive, bare_thread, bridge, call_stack, current, netpoll, pool, preempt, sections, settings,
    spares, stack, starting, unwinding, watch,
};
use crate::base::error::{JoinError, OutOfResources, Panic};
use crate::base::instant::Instant;
use crate::base::points::Points;
use crate::entities::machine::{EndedMachine, Machine, NewMachine};
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Parking, Pinned, Platform};

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
pub(super) fn run_machine(
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
pub(super) struct BodyEnds;
