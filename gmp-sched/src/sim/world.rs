//! The driver: which CPU steps next, what time it is, and how a run ends.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::time::Duration;

use super::cpu::SimCpu;
use super::exhaustive::memory::Home;
use super::platform::{STACK_BYTES, run_sysmon};
use super::{Config, Failure, Report, Sim, oracle};
use crate::base::instant::Instant;
use crate::base::points::Site;
use crate::context::{self, SavedContext, Transfer};
use crate::engine::device_signals::Signal;
use crate::entities::scheduler::Scheduler;
use crate::kthread::{Thread, Threads};
use crate::native::stack;

std::thread_local! {
    static CURRENT: Cell<*const World> = const { Cell::new(core::ptr::null()) };
    /// Stacks of earlier runs, for reuse.
    static STACKS: RefCell<Vec<Range<usize>>> = const { RefCell::new(Vec::new()) };
}

/// The world of the calling flow of control.
///
/// # Panics
///
/// Not called inside a simulation.
#[inline(never)]
#[expect(unsafe_code, reason = "finds the world of this host thread")]
pub(super) fn current() -> &'static World {
    let world = CURRENT.get();
    // SAFETY: set by `World::run` for as long as it runs; all flows of control of a simulation are on its host thread.
    unsafe { world.as_ref() }.expect("not inside a simulation")
}

/// A simulated machine.
pub(super) struct World {
    config: Config,
    random: Cell<u64>,
    clock: Cell<u64>,
    steps: Cell<u64>,
    pub(super) cpus: Box<[SimCpu]>,
    /// The CPU whose turn it is.
    turn: Cell<usize>,
    /// Whether a CPU runs, not the driver.
    is_inside: Cell<bool>,
    driver: SavedContext,
    end: RefCell<Option<Result<(), String>>>,
    pub(super) threads: &'static Threads<Sim>,
    pub(super) scheduler: Cell<Option<&'static Scheduler<Sim>>>,
    pub(super) sysmon: Cell<Option<&'static Thread<Sim>>>,
    stacks: RefCell<Vec<Range<usize>>>,
    devices: RefCell<Vec<DeviceInterrupt>>,
    lasting: oracle::Lasting,
    /// What an exploration of all runs decides in place of the seed.
    pub(super) explored: Option<Explored>,
}

/// The part of a machine whose runs are all explored; see `exhaustive`.
#[derive(Debug, Default)]
pub(super) struct Explored {
    /// The program has set its scene: from here on every order is tried.
    pub(super) has_begun: Cell<bool>,
    /// An IPI that is pending at the CPU whose turn it is does not come before its next step.
    pub(super) is_late: Cell<bool>,
    /// How often the clock may still go on to the next deadline while a CPU is busy.
    pub(super) ticks: Cell<u32>,
    /// Where each CPU is.
    pub(super) sites: [Cell<Option<Site>>; 4],
    /// Whether it computes or goes round a loop there until another CPU has done something.
    pub(super) waits: [Cell<bool>; 4],
}

/// The most that a step takes, in ns.
const LONGEST_STEP: u64 = 60;

/// What a device will do.
pub(super) struct DeviceInterrupt {
    when: Instant,
    cpu: usize,
    signal: &'static Signal<Sim>,
}

impl World {
    pub(super) fn new(config: Config, explored: Option<Explored>) -> Self {
        Self {
            config,
            random: Cell::new(config.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            clock: Cell::new(0),
            steps: Cell::new(0),
            cpus: (0..config.cpus).map(|_| SimCpu::new()).collect::<Vec<_>>().into_boxed_slice(),
            turn: Cell::new(0),
            is_inside: Cell::new(false),
            driver: SavedContext::default(),
            end: RefCell::new(None),
            threads: Threads::new(config.cpus),
            scheduler: Cell::new(None),
            sysmon: Cell::new(None),
            stacks: RefCell::new(Vec::new()),
            devices: RefCell::new(Vec::new()),
            lasting: oracle::Lasting::default(),
            explored,
        }
    }

    /// Runs the machine until main ends or something goes wrong.
    pub(super) fn run(self, main: Box<dyn FnOnce() + Send>) -> Result<Report, Failure> {
        self.enter();
        let scheduler = self.set_up(main);
        let result = self.drive(scheduler);
        Self::leave();
        STACKS.with_borrow_mut(|stacks| stacks.append(&mut self.stacks.borrow_mut()));
        let failure = |message| Failure { config: self.config, step: self.steps.get(), message };
        result.and_then(|()| oracle::at_the_end(scheduler)).map_err(failure)?;
        Ok(Report {
            steps: self.steps.get(),
            elapsed: Duration::from_nanos(self.clock.get()),
            counts: scheduler.counts(),
            machines: scheduler.machines().count(),
        })
    }

    /// From here on this is the calling thread's [`current`] world.
    pub(super) fn enter(&self) {
        assert!(CURRENT.get().is_null(), "a simulation inside a simulation");
        CURRENT.set(&raw const *self);
    }

    /// The calling thread has no world any more.
    pub(super) fn leave() {
        CURRENT.set(core::ptr::null());
    }

    /// Makes the scheduler, and the main G runnable.
    pub(super) fn set_up(&self, main: Box<dyn FnOnce() + Send>) -> &'static Scheduler<Sim> {
        let Config { processors, procs_limit, .. } = self.config;
        let scheduler: &'static Scheduler<Sim> = Scheduler::with_limit(processors, processors.max(procs_limit));
        self.scheduler.set(Some(scheduler));
        self.boot();
        let main = move || {
            main();
            current().finish(Ok(()))
        };
        #[expect(unsafe_code, reason = "starts a scheduler")]
        // SAFETY: all flows of control of a simulation are on one host thread. The scheduler is new.
        unsafe { scheduler.start(main) }.expect("threads for all Ps and a stack for the main G");
        scheduler
    }

