//! A simulated CPU: interrupt flag, timer, inter-processor interrupts (IPIs), preemption-disable depth.

use core::cell::Cell;

use super::simulation::current;
use super::{Sim, platform};
use crate::base::instant::Instant;
use crate::base::points::{Points, Site};
use crate::context::SavedContext;
use crate::engine::preempt;
use crate::entities::machine::{EndedMachine, Machine};
use crate::kthread::{Cpu, Thread, Threads};
use crate::platform::{Pinned, Platform};

/// The state of one simulated CPU: the state of its hardware, and what a kernel keeps in per-CPU variables.
pub(super) struct SimCpu {
    /// The saved context of this CPU's flow of control while it does not run, because another CPU runs or the
    /// simulation's driver (see `simulation`) chooses the next step.
    pub(super) context: SavedContext,
    interrupts_on: Cell<bool>,
    halts: Cell<bool>,
    /// Whether an IPI is pending.
    kicked: Cell<bool>,
    timer: Cell<Instant>,
    /// The preemption-disable depth of this CPU.
    pub(super) pins: Cell<u32>,
    pub(super) is_pending: Cell<bool>,
    in_handler: Cell<bool>,
    pub(super) machine: Cell<Option<&'static Machine<Sim>>>,
    pub(super) run_time: RunTime,
}

/// How long Gs have run on a CPU. Time does not count while a request that ends the slice is under way; see `slices`.
#[derive(Debug, Default)]
pub(super) struct RunTime {
    /// The run time so far, in ns.
    total: Cell<u64>,
    /// The value of `total` when the CPU's timer last fired or when its current thread began to run, whichever was
    /// later.
    at_interrupt: Cell<u64>,
    /// Number of times that a thread has begun to run on this CPU.
    stays: Cell<u64>,
}

impl RunTime {
    pub(super) fn total(&self) -> u64 {
        self.total.get()
    }

    /// How much run time has passed since the CPU's timer last fired or since its current thread began to run,
    /// whichever was later.
    pub(super) fn since_interrupt(&self) -> u64 {
        self.total.get() - self.at_interrupt.get()
    }

    /// A number that changes whenever a thread begins to run on this CPU.
    pub(super) fn stay(&self) -> u64 {
        self.stays.get()
    }

    /// Clears the run times. Called on explored machines, on which `slices`, the only user of run times, checks
    /// nothing.
    pub(super) fn forget(&self) {
        self.total.set(0);
        self.at_interrupt.set(0);
        self.stays.set(0);
    }

    fn close(&self) {
        self.at_interrupt.set(self.total.get());
    }
}

impl SimCpu {
    pub(super) fn new() -> Self {
        Self {
            context: SavedContext::default(),
            interrupts_on: Cell::new(false),
            halts: Cell::new(false),
            kicked: Cell::new(false),
            timer: Cell::new(Instant::NEVER),
            pins: Cell::new(1),
            is_pending: Cell::new(false),
            in_handler: Cell::new(false),
            machine: Cell::new(None),
            run_time: RunTime::default(),
        }
    }

    /// Counts the `nanoseconds` after `now` as run time if a G runs on this CPU and its M holds a P. Time does not
    /// count
    ///
    /// - from the moment when the timer is due until its handler has run;
    /// - while an interrupt handler runs;
    /// - while an IPI or a preemption is pending;
    /// - while a G whose slice is over is pinned, because it cannot be preempted then.
    pub(super) fn pass(&self, now: u64, nanoseconds: u64) {
        let Some(machine) = self.machine.get() else { return };
        let (Some(_), Some(processor)) = (machine.current_goroutine(), machine.processor()) else { return };
        let is_interrupted = self.in_handler.get() || self.kicked.get() || self.is_pending.get();
        let gives_way = processor.is_slice_over() && self.pins.get() != 0;
        if !is_interrupted && !gives_way {
            let until_timer = self.timer.get().as_nanos().saturating_sub(now);
            self.run_time.total.set(self.run_time.total.get() + nanoseconds.min(until_timer));
        }
    }

    pub(super) fn timer(&self) -> Instant {
        self.timer.get()
    }

    /// Whether the CPU has something to do at `now`, apart from the interrupts of devices.
    pub(super) fn can_step(&self, now: u64) -> bool {
        !self.halts.get() || self.kicked.get() || self.timer.get().as_nanos() <= now
    }

    /// Whether an IPI is pending and its delivery may be delayed by a step. An IPI to a halting CPU is not delayed,
    /// because this CPU does nothing before the IPI comes.
    pub(super) fn may_be_late(&self) -> bool {
        self.kicked.get() && self.interrupts_on.get() && !self.halts.get()
    }

