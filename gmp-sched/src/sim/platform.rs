//! The scheduler's platform on the simulated machine; the counterpart of the kernel's `platform.rs`.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt::Arguments;
use core::ops::Range;
use core::time::Duration;
use std::panic::{self, AssertUnwindSafe};

use super::simulation::{Simulation, current, try_current};
use super::{Sim, cpu, oracle};
use crate::base::error::{JoinError, OutOfResources, Panic};
use crate::base::instant::Instant;
use crate::base::points::Points;
use crate::engine::hooks::{give_way_in_place, make_spare_machine};
use crate::engine::preempt;
use crate::engine::sysmon::Sysmon;
use crate::entities::machine::{EndedMachine, Machine, NewMachine};
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::kthread::{Cpu, Thread, Threads};
use crate::platform::{Parking, Pinned, Platform, Scavenged};
use crate::record::cpu_tracer::CpuTracer;
use crate::record::trace::{Event, Track};

pub(super) fn threads() -> &'static Threads<Sim> {
    current().threads
}

/// Blocks the calling thread until it is unparked or until the deadline. The thread must be pinned exactly once.
#[expect(unsafe_code, reason = "leaves the stack of a thread")]
pub(super) fn park(deadline: Option<Instant>) {
    Sim::assert_pinned_once();
    // SAFETY: the caller is pinned once, as has just been checked, and simulated handlers do not park.
    unsafe { threads().park(deadline) };
}

#[expect(unsafe_code, reason = "promises what the scheduler relies on")]
// SAFETY: a pinned flow of control leaves its CPU only by a switch. One that is not pinned may also be preempted.
// `raise_checked_pin` panics before the pin count overflows. Stacks are mapped with guards, end at a multiple of 16,
// and stay until the run is over. `unwind_body` returns only in an exploration, in which the program starts no threads
// (see `explore`). The thread of an M has a stack of its own, starts pinned once, with its M as the M of the CPU (see
// `switching_to`), and calls `NewMachine::run`.
unsafe impl Platform for Sim {
    type Thread = &'static Thread<Self>;

    const TIMER_INTERRUPTS: bool = true;
    const COUNTS_PINS: bool = true;
    const EXACT_TRACES: bool = true;
    const CAN_POISON_DEAD_STACKS: bool = true;

    fn poisons_dead_stacks() -> bool {
        current().config().poisons_dead_stacks
    }

    unsafe fn raise_pin() {
        cpu::scrub();
        let cpu = current().cpu();
        cpu.pins.set(cpu.pins.get() + 1);
    }

    fn raise_checked_pin() {
        let cpu = current().cpu();
        cpu.pins.set(cpu.pins.get().checked_add(1).expect("fewer pins, unless pins were leaked"));
    }

    unsafe fn lower_pin() {
        cpu::scrub();
        cpu::lower_pin();
    }

    fn is_pinned_once() -> bool {
        current().cpu().pins.get() == 1
    }

    fn current_machine() -> Option<&'static Machine<Self>> {
        cpu::scrub();
        current().cpu().machine.get()
    }

    fn now() -> Instant {
        cpu::scrub();
        current().instant()
    }

    fn linger(duration: Duration) {
        if current().explored.is_some() {
            // The clock of an explored machine advances only to deadlines, so the loop below might never end.
            return Self::relax();
        }
        let end = <Self as Platform>::now() + duration;
        while <Self as Platform>::now() < end {
            Self::relax();
        }
    }

    fn seed(index: usize) -> u64 {
        current().config().seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_mul(index as u64 + 1)
    }

    fn start_thread(machine: NewMachine<Self>) -> Result<Self::Thread, OutOfResources> {
        let stack = current().stack();
        let Some(thread) = machine.machine().thread() else {
            // SAFETY: the stack is fresh, and no other code uses it until the run is over. After that no thread runs.
            return unsafe { threads().create(stack, run_machine, machine.into_raw()) };
        };
        // The restarted thread makes the right again, from its argument, which is the same word.
        let _ = machine.into_raw();
        // SAFETY: the stack is fresh, and no other code uses it until the run is over. `ended` was called for the thread,
        // because only the M of a thread that has ended is used again.
        unsafe { threads().restart(thread, stack) };
        Ok(thread)
    }

    fn scavenger() -> Option<fn() -> Scavenged> {
        cpu::scrub();
        current().config().scavenger
    }

    fn idle_limit() -> Option<Duration> {
        Self::scavenger().map(|_| Duration::ZERO)
    }

    fn exit_thread(ended: EndedMachine<Self>) -> ! {
        // `Cpu::ended` converts the argument of the thread back into an `EndedMachine`.
        let _ = ended.into_raw();
        // SAFETY: the caller is pinned once, on the thread's own stack, of which nothing is used any more.
        unsafe { threads().end() }
    }

    fn park_thread(_: Parking<'_, Self>, deadline: Option<Instant>) {
        park(deadline);
    }

    fn unpark_thread(machine: &'static Machine<Self>) {
        // The M of another simulated machine must not get onto this machine's list of ready threads.
        if !current().scheduler.get().is_some_and(|scheduler| core::ptr::eq(scheduler, machine.scheduler())) {
            current().finish(Err("wakes a G of another run: no object may be used in two runs".into()));
        }
        if let Some(thread) = machine.thread() {
            thread.unpark();
        }
    }

    /// If Gs are preempted in place, a thread makes the M, as on the platform of threads.
    fn request_machine(_: &'static Scheduler<Self>) -> bool {
        let maker = current().maker_of_spares.get();
        if let Some(maker) = maker {
            maker.unpark();
        }
        maker.is_some()
    }

    fn request_preemption(machine: &'static Machine<Self>) {
        let cpu = current().cpu();
        if cpu.machine.get().is_some_and(|running| core::ptr::eq(running, machine)) {
            cpu.is_pending.set(true);
        } else if let Some(thread) = machine.thread() {
            Self::kick(thread.last_cpu());
        }
    }

    fn arm_timer(_: &Pinned<Self>, _: &Processor<Self>, when: Instant) {
        Self::arm(when);
    }

    fn allocate_stack(size: usize) -> Result<Range<usize>, OutOfResources> {
        current().stack_of(size)
    }

    fn channel_number() -> u32 {
        try_current().map_or(0, Simulation::next_channel_number)
    }

    /// Does nothing, because stacks stay allocated until the run is over.
    unsafe fn release_stack(_: Range<usize>) {}

    fn run_body<R>(body: impl FnOnce() -> R) -> Result<R, JoinError> {
        match panic::catch_unwind(AssertUnwindSafe(body)) {
            Ok(result) => Ok(result),
            Err(payload) if payload.is::<BodyEnds>() => Err(JoinError::Exited),
            Err(payload) if current().config().bodies_unwind => Err(JoinError::Panicked(Panic::new(payload))),
            Err(payload) => current().finish(Err(message_of(&*payload))),
        }
    }

    fn unwind_body() {
        match &current().explored {
            // An explored program starts no threads, so no thread borrows from the frames that stay behind. And what it
            // allocates while it unwinds is not restored.
            Some(explored) => explored.exits(),
            None => panic::resume_unwind(Box::new(BodyEnds)),
        }
    }

    fn cpu_tracer(cpu: u32) -> Option<&'static CpuTracer> {
        try_current()?.tracers.get(cpu as usize)
    }

    fn observe(observer: u64, track: Track, event: Event) {
        current().observe(observer, track, event);
    }

    fn with_cpu_tracer(record: impl FnOnce(&'static CpuTracer)) {
        record(current().tracer());
    }

    fn fatal(scheduler: &'static Scheduler<Self>, message: Arguments<'_>) -> ! {
        let goroutines = oracle::goroutines(scheduler);
        current().finish(Err(alloc::format!("fatal error: {message}; Gs: {goroutines}")))
    }
}

