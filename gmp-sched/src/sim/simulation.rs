//! The driver, which chooses the CPU that steps next, advances the clock, and ends the run.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::time::Duration;

use super::cpu::SimCpu;
use super::exhaustive::explored::Explored;
use super::exhaustive::memory::MachineMemory;
use super::observation;
use super::platform::{guarded, run_sysmon};
use super::policy::Policy;
use super::stacks::{STACK_BYTES, Stacks};
use super::watch::Watched;
use super::{Config, Failure, Report, Sim, oracle};
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::base::points::Site;
use crate::context::{self, SavedContext, Start, Transfer, Word};
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::scheduler::Scheduler;
use crate::kthread::{Thread, Threads};
use crate::library::device_signals::Signal;
use crate::native::stack;
use crate::record::cpu_tracer::CpuTracer;
use crate::record::trace::{EventKind, TEXT_BYTES, TrackTrace};

std::thread_local! {
    static CURRENT: Cell<*const Simulation> = const { Cell::new(core::ptr::null()) };
}

/// Returns the simulated machine that the caller runs on.
///
/// # Panics
///
/// The caller is not inside a simulation.
#[inline]
pub(super) fn current() -> &'static Simulation {
    try_current().expect("not inside a simulation")
}

/// Returns the simulated machine that the caller runs on, or `None` if the caller is not inside a simulation.
#[inline]
#[expect(unsafe_code, reason = "finds the simulation of this host thread")]
pub(super) fn try_current() -> Option<&'static Simulation> {
    let simulation = CURRENT.get();
    // SAFETY: the pointer is set from `enter` until the value that `enter` returned is dropped, and the simulation
    // exists for all that time. All flows of control of the simulation are on this host thread.
    unsafe { simulation.as_ref() }
}

/// A simulated machine.
pub(super) struct Simulation {
    config: Config,
    random: Cell<u64>,
    clock: Cell<u64>,
    steps: Cell<u64>,
    pub(super) cpus: Box<[SimCpu]>,
    pub(super) tracers: Box<[CpuTracer]>,
    /// The CPU that runs, or ran last.
    running: Cell<usize>,
    /// Whether a simulated CPU runs now, and not the driver.
    is_inside: Cell<bool>,
    driver: SavedContext,
    end: RefCell<Option<Result<(), String>>>,
    pub(super) threads: &'static Threads<Sim>,
    pub(super) scheduler: Cell<Option<&'static Scheduler<Sim>>>,
    pub(super) sysmon: Cell<Option<&'static Thread<Sim>>>,
    /// The stacks of this run, if the machine is not explored.
    stacks: Stacks,
    /// How many channels were made in this run.
    channels: Cell<u32>,
    devices: RefCell<Vec<DeviceInterrupt>>,
    transients: oracle::Transients,
    pub(super) policy: RefCell<Policy>,
    /// The state of an exploration, which decides what happens next. `None` in a run in which the seed decides.
    pub(super) explored: Option<Explored>,
}

/// The calling thread has a [`current`] simulation until this value is dropped.
pub(super) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(core::ptr::null());
    }
}

/// Maximum duration of a step, in ns, without the time that a G computes in [`work`](super::work).
const LONGEST_STEP: u64 = 60;

/// An interrupt that a device will raise.
pub(super) struct DeviceInterrupt {
    when: Instant,
    cpu: usize,
    signal: &'static Signal<Sim>,
}

