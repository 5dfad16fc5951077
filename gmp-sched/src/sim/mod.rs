//! A simulated machine. Both levels (Gs on Ms, and kernel threads on CPUs) run on one host thread, with a virtual
//! clock and a seed. The same seed leads to the same run, step by step.
//!
//! Every CPU is a flow of control with a stack of its own, and only one of them runs at a time. The driver (in
//! `simulation`) may switch to another CPU or deliver an interrupt (tick, IPI, device). The seed decides about this at
//! each [`Points::point`](crate::base::points::Points::point) of the protocols, at each failed attempt to take a lock,
//! and at each step of user code. Between two points nothing else runs. So the simulator explores interleavings of the
//! steps that matter, under sequential consistency; the effects of weaker memory are left to the loom models.
//!
//! For a small program, every run can be explored instead; see [`exhaustive`].
//!
//! *Oracles* check the invariants: some before every step, the others whenever all CPUs halt and after the run. See
//! `oracle`.
//!
//! ```
//! use core::time::Duration;
//! use gmp_sched::sim::{self, Config};
//!
//! let report = sim::run(Config { cpus: 4, processors: 4, seed: 1, ..Config::default() }, || {
//!     let sleeper = sim::go(|| sim::sleep(Duration::from_millis(3)));
//!     sim::go(|| sim::work(Duration::from_millis(50))).join().unwrap();
//!     sleeper.join().unwrap();
//! })
//! .unwrap();
//! assert!(report.elapsed >= Duration::from_millis(3));
//! ```

mod cpu;
pub mod exhaustive;
#[cfg_attr(not(feature = "refinements"), path = "no_observation.rs")]
mod observation;
mod oracle;
mod platform;
mod policy;
mod simulation;
mod slices;
mod stacks;
mod watch;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::base::id::MachineId;
use crate::engine::syscall;
use crate::library::device_signals::Signal;
use crate::platform::{Pinned, Scavenged};
use crate::policy::Policy;
use crate::record::counters::Counts;
use crate::record::trace::TrackTrace;
use simulation::Simulation;
pub use watch::PolicyModel;

/// The platform type of the simulated machine.
#[derive(Clone, Copy, Debug)]
pub struct Sim;

crate::platform_aliases!(Sim);

/// Waits for one of several channel operations. The description is at [`select!`](macro@crate::select). This macro
/// also accepts a select without channels.
#[doc(hidden)]
#[macro_export]
macro_rules! __sim_select {
    ($($arms:tt)*) => { $crate::select! { on $crate::sim::Sim; $($arms)* } };
}

#[doc(inline)]
pub use __sim_select as select;

/// Begins a span of the calling G that lasts to the end of the enclosing block. The description is at
/// [`trace::span!`](crate::trace::span!).
#[cfg(feature = "refinements")]
#[doc(hidden)]
#[macro_export]
macro_rules! __sim_span {
    ($($arguments:tt)*) => { $crate::trace::span! { on $crate::sim::Sim; $($arguments)* } };
}

#[cfg(feature = "refinements")]
#[doc(inline)]
pub use __sim_span as span;

/// The simulated machine and the seed of the run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Number of CPUs of the machine, at most 64.
    pub cpus: usize,
    /// Number of Ps of the scheduler.
    pub processors: usize,
    /// The maximum number of Ps that [`set_procs`] may choose. If this is less than `processors`, the maximum is
    /// `processors`.
    pub procs_limit: usize,
    /// The seed of all random choices.
    pub seed: u64,
    /// Number of steps after which the run counts as a livelock.
    pub step_limit: u64,
    /// Whether a G may end by a panic, which its join returns, as on the platform of threads. If not, a panic of a G
    /// ends the run with a failure.
    pub bodies_unwind: bool,
    /// The [scavenger](crate::platform::Platform::scavenger) of the machine, if any. Not possible in an
    /// [exploration](exhaustive).
    pub scavenger: Option<fn() -> Scavenged>,
    /// How many Gs may be preempted at the same time if a G that is preempted keeps its M and its thread, as on the
    /// platform of threads (`refinements/preempt_in_place.rs`). `None` if such a G leaves its M, as in the kernel.
    pub preempted_limit: Option<u32>,
    /// The [policy](crate::policy) of the scheduler. `None` for Go's rules.
    pub policy: Option<&'static dyn Policy>,
    /// Makes the model with which the decisions of `policy` are compared.
    pub policy_model: Option<fn() -> Box<dyn PolicyModel>>,
    /// Whether the scheduler's decisions are compared with a specification of Go's rules (`sim/policy`). With a
    /// `policy`, in an [exploration](exhaustive), and in a run with a trace ([`run_traced`]), they are not.
    pub is_specified: bool,
    /// Whether the stack of a G that has ended is overwritten, and checked when it is used again. Not possible in an
    /// [exploration](exhaustive).
    pub poisons_dead_stacks: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cpus: 2,
            processors: 2,
            procs_limit: 0,
            seed: 0,
            step_limit: 20_000_000,
            bodies_unwind: false,
            scavenger: None,
            preempted_limit: None,
            policy: None,
            policy_model: None,
            is_specified: true,
            poisons_dead_stacks: false,
        }
    }
}