    /// Whether the CPU runs a G that may be preempted.
    fn is_in_user_code(&self) -> bool {
        self.pins.get() == 0 && self.machine.get().is_some_and(|machine| machine.current_goroutine().is_some())
    }

    /// Whether no protocol is under way on this CPU. This is so if no IPI and no preemption is pending, no interrupt
    /// handler runs, and the CPU either runs user code or halts with no timer due at `now`.
    pub(super) fn is_quiet(&self, now: u64) -> bool {
        let is_pending = self.kicked.get() || self.is_pending.get();
        !is_pending && !self.in_handler.get() && (self.is_in_user_code() || !self.can_step(now))
    }

    /// Whether the CPU halts with nothing to do at `now`, apart from the interrupts of devices.
    pub(super) fn halts(&self, now: u64) -> bool {
        !self.can_step(now)
    }

    /// Whether an interrupt handler runs on this CPU.
    pub(super) fn is_in_handler(&self) -> bool {
        self.in_handler.get()
    }

    /// Handles the pending interrupts if interrupts are on. Then preempts the interrupted G if a preemption is
    /// requested and the G is preemptible, as a kernel does when it returns from an interrupt. Returns whether it
    /// preempted the G. If so, the G may now run on another CPU, whose pending interrupts must be handled before the
    /// G's next step.
    #[must_use]
    pub(super) fn take_interrupts(&self) -> bool {
        if !self.interrupts_on.get() {
            return false;
        }
        self.handle_pending(false);
        let preempts = self.is_pending.get() && self.is_in_user_code();
        if preempts {
            self.pins.set(1);
            platform::honour_pending();
        }
        preempts
    }

    /// Runs the handlers of the pending interrupts on the interrupted stack, with interrupts off. An IPI takes a while
    /// to arrive, so this function may leave an IPI pending until it is called again. If the CPU has just stopped
    /// halting (`woke`), a pending IPI is handled now.
    fn handle_pending(&self, woke: bool) {
        let simulation = current();
        self.interrupts_on.set(false);
        self.in_handler.set(true);
        if self.kicked.get() && (woke || !simulation.is_interrupt_late()) {
            self.kicked.set(false);
            traced("IPI", || self.reschedule_interrupt());
        }
        while let Some(signal) = simulation.take_device_interrupt() {
            traced("device", || signal.raise());
        }
        if self.timer.get() <= simulation.instant() {
            self.timer.set(Instant::NEVER);
            traced("timer", || self.timer_interrupt());
        }
        self.in_handler.set(false);
        self.interrupts_on.set(true);
    }

    /// The handler of IPIs, as in the kernel.
    fn reschedule_interrupt(&self) {
        #[expect(unsafe_code, reason = "simulates an interrupt")]
        // SAFETY: interrupts are off.
        unsafe {
            current().threads.reschedule_interrupt();
        }
        if self.machine.get().is_some_and(preempt::must_give_way) {
            self.is_pending.set(true);
        }
    }

    /// The timer's handler, as in the kernel.
    fn timer_interrupt(&self) {
        self.run_time.close();
        let simulation = current();
        let now = simulation.instant();
        #[expect(unsafe_code, reason = "simulates an interrupt")]
        // SAFETY: interrupts are off.
        let mut next = unsafe { simulation.threads.timer_interrupt(now) };
        if simulation.threads.current().is_some() {
            if simulation.scheduler.get().is_some_and(|scheduler| scheduler.is_any_in_syscall())
                && let Some(sysmon) = simulation.sysmon.get()
            {
                sysmon.unpark();
            }
            let tick = preempt::tick(self.machine.get());
            if tick.gives_way | simulation.threads.preempt_after(now, Sim::slice()) {
                self.is_pending.set(true);
            }
            next = next.min(tick.at);
        }
        Sim::arm(next);
    }
}

/// Calls the handler of the interrupt `name`. Records the interrupt's beginning and end in the trace of the CPU.
fn traced(name: &'static str, handler: impl FnOnce()) {
    let tracer = current().tracer();
    tracer.interrupt(name, current().instant());
    handler();
    tracer.interrupt_end(current().instant());
}

/// In a reduced exploration, clears [`SCRUBBED`] words of the stack below the caller's frame. Otherwise equal states
/// would differ in leftovers of earlier calls.
pub(super) fn scrub() {
    #[inline(never)]
    fn clear() {
        core::hint::black_box(&mut [0_u64; SCRUBBED]);
    }
    if current().is_reduced() {
        clear();
    }
}

/// Number of words that [`scrub`] clears.
const SCRUBBED: usize = 160;

impl Points for Sim {
    fn point(site: Site) {
        scrub();
        // A CPU that waits for a lock calls `relax` next, which is a step.
        if site != Site::LockBusy || !current().is_reduced() {
            current().step(Some(site));
        }
    }

