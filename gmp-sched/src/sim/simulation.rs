//! A simulated machine: its CPUs, its clock, its devices and its random numbers.

mod driver;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::time::Duration;

use super::cpu::SimCpu;
use super::exhaustive::explored::Explored;
use super::exhaustive::memory::MachineMemory;
use super::observation;
use super::platform::{guarded, run_maker_of_spares, run_sysmon};
use super::policy::Policy;
use super::stacks::{STACK_BYTES, Stacks};
use super::watch::Watched;
use super::{Config, Failure, Report, Sim, oracle};
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::context::{self, SavedContext, Start, Word};
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
    /// The thread that makes Ms on request, if Gs are preempted in place.
    pub(super) maker_of_spares: Cell<Option<&'static Thread<Sim>>>,
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
            maker_of_spares: Cell::new(None),
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

    /// Prepares the idle loop of every CPU and creates the threads that belong to no M.
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
        let create = |run| {
            // SAFETY: the stack is fresh, and no other code uses it until the run is over. After that no thread runs.
            let thread = unsafe { self.threads.create(self.stack(), run, 0) };
            Some(thread.expect("memory for a thread"))
        };
        self.sysmon.set(create(run_sysmon));
        if self.config.preempted_limit.is_some() {
            self.maker_of_spares.set(create(run_maker_of_spares));
        }
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