    /// Gives every CPU its idle loop, and makes sysmon.
    #[expect(unsafe_code, reason = "prepares contexts on fresh stacks")]
    fn boot(&self) {
        extern "sysv64" fn idle(_: usize, _: usize, _: usize, _: usize) -> ! {
            // SAFETY: a CPU begins here, once, pinned, with interrupts off.
            unsafe { current().threads.idle_loop() }
        }
        for cpu in &self.cpus {
            // SAFETY: the stack is fresh and stays this CPU's until the run is over.
            unsafe { context::prepare(&cpu.context, self.stack().end, idle) };
        }
        // SAFETY: as above, for sysmon's thread.
        self.sysmon.set(Some(unsafe { self.threads.create(self.stack(), run_sysmon, 0) }));
    }

    /// A stack that lives until the run is over.
    pub(super) fn stack(&self) -> Range<usize> {
        if self.explored.is_some() {
            return Home::take_stack();
        }
        let stack = STACKS
            .with_borrow_mut(Vec::pop)
            .unwrap_or_else(|| stack::allocate(STACK_BYTES).expect("memory for a simulated stack"));
        self.stacks.borrow_mut().push(stack.clone());
        stack
    }

    fn drive(&self, scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
        loop {
            if let Some(end) = self.end.take() {
                return end;
            }
            if self.steps.get() > self.config.step_limit {
                return Err(format!("the step limit is reached: a livelock? Gs: {}", oracle::goroutines(scheduler)));
            }
            let mut able = (0..self.cpus.len()).filter(|&cpu| self.can_step(cpu));
            let count = able.clone().count();
            if count == 0 {
                self.sleep_until_interrupt(scheduler)?;
                continue;
            }
            self.lasting.look(scheduler, count)?;
            let cpu = able.nth(self.random() as usize % count).expect("one of them");
            self.advance(1 + self.random() % LONGEST_STEP);
            self.resume(cpu);
        }
    }

    /// All CPUs halt: the clock goes on to the next interrupt.
    fn sleep_until_interrupt(&self, scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
        let timer = self.cpus.iter().map(|cpu| cpu.timer()).min().unwrap_or(Instant::NEVER);
        oracle::when_all_halt(scheduler, timer)?;
        let device = self.devices.borrow().iter().map(|interrupt| interrupt.when).min().unwrap_or(Instant::NEVER);
        let next = timer.min(device);
        if next == Instant::NEVER {
            return Err(format!("every CPU halts and nothing is to wake one; Gs: {}", oracle::goroutines(scheduler)));
        }
        self.clock.set(self.clock.get().max(next.as_nanos()));
        Ok(())
    }

    #[expect(unsafe_code, reason = "resumes a CPU")]
    pub(super) fn resume(&self, cpu: usize) {
        self.turn.set(cpu);
        self.is_inside.set(true);
        let switch = if self.explored.is_some() { context::switch_with_clear_registers } else { switch_as_usual };
        // SAFETY: the CPU's context was saved by `to_driver` or made by `boot`, and only the driver resumes it.
        unsafe { switch(&raw const self.driver, &raw const self.cpus[cpu].context, NOTHING) };
        self.is_inside.set(false);
    }

    /// Gives the turn back to the driver; returns when this CPU has it again.
    #[expect(unsafe_code, reason = "leaves a CPU")]
    pub(super) fn to_driver(&self) {
        // SAFETY: the driver waits in `resume`. What runs on this CPU is at a point where it may lose its turn.
        unsafe { context::switch(&raw const self.cpu().context, &raw const self.driver, NOTHING) };
    }

    /// A point at which another CPU may step, and an interrupt may come here.
    pub(super) fn step(&self, site: Option<Site>) {
        self.take_step(site, false);
    }

