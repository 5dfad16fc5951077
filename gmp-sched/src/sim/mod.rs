//! A simulated machine: both levels, Gs on Ms and kernel threads on CPUs, on one host thread, with a virtual clock, driven
//! by a seed. The same seed gives the same run, step by step.
//!
//! Every CPU is a flow of control of its own. At each [`Points::point`](crate::base::points::Points::point) of the protocols,
//! at each failed attempt at a lock and at each step of user code it may lose the turn to another CPU, and an interrupt
//! (tick, IPI, device) may come; the seed decides. Between two points nothing else runs, so what is explored is every
//! interleaving of the steps that matter, under sequential consistency; what weaker memory does to them is left to the
//! loom models.
//!
//! Of a small program every run can be explored instead: see [`exhaustive`].
//!
//! After the run, and whenever all CPUs halt, the *oracles* are asked: see `oracle`.
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
mod oracle;
mod platform;
mod slices;
mod world;

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::base::id::MachineId;
use crate::engine::device_signals::Signal;
use crate::engine::syscall;
use crate::platform::Pinned;
use crate::record::counters::Counts;
use world::World;

/// The platform type of the simulated machine.
#[derive(Clone, Copy, Debug)]
pub struct Sim;

crate::platform_aliases!(Sim);

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// CPUs of the machine.
    pub cpus: usize,
    /// Ps of the scheduler.
    pub processors: usize,
    /// The most Ps that [`set_procs`] may choose, if that is more.
    pub procs_limit: usize,
    /// Decides everything that is left open.
    pub seed: u64,
    /// Steps after which the run is taken for a livelock.
    pub step_limit: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { cpus: 2, processors: 2, procs_limit: 0, seed: 0, step_limit: 20_000_000 }
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Points that were passed.
    pub steps: u64,
    /// Virtual time.
    pub elapsed: Duration,
    /// Counters of all Ps.
    pub counts: Counts,
    /// Ms that were made.
    pub machines: usize,
}

/// A run that went wrong. Its configuration repeats it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was run.
    pub config: Config,
    /// After how many steps it went wrong.
    pub step: u64,
    /// What went wrong.
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
/// # Errors
///
/// A G or the scheduler panicked, an oracle found an invariant broken, everything waits, or the step limit is reached.
///
/// # Panics
///
/// There is no CPU or no P, or the caller is inside a simulation.
pub fn run(config: Config, main: impl FnOnce() + Send + 'static) -> Result<Report, Failure> {
    World::new(config, None).run(Box::new(main))
}

/// What is simulated: that of the run that the caller is part of.
#[must_use]
pub fn config() -> Config {
    world::current().config()
}

/// The virtual clock: time since the machine started.
#[must_use]
pub fn elapsed() -> Duration {
    Duration::from_nanos(world::current().now())
}

/// The number of the M that the calling G runs on.
#[must_use]
pub fn machine() -> MachineId {
    Pinned::<Sim>::new().machine().id()
}

/// The longest that it took so far until the world stood still.
#[must_use]
pub fn longest_stop() -> Duration {
    world::current().scheduler.get().map_or(Duration::ZERO, |scheduler| scheduler.stops().longest)
}

/// The most that a CPU computes in one turn, in ns.
const LONGEST_WORK: u64 = 500_000;

/// The most that a CPU computes after its timer has come due, in ns.
const LONGEST_LATENCY: u64 = 300;

/// Computes for about that long without calling the scheduler: interrupts come, and with them preemptions.
pub fn work(duration: Duration) {
    let world = world::current();
    if let Some(explored) = &world.explored {
        return world.compute(explored);
    }
    let mut left = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    while left > 0 {
        // The CPUs take turns, but would compute at the same time: each turn is this CPU's part of the clock.
        let parts = world.cpus.len() as u64;
        let until_interrupt = world.cpu().timer().as_nanos().saturating_sub(world.now());
        let longest = LONGEST_WORK.min(until_interrupt.saturating_mul(parts).saturating_add(LONGEST_LATENCY));
        let done = left.min(1 + world.random() % longest);
        world.advance(done.div_ceil(parts));
        left -= done;
        world.wait();
    }
}

/// Keeps the M busy for that long in a system call that sysmon has to find.
pub fn syscall(duration: Duration) {
    syscall::syscall::<Sim, _>(|| work(duration));
}

/// Has a device do something that takes about that long; the signal is what its interrupt raises.
pub fn start_device(signal: &'static Signal<Sim>, duration: Duration) {
    let world = world::current();
    world.interrupt_at(world.instant().after(duration), signal);
}

/// Blocks the G with its M in a device for that long; the P is handed off at once.
pub fn block(duration: Duration) {
    let blocked = syscall::try_blocking::<Sim, _>(|| {
        let until = world::current().instant().after(duration);
        let _pinned = Pinned::<Sim>::new();
        while world::current().instant() < until {
            platform::park(Some(until));
        }
    });
    blocked.expect("the simulated machine has threads to spare");
}