/// Figures of a successful run.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Number of steps taken, which [`Config::step_limit`] limits.
    pub steps: u64,
    /// Virtual time that the run took.
    pub elapsed: Duration,
    /// Counters of all Ps, summed.
    pub counts: Counts,
    /// Number of Ms created.
    pub machines: usize,
}

/// A failed run. Running its configuration again repeats it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The configuration that failed.
    pub config: Config,
    /// The number of steps before the failure.
    pub step: u64,
    /// Why the run failed: the failed oracle, the message of the panic, or another cause that [`run`] lists.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, step {}: {}", self.config, self.step, self.message)
    }
}

impl core::error::Error for Failure {}

/// Runs `main` as the main G of a simulated machine.
///
/// Each object of this platform (a channel, a lock, a handle) is for one run. If Gs of two runs use the same object, a
/// woken G of the other run may never run, and a run may fail.
///
/// A run leaks its scheduler, about 120 KiB. If a G has not ended when the run ends, or its result was not taken, or
/// the run fails, the run leaks its stacks, too, of which the used pages take memory. So a test with very many seeds
/// should run parts of them in processes of their own.
///
/// # Errors
///
/// A G or the scheduler panicked, the scheduler reported a fatal error, an oracle failed, all Gs wait for ever, or the
/// step limit was reached. With [`Config::bodies_unwind`], a panic of a G that another G joins is not an error.
///
/// # Panics
///
/// There is no CPU or no P, there are more than 64 CPUs or more Ps than a scheduler can have, or the caller is inside a
/// simulation.
pub fn run(config: Config, main: impl FnOnce() + Send + 'static) -> Result<Report, Failure> {
    Simulation::new(config, None).run(None, Box::new(main)).0
}

/// Like [`run`], but also returns a trace of the run, with the last `capacity` events of each track. The trace is
/// exact: the run takes the same steps as one by [`run`] with the same configuration. If the run fails, the last event
/// of the trace is an [`EventKind::Violation`](crate::trace::EventKind::Violation) with the message of the failure.
/// Without the feature `refinements` there is no trace.
///
/// # Errors
///
/// In the same cases as [`run`].
///
/// # Panics
///
/// In the same cases as [`run`], and if `capacity` is 0 or there is no memory for the trace.
pub fn run_traced(
    config: Config,
    capacity: usize,
    main: impl FnOnce() + Send + 'static,
) -> (Result<Report, Failure>, Vec<TrackTrace>) {
    assert!(capacity > 0, "a trace of no events");
    Simulation::new(config, None).run(Some(capacity), Box::new(main))
}

/// The configuration of the run that the caller is part of.
#[must_use]
pub fn config() -> Config {
    simulation::current().config()
}

/// The virtual clock: the time since the beginning of the simulation.
#[must_use]
pub fn elapsed() -> Duration {
    Duration::from_nanos(simulation::current().now())
}

/// The id of the M that the calling G runs on.
#[must_use]
pub fn machine() -> MachineId {
    Pinned::<Sim>::of_scheduler().machine().id()
}

/// The longest time so far from a request to stop the world until the world had stopped.
#[cfg(feature = "refinements")]
#[must_use]
pub fn longest_stop() -> Duration {
    simulation::current().scheduler.get().map_or(Duration::ZERO, |scheduler| scheduler.stops().longest)
}

/// Maximum time that a CPU computes in one step, in ns.
const LONGEST_WORK: u64 = 500_000;

/// Maximum time that a CPU continues to compute after its timer has become due, in ns.
const LONGEST_LATENCY: u64 = 300;

/// Computes for about `duration` without calling the scheduler. Interrupts, and with them preemptions, may come
/// meanwhile. In an [exploration](exhaustive), takes one step, whatever the duration is.
pub fn work(duration: Duration) {
    let simulation = simulation::current();
    if let Some(explored) = &simulation.explored {
        return simulation.compute(explored);
    }
    let mut left = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    while left > 0 {
        // The CPUs step one after the other, but they simulate CPUs that compute at the same time. So each step
        // advances the clock only by this CPU's share.
        let parts = simulation.cpus.len() as u64;
        let until_interrupt = simulation.cpu().timer().as_nanos().saturating_sub(simulation.now());
        let longest = LONGEST_WORK.min(until_interrupt.saturating_mul(parts).saturating_add(LONGEST_LATENCY));
        let done = left.min(1 + simulation.random() % longest);
        simulation.advance(done.div_ceil(parts));
        left -= done;
        simulation.wait();
    }
}

/// Keeps the M busy for about `duration` in a system call. Sysmon may retake the P meanwhile.
pub fn syscall(duration: Duration) {
    syscall::syscall::<Sim, _>(|| work(duration));
}

/// Starts a device operation that takes `duration` and ends with an interrupt, which raises `signal`.
pub fn start_device(signal: &'static Signal<Sim>, duration: Duration) {
    let simulation = simulation::current();
    simulation.interrupt_at(simulation.instant() + duration, signal);
}

/// Blocks the calling G and its M in a device operation for `duration`. The P is handed off at once.
pub fn block(duration: Duration) {
    let blocked = syscall::try_blocking_pinned::<Sim, _>(|_pinned| {
        let until = simulation::current().instant() + duration;
        while simulation::current().instant() < until {
            platform::park(Some(until));
        }
    });
    blocked.expect("the simulated machine has threads to spare");
}
