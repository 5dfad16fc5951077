//! Every run of a small program on the simulated machine: a model checker over the scheduler's own source.
//!
//! The seeded simulation tries some orders of the steps of a large program. Here a program is small (a few Gs, 2 CPUs), and
//! every order is tried: at each [point](crate::base::points::Points::point), and before each lock of the scheduler is taken, each
//! CPU that can go on may be the next; an IPI that is pending may come now or a step later; and the clock, which stands
//! otherwise, may go on to the next deadline (a bounded number of times while a CPU is busy, and always when all halt).
//!
//! [`explore`] goes depth first. It saves the whole memory of the machine at each step, so that it can go back, and does not
//! explore again what follows a state that it has seen. In each state it checks the invariants of `invariants`; at the end, that
//! from every state the program can still come to its end (so there is neither a deadlock nor a livelock).
//!
//! # What a state is
//!
//! All memory that the machine can write, byte by byte, is hashed to 128 bits. It lies in an arena of its own: everything that is
//! allocated while the machine runs, and the used part of every stack. What a flow of control has in registers while it does
//! not run is on its stack, too. So two states with the same hash go on in the same way, except for a collision of hashes (with
//! ten million states less probable than 10^-24). What is cleared before a state is saved, and therefore not part of it:
//!
//! - counters, the time since which a G waits or is runnable, and the P's clock from which the former is read: they are only shown
//!   to people;
//! - the number of steps so far, the driver's context, and contexts of flows of control that run: written before they are read;
//! - memory below the stack pointer of a flow of control that does not run;
//! - the random numbers of a P, which begin anew in each state: a thief looks at the other Ps always in one order,
//!   [`Setting::order`] says which.
//!
//! A program must not write statics or thread-local variables, which are not saved. `tests/composition.rs` compares the states
//! found with those found without pruning.
//!
//! # What is not covered
//!
//! - Memory is sequentially consistent; what weaker memory does is for the loom models. What happens between two points is one
//!   step.
//! - With [`Setting::switches`] only runs in which the turn is taken that often from a CPU that could go on. It goes over for
//!   nothing where a CPU halts, waits for a lock or computes.
//! - Not more ticks than [`Setting::ticks`] while a CPU is busy; waiting times of the stealing protocol are one step.

mod invariants;
pub(super) mod memory;
mod search;
mod state;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use memory::Memory;

use super::world;
use crate::base::id::{GoroutineId, MachineId};
use crate::base::points::Site;

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// CPUs of the machine.
    pub cpus: usize,
    /// Ps of the scheduler.
    pub processors: usize,
    /// The most Ps that the program may choose, if that is more.
    pub procs_limit: usize,
    /// How often the clock may go on to the next deadline while a CPU is busy. When all halt, it always does.
    pub ticks: u32,
    /// How often the turn may be taken from a CPU that could go on; without a number as often as there are points.
    pub switches: Option<u32>,
    /// Steps of a run at most, instead.
    pub steps: Option<u32>,
    /// Whether what follows a state is explored once only. Not for checking that this leaves nothing out.
    pub prunes: bool,
    /// Which of the orders in which to look for something to steal.
    pub order: u64,
    /// States after which the exploration is given up.
    pub states_at_most: usize,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            cpus: 2,
            processors: 3,
            procs_limit: 0,
            ticks: 0,
            switches: None,
            steps: None,
            prunes: true,
            order: 1,
            states_at_most: 20_000_000,
        }
    }
}

/// How much there was to explore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Different states.
    pub states: usize,
    /// Steps from state to state.
    pub transitions: usize,
    /// States in which the program has ended.
    pub ends: usize,
    /// States in which nothing goes on by itself, and everything is to be in order.
    pub stable: usize,
    /// Steps of the longest path that was followed.
    pub depth: usize,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A CPU goes on to its next point, and takes its interrupts before, unless they are late.
    Step {
        /// Which.
        cpu: usize,
        /// An IPI that is pending there does not come yet.
        is_late: bool,
    },
    /// The clock goes on to the next deadline.
    Tick,
}

/// The M on a CPU and the G on that M.
type Who = (Option<MachineId>, Option<GoroutineId>);

/// A step on the way to where something is wrong.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What happened.
    pub choice: Choice,
    /// The M and the G that were on that CPU before.
    pub who: Who,
    /// The point before which the CPU is now; none before a lock and in a G's own code.
    pub site: Option<Site>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Choice::Step { cpu, is_late } = self.choice else {
            return f.write_str("the clock goes on to the next deadline");
        };
        write!(f, "CPU {cpu}")?;
        match self.who {
            (Some(machine), Some(goroutine)) => write!(f, ", M {}, G {goroutine}", machine.get())?,
            (Some(machine), None) => write!(f, ", M {}", machine.get())?,
            (None, _) => {}
        }
        if let Some(site) = self.site {
            write!(f, ", to {site:?}")?;
        }
        f.write_str(if is_late { ", its IPI still on the way" } else { "" })
    }
}

/// A run that goes wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub message: String,
    /// How it comes to that.
    pub steps: Vec<Step>,
    /// What was explored until then.
    pub census: Census,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Census { states, transitions, .. } = self.census;
        writeln!(f, "{}\nfound after {states} states and {transitions} transitions, by these steps:", self.message)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}

impl core::error::Error for Failure {}

/// Explores every run of `program`, from where it calls [`begin`] to its end.
///
/// # Errors
///
/// There is a run in which a G or the scheduler panics, an invariant is broken, or the program cannot end any more; or there are
/// more states than the setting allows.
///
/// # Panics
///
/// The global allocator is not [`Memory`], or the caller is inside a simulation.
pub fn explore(setting: Setting, program: fn()) -> Result<Census, Failure> {
    search::Search::new(setting, program).run()
}

/// Every order of what follows is explored. Before this, a CPU runs until a G calls [`work`](super::work) or there is nothing to
/// do. Called once by the program.
pub fn begin() {
    world::current().begin();
}