    fn point_before_lock(site: Site) {
        // The caller takes a lock next, which is a step of an exploration: see `assert_not_preemptible`.
        if !current().is_reduced() {
            current().step(Some(site));
        }
    }

    fn repetitions(usual: u32) -> u32 {
        if current().is_reduced() { 1 } else { usual }
    }

    #[track_caller]
    fn assert_not_preemptible() {
        scrub();
        assert!(!current().cpu().is_in_user_code(), "a lock of the scheduler is taken by a G that may be preempted");
        if current().explored.is_some() {
            current().step(None);
        }
    }

    fn relax() {
        current().wait();
    }
}

#[expect(unsafe_code, reason = "promises what kernel threads rely on")]
// SAFETY: `current` returns the number of the CPU that runs, and no code of another CPU runs meanwhile. Interrupts are
// handled only in `take_interrupts`, which respects the interrupt flag, and in `halt`. Only `kthread` switches the
// stacks of threads: the driver switches between CPUs, and resumes each CPU on the stack on which it stopped.
unsafe impl Cpu for Sim {
    fn threads() -> &'static Threads<Self> {
        current().threads
    }

    fn current() -> usize {
        current().running_cpu()
    }

    unsafe fn without_interrupts<R>(body: impl FnOnce() -> R) -> R {
        scrub();
        let were_on = current().cpu().interrupts_on.replace(false);
        let result = body();
        current().cpu().interrupts_on.set(were_on);
        result
    }

    fn kick(cpu: usize) {
        current().cpus[cpu].kicked.set(true);
    }

    fn request_displacement() {
        current().cpu().is_pending.set(true);
    }

    fn withdraw_displacement() {
        current().cpu().is_pending.set(false);
    }

    fn arm(deadline: Instant) {
        let cpu = current().cpu();
        if deadline < cpu.timer.get() {
            cpu.timer.set(deadline);
        }
    }

    fn now() -> Instant {
        scrub();
        current().instant()
    }

    unsafe fn switching_to(thread: &'static Thread<Self>, now: Instant) {
        let machine = platform::machine_of(thread);
        let cpu = current().cpu();
        cpu.machine.set(machine);
        cpu.run_time.close();
        cpu.run_time.stays.set(cpu.run_time.stays.get() + 1);
        match machine {
            Some(machine) => current().tracer().runs_machine(machine.id(), now),
            None => current().tracer().runs_thread(now),
        }
        Self::arm(preempt::first_tick(machine, now));
    }

    unsafe fn switching_to_idle() {
        current().cpu().machine.set(None);
        current().tracer().halts(current().instant());
    }

    unsafe fn ended(thread: &'static Thread<Self>, _: usize) {
        // SAFETY: the thread is that of an M, and `exit_thread` has converted the M to the thread's argument.
        unsafe { EndedMachine::<Self>::from_raw(thread.argument()) }.reuse();
    }

    unsafe fn halt() {
        let simulation = current();
        let cpu = simulation.cpu();
        cpu.halts.set(true);
        simulation.stop();
        cpu.halts.set(false);
        cpu.interrupts_on.set(true);
        cpu.handle_pending(true);
        cpu.interrupts_on.set(false);
    }

    unsafe fn set_interrupts(on: bool) {
        current().cpu().interrupts_on.set(on);
    }
}

/// Lowers the preemption-disable depth. If the depth of a G becomes zero, carries out a preemption that is pending,
/// unless the caller is an interrupt handler or interrupts are off.
pub(super) fn lower_pin() {
    let cpu = current().cpu();
    cpu.pins.set(cpu.pins.get().checked_sub(1).expect("a pin too few"));
    let may_switch = cpu.pins.get() == 0 && !cpu.is_in_handler() && cpu.interrupts_on.get();
    if cpu.is_pending.get() && may_switch && cpu.machine.get().is_some_and(|m| m.current_goroutine().is_some()) {
        cpu.pins.set(1);
        platform::honour_pending();
    }
}

/// Gives way until no preemption is requested any more, then lowers the preemption-disable depth, which the caller has
/// raised by one.
pub(super) fn give_way_and_lower(give_way: impl Fn(Pinned<Sim>) -> Pinned<Sim>) {
    loop {
        current().cpu().is_pending.set(false);
        #[expect(unsafe_code, reason = "takes over the pin")]
        // SAFETY: the caller has raised the preemption-disable depth by one. The code below lowers the depth, and
        // `pinned` is forgotten, so its drop does not lower the depth a second time.
        let pinned = give_way(unsafe { Pinned::adopt() });
        core::mem::forget(pinned);
        let cpu = current().cpu();
        if !cpu.is_pending.get() {
            cpu.pins.set(cpu.pins.get() - 1);
            return;
        }
    }
}