/// The panic payload that unwinds a G that exits.
struct BodyEnds;

/// Returns the M whose thread this is, or `None` for a thread that belongs to no M.
#[expect(unsafe_code, reason = "turns a thread's argument back into the machine it was made from")]
pub(super) fn machine_of(thread: &'static Thread<Sim>) -> Option<&'static Machine<Sim>> {
    // SAFETY: the argument of a thread that belongs to no M is 0. The argument of every other thread is the address of an
    // M, which is never freed.
    unsafe { core::ptr::with_exposed_provenance::<Machine<Sim>>(thread.argument()).as_ref() }
}

fn run_machine(machine: usize) -> ! {
    #[expect(unsafe_code, reason = "takes over what `start_thread` passed on")]
    // SAFETY: `start_thread` made this word from a `NewMachine` for one thread, and this thread calls this function
    // once.
    let machine = unsafe { NewMachine::<Sim>::from_raw(machine) };
    while !machine.is_ready() {
        park(None);
    }
    guarded(|| machine.run())
}

/// Runs sysmon. As in the kernel, a timer tick that finds an M in a system call unparks sysmon.
pub(super) fn run_sysmon(_: usize) -> ! {
    guarded(|| {
        let scheduler = current().scheduler.get().expect("sysmon starts after the scheduler");
        let mut sysmon = Sysmon::new(scheduler);
        loop {
            park(None);
            while scheduler.is_any_in_syscall() {
                let delay = sysmon.check();
                park(Some(current().instant() + delay));
            }
        }
    })
}

/// Runs the thread that makes Ms for code that must not make them itself.
pub(super) fn run_maker_of_spares(_: usize) -> ! {
    guarded(|| {
        let scheduler = current().scheduler.get().expect("the thread starts after the scheduler");
        loop {
            park(None);
            make_spare_machine(scheduler);
        }
    })
}

/// Runs `body`. If the scheduler panics in it, the run ends with a failure.
pub(super) fn guarded(body: impl FnOnce() -> core::convert::Infallible) -> ! {
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(never) => match never {},
        Err(panic) => current().finish(Err(message_of(&*panic))),
    }
}

fn message_of(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_string())
}

/// Carries out the preemption that is pending for the G on this CPU, then lowers the preemption-disable depth, which
/// the caller has raised by one.
pub(super) fn honour_pending() {
    cpu::give_way_and_lower(|pinned| {
        #[expect(unsafe_code, reason = "leaves the stack of a thread")]
        // SAFETY: `honour_pending` is not called by handlers. Its caller has found a G with no pin, which is in user
        // code and so holds nothing that other threads wait for. Then the caller has raised one pin. This pin is the
        // only one here in each iteration, because `give_way` returns with one pin.
        unsafe {
            threads().displace();
        }
        let Some(limit) = current().config().preempted_limit else { return preempt::give_way(pinned) };
        give_way_in_place(&pinned, limit);
        pinned
    });
}