    /// A [`step`](Self::step) of a CPU that computes, or waits for another one.
    pub(super) fn wait(&self) {
        self.take_step(None, true);
    }

    /// A [`wait`](Self::wait) of a G that computes, where every run is explored: before that, the other CPUs run until they have
    /// nothing to do.
    pub(super) fn compute(&self, explored: &Explored) {
        if explored.has_begun.get() { self.wait() } else { self.to_driver() }
    }

    fn take_step(&self, site: Option<Site>, waits: bool) {
        if !self.is_inside.get() {
            return;
        }
        if let Some(explored) = &self.explored {
            if !explored.has_begun.get() {
                return;
            }
            explored.sites[self.turn()].set(site);
            explored.waits[self.turn()].set(waits);
        }
        self.steps.set(self.steps.get() + 1);
        self.to_driver();
        while self.cpu().take_interrupts() {}
    }

    /// The program has set its scene; every order of what follows is tried.
    pub(super) fn begin(&self) {
        let explored = self.explored.as_ref().expect("a program that is explored");
        explored.has_begun.set(true);
        self.to_driver();
    }

    /// Ends the run. Called by what runs on a CPU.
    pub(super) fn finish(&self, result: Result<(), String>) -> ! {
        *self.end.borrow_mut() = Some(result);
        self.to_driver();
        unreachable!("the run is over")
    }

    /// Has a device raise `signal` at about `when`, by an interrupt on some CPU.
    pub(super) fn interrupt_at(&self, when: Instant, signal: &'static Signal<Sim>) {
        let cpu = if self.explored.is_some() { 0 } else { self.random() as usize % self.cpus.len() };
        self.devices.borrow_mut().push(DeviceInterrupt { when, cpu, signal });
    }

    /// Whether there is something for that CPU to do.
    pub(super) fn can_step(&self, cpu: usize) -> bool {
        self.cpus[cpu].can_step(self.clock.get()) || self.is_interrupted(cpu)
    }

    /// When the next timer or device, of those that have not yet, interrupts a CPU.
    pub(super) fn next_deadline(&self) -> Instant {
        let devices = self.devices.borrow();
        let all = self.cpus.iter().map(|cpu| cpu.timer()).chain(devices.iter().map(|interrupt| interrupt.when));
        all.filter(|&when| when > self.instant()).min().unwrap_or(Instant::NEVER)
    }

    /// It is at least that late now.
    pub(super) fn go_on_to(&self, when: Instant) {
        self.clock.set(self.clock.get().max(when.as_nanos()));
    }

    /// How the run has ended, if it has.
    pub(super) fn take_end(&self) -> Option<Result<(), String>> {
        self.end.take()
    }

    /// Clears what no step depends on.
    pub(super) fn forget_history(&self) {
        self.steps.set(0);
        self.turn.set(0);
        self.driver.forget();
    }

    fn is_interrupted(&self, cpu: usize) -> bool {
        let now = self.instant();
        self.devices.borrow().iter().any(|interrupt| interrupt.cpu == cpu && interrupt.when <= now)
    }

    /// Takes a device's interrupt of the CPU whose turn it is.
    pub(super) fn take_device_interrupt(&self) -> Option<&'static Signal<Sim>> {
        let (now, turn) = (self.instant(), self.turn());
        let mut devices = self.devices.borrow_mut();
        let due = devices.iter().position(|interrupt| interrupt.when <= now && interrupt.cpu == turn)?;
        Some(devices.swap_remove(due).signal)
    }

    /// Whether an IPI, which takes a while, is not there yet at an opportunity to take it.
    pub(super) fn is_interrupt_late(&self) -> bool {
        match &self.explored {
            Some(explored) => explored.is_late.get(),
            None => self.random().is_multiple_of(4),
        }
    }

    /// The CPU whose turn it is.
    pub(super) fn cpu(&self) -> &SimCpu {
        &self.cpus[self.turn.get()]
    }

    pub(super) fn turn(&self) -> usize {
        self.turn.get()
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.get()
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_nanos(self.clock.get())
    }

    pub(super) fn advance(&self, nanoseconds: u64) {
        self.clock.set(self.clock.get() + nanoseconds);
    }

    /// The next random number: xorshift64*.
    pub(super) fn random(&self) -> u64 {
        let mut state = self.random.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub(super) fn config(&self) -> Config {
        self.config
    }
}

/// [`context::switch`] as a function to choose.
///
/// # Safety
///
/// As for that.
#[expect(unsafe_code, reason = "the context switch")]
unsafe fn switch_as_usual(save: *const SavedContext, to: *const SavedContext, transfer: Transfer) -> Transfer {
    // SAFETY: by the caller.
    unsafe { context::switch(save, to, transfer) }
}

const NOTHING: Transfer = Transfer { function: 0, subject: 0, argument: 0 };