impl Simulation {
    pub(super) fn new(config: Config, explored: Option<Explored>) -> Self {
        assert!((1..=64).contains(&config.cpus), "{} CPUs: a simulated machine has 1 to 64", config.cpus);
        Self {
            config,
            random: Cell::new(config.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            clock: Cell::new(0),
            steps: Cell::new(0),
            cpus: (0..config.cpus).map(|_| SimCpu::new()).collect::<Vec<_>>().into_boxed_slice(),
            tracers: (0..config.cpus).map(|_| CpuTracer::new()).collect::<Vec<_>>().into_boxed_slice(),
            running: Cell::new(0),
            is_inside: Cell::new(false),
            driver: SavedContext::default(),
            end: RefCell::new(None),
            threads: Threads::new(config.cpus),
            scheduler: Cell::new(None),
            sysmon: Cell::new(None),
            stacks: Stacks::default(),
            channels: Cell::new(0),
            devices: RefCell::new(Vec::new()),
            transients: oracle::Transients::default(),
            policy: RefCell::default(),
            explored,
        }
    }

    /// Runs the machine until the main G ends or the run fails. If `trace` is given, also takes an exact trace, with
    /// the last `trace` events of each track.
    pub(super) fn run(
        self,
        trace: Option<usize>,
        main: Box<dyn FnOnce() + Send>,
    ) -> (Result<Report, Failure>, Vec<TrackTrace>) {
        let entered = self.enter();
        let scheduler = self.set_up(trace, main);
        let result = self.drive(scheduler).and_then(|()| oracle::at_the_end(scheduler));
        if let Err(rule) = &result {
            self.mark_violation(rule);
        }
        let traces = observation::end(scheduler, trace);
        drop(entered);
        if result.is_ok() {
            self.stacks.end(scheduler);
        }
        let report = || Report {
            steps: self.steps.get(),
            elapsed: Duration::from_nanos(self.clock.get()),
            counts: scheduler.counts(),
            machines: scheduler.machines().count(),
        };
        let failure = |message| Failure { config: self.config, step: self.steps.get(), message };
        (result.map(|()| report()).map_err(failure), traces)
    }

    /// Records, as the last event of the trace, that the CPU that ran last has violated `rule`. The text takes at most
    /// a quarter of the CPU's track. A longer one would overwrite the events that led to the violation, so it is cut.
    fn mark_violation(&self, rule: &str) {
        let tracer = self.tracer();
        if let Some(capacity) = tracer.capacity() {
            let length = rule.floor_char_boundary(capacity / 4 * TEXT_BYTES);
            // The trace refers to its texts by address, so they must live as long as the program.
            let rule: &'static str = String::from(&rule[..length]).leak();
            let goroutine = self.cpu().machine.get().and_then(Machine::current_goroutine);
            tracer.note_text(EventKind::Violation, rule, self.instant(), goroutine.map(Goroutine::id));
        }
    }

    /// Makes this the calling thread's [`current`] simulation until the returned value is dropped. The caller must drop
    /// that value before the simulation, also if it panics.
    pub(super) fn enter(&self) -> Entered {
        assert!(CURRENT.get().is_null(), "a simulation inside a simulation");
        CURRENT.set(&raw const *self);
        Entered
    }

    /// Makes the scheduler and makes the main G runnable. If `trace` is given, starts the trace before the main G is
    /// made.
    pub(super) fn set_up(&self, trace: Option<usize>, main: Box<dyn FnOnce() + Send>) -> &'static Scheduler<Sim> {
        let Config { processors, procs_limit, .. } = self.config;
        let scheduler: &'static Scheduler<Sim> = Scheduler::with_limit(processors, processors.max(procs_limit));
        self.scheduler.set(Some(scheduler));
        if let Some(policy) = self.config.policy {
            let watched = Watched::new(policy, self.config.policy_model);
            scheduler.set_policy(Box::leak(Box::new(watched))).expect("memory for a policy");
        }
        let is_specified = self.config.is_specified && self.explored.is_none() && self.config.policy.is_none();
        observation::begin(scheduler, trace, is_specified);
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

    /// Prepares the idle loop of every CPU and creates sysmon's thread.
    #[expect(unsafe_code, reason = "prepares contexts on fresh stacks")]
    fn boot(&self) {
        struct Idle;
        impl Start for Idle {
            extern "sysv64" fn arrive(_: usize, _: Word, _: usize) {}
            extern "sysv64" fn run(_: usize) -> ! {
                // SAFETY: each CPU begins here, once, pinned, with interrupts off, on a stack of its own.
                guarded(|| unsafe { current().threads.idle_loop() })
            }
        }
        for cpu in &self.cpus {
            // SAFETY: the stack is fresh, its end is aligned, and no other code uses it until the run is over. The CPU
            // does not run yet, so nothing uses its context.
            unsafe { context::prepare::<Idle>(&cpu.context, self.stack().end) };
        }
        // SAFETY: the stack is fresh, and no other code uses it until the run is over. After that no thread runs.
        let sysmon = unsafe { self.threads.create(self.stack(), run_sysmon, 0) };
        self.sysmon.set(Some(sysmon.expect("memory for a thread")));
    }

    /// Allocates a stack of [`STACK_BYTES`] bytes that lives until the run is over.
    pub(super) fn stack(&self) -> Range<usize> {
        if self.explored.is_some() { MachineMemory::take_stack() } else { self.stacks.take() }
    }

    /// Allocates a stack of at least `size` bytes that lives until the run is over.
    pub(super) fn stack_of(&self, size: usize) -> Result<Range<usize>, OutOfResources> {
        if size <= STACK_BYTES {
            return Ok(self.stack());
        }
        // An arena has stacks of one size.
        if self.explored.is_some() { Err(OutOfResources) } else { stack::allocate(size) }
    }

    /// Returns the number of a new channel: see
    /// [`Platform::channel_number`](crate::platform::Platform::channel_number).
    pub(super) fn next_channel_number(&self) -> u32 {
        self.channels.set(self.channels.get().wrapping_add(1));
        self.channels.get()
    }

    fn drive(&self, scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
        loop {
            if let Some(end) = self.end.take() {
                return end;
            }
            match self.choose(scheduler)? {
                Some(cpu) => self.resume(cpu),
                None => self.sleep_until_interrupt(scheduler)?,
            }
        }
    }

    /// Checks the oracles, chooses the CPU that takes the next step, and advances the clock to that step. Returns
    /// `None` if all CPUs halt, and an error if an oracle fails or the step limit is exceeded.
    fn choose(&self, scheduler: &'static Scheduler<Sim>) -> Result<Option<usize>, String> {
        if self.steps.get() > self.config.step_limit {
            return Err(format!("the step limit is reached: a livelock? Gs: {}", oracle::goroutines(scheduler)));
        }
        let mut able = self.able();
        let count = able.count_ones();
        if count == 0 {
            return Ok(None);
        }
        self.transients.check(scheduler, count as usize)?;
        for _ in 0..self.random() % u64::from(count) {
            // Removes the lowest CPU from the set.
            able &= able - 1;
        }
        self.advance(1 + self.random() % LONGEST_STEP);
        Ok(Some(able.trailing_zeros() as usize))
    }

    /// Returns the set of the CPUs that can step now. Bit n of the result is set if CPU n can.
    fn able(&self) -> u64 {
        (0..self.cpus.len()).filter(|&cpu| self.can_step(cpu)).fold(0, |able, cpu| able | 1 << cpu)
    }

    /// Checks the oracles, and advances the clock to the next interrupt. Called when all CPUs halt. Returns an error if
    /// an oracle fails or no interrupt will come.
    fn sleep_until_interrupt(&self, scheduler: &'static Scheduler<Sim>) -> Result<(), String> {
        let timer = self.cpus.iter().map(|cpu| cpu.timer()).min().unwrap_or(Instant::NEVER);
        oracle::when_all_halt(scheduler, timer)?;
        let next = self.next_deadline();
        if next == Instant::NEVER {
            return Err(format!("every CPU halts and nothing is to wake one; Gs: {}", oracle::goroutines(scheduler)));
        }
        self.advance_clock_to(next);
        Ok(())
    }

    #[expect(unsafe_code, reason = "resumes a CPU")]
    pub(super) fn resume(&self, cpu: usize) {
        self.running.set(cpu);
        self.is_inside.set(true);
        let (driver, next) = (&raw const self.driver, &raw const self.cpus[cpu].context);
        if self.explored.is_some() {
            // SAFETY: the CPU's context was saved by `to_driver` or `switch_to`, or made by `boot`, and no CPU runs.
            unsafe { context::switch_with_clear_registers(driver, next, NOTHING) };
        } else {
            // SAFETY: as above.
            unsafe { context::switch(driver, next, NOTHING) };
        }
        self.is_inside.set(false);
    }

    /// Stops the CPU that runs. Returns when it takes its next step.
    pub(super) fn stop(&self) {
        if self.explored.is_some() {
            return self.to_driver();
        }
        // The oracles are not part of the simulated machine, so their accesses must not count as steps of a CPU.
        self.is_inside.set(false);
        let scheduler = self.scheduler.get().expect("CPUs run after the scheduler is made");
        match self.choose(scheduler) {
            Ok(Some(next)) => self.switch_to(next),
            // All CPUs halt. The driver will find the same, because nothing changes until it runs, and will advance the
            // clock.
            Ok(None) => self.to_driver(),
            Err(message) => {
                *self.end.borrow_mut() = Some(Err(message));
                self.to_driver();
            }
        }
    }

    /// Switches from the running CPU directly to the CPU `next`. A switch to the driver in between would cost a second
    /// switch in every step. Returns when the CPU that was running takes its next step.
    #[expect(unsafe_code, reason = "leaves a CPU")]
    fn switch_to(&self, next: usize) {
        let from = self.running.replace(next);
        self.is_inside.set(true);
        if next != from {
            // SAFETY: the context of `next` was saved by this function or by `to_driver`, or made by `boot`, and only
            // `choose` decides which CPU runs. The code on `from` is at a point at which another CPU may run next.
            unsafe { context::switch(&raw const self.cpus[from].context, &raw const self.cpus[next].context, NOTHING) };
        }
    }

    /// Switches to the driver. Returns when this CPU takes its next step.
    #[expect(unsafe_code, reason = "leaves a CPU")]
    fn to_driver(&self) {
        // SAFETY: the driver waits in `resume`. The code on this CPU is at a point at which another CPU may run next.
        unsafe { context::switch(&raw const self.cpu().context, &raw const self.driver, NOTHING) };
    }

    /// A point at which the simulation's driver may let another CPU run, or deliver an interrupt to this CPU.
    pub(super) fn step(&self, site: Option<Site>) {
        self.take_step(site, false);
    }

    /// Takes a [`step`](Self::step) on a CPU that computes or waits for another CPU.
    pub(super) fn wait(&self) {
        self.take_step(None, true);
    }

    /// Called when a G computes on an explored machine. After `begin`, this is [`wait`](Self::wait). Before `begin`,
    /// `wait` would do nothing. So this function switches to the simulation's driver, which then runs the other CPUs.
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
            explored.sites[self.running_cpu()].set(site);
            explored.waits[self.running_cpu()].set(waits);
        }
        self.steps.set(self.steps.get() + 1);
        self.stop();
        while self.cpu().take_interrupts() {}
    }

    /// Starts the exploration of every order of steps.
    pub(super) fn begin(&self) {
        let explored = self.explored.as_ref().expect("a program that is explored");
        explored.has_begun.set(true);
        self.to_driver();
    }

    /// Ends the run with `result`. Called by code that runs on a simulated CPU.
    pub(super) fn finish(&self, result: Result<(), String>) -> ! {
        *self.end.borrow_mut() = Some(result);
        self.to_driver();
        unreachable!("the run is over")
    }

    /// Makes a device raise `signal` at `when`, by an interrupt on some CPU.
    pub(super) fn interrupt_at(&self, when: Instant, signal: &'static Signal<Sim>) {
        let cpu = if self.explored.is_some() { 0 } else { self.random() as usize % self.cpus.len() };
        self.devices.borrow_mut().push(DeviceInterrupt { when, cpu, signal });
    }

    /// Whether `cpu` has something to do now.
    pub(super) fn can_step(&self, cpu: usize) -> bool {
        self.cpus[cpu].can_step(self.clock.get()) || self.is_interrupted(cpu)
    }

    /// The earliest future time at which a timer or device interrupts a CPU.
    pub(super) fn next_deadline(&self) -> Instant {
        let devices = self.devices.borrow();
        let all = self.cpus.iter().map(|cpu| cpu.timer()).chain(devices.iter().map(|interrupt| interrupt.when));
        all.filter(|&when| when > self.instant()).min().unwrap_or(Instant::NEVER)
    }

    /// Advances the clock to `when`, if the clock is earlier.
    pub(super) fn advance_clock_to(&self, when: Instant) {
        self.clock.set(self.clock.get().max(when.as_nanos()));
    }

    /// Takes the result of the run, if it has ended.
    pub(super) fn take_end(&self) -> Option<Result<(), String>> {
        // `take` also writes the unused bytes of the `None` that it leaves, with leftovers of the driver's stack. In an
        // exploration, equal states would then differ. So nothing is written before the end.
        if self.end.borrow().is_none() {
            return None;
        }
        self.end.take()
    }

    /// Clears the state on which no later step depends, so that two runs that reach the same state can be recognised as
    /// equal.
    pub(super) fn forget_history(&self) {
        self.steps.set(0);
        self.running.set(0);
        self.driver.forget();
        self.cpus.iter().for_each(|cpu| cpu.run_time.forget());
    }

    fn is_interrupted(&self, cpu: usize) -> bool {
        let now = self.instant();
        self.devices.borrow().iter().any(|interrupt| interrupt.cpu == cpu && interrupt.when <= now)
    }

    /// Takes a due device interrupt of the CPU that runs.
    pub(super) fn take_device_interrupt(&self) -> Option<&'static Signal<Sim>> {
        let (now, cpu) = (self.instant(), self.running_cpu());
        let mut devices = self.devices.borrow_mut();
        let due = devices.iter().position(|interrupt| interrupt.when <= now && interrupt.cpu == cpu)?;
        Some(devices.swap_remove(due).signal)
    }

    /// Whether the machine is explored, and the exploration is reduced.
    pub(super) fn is_reduced(&self) -> bool {
        self.explored.as_ref().is_some_and(|explored| explored.reduces.get())
    }

    /// Decides whether a pending IPI arrives later, although the CPU could take it now.
    pub(super) fn is_interrupt_late(&self) -> bool {
        match &self.explored {
            Some(explored) => explored.is_late.get(),
            None => self.random().is_multiple_of(4),
        }
    }

    /// The CPU that runs.
    pub(super) fn cpu(&self) -> &SimCpu {
        &self.cpus[self.running.get()]
    }

    /// The tracer of the CPU that runs.
    pub(super) fn tracer(&self) -> &CpuTracer {
        &self.tracers[self.running.get()]
    }

    pub(super) fn running_cpu(&self) -> usize {
        self.running.get()
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.get()
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_nanos(self.clock.get())
    }

    pub(super) fn advance(&self, nanoseconds: u64) {
        let now = self.clock.get();
        for cpu in &self.cpus {
            cpu.pass(now, nanoseconds);
        }
        self.clock.set(now + nanoseconds);
    }

    /// Returns the next random number (xorshift64*).
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

const NOTHING: Transfer = Transfer { function: 0, subject: 0, argument: Word::uninit() };
