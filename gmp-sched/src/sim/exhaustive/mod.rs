//! Explores every run of a small program on the simulated machine: a model checker over the scheduler's own source.
//!
//! The seeded simulation tries some orders of the steps of a large program. In an exploration, the program is small (a
//! few Gs, 2 CPUs), and every order is tried. At each [point](crate::base::points::Points::point), and before each lock
//! of the scheduler is taken, any CPU that can step may be next. A pending IPI may be delivered now or a step later.
//! The clock advances only to the next deadline: a bounded number of times while a CPU is busy, and always when all
//! CPUs halt.
//!
//! [`explore`] searches depth first. It records each change of the machine's memory, so that it can go back. If
//! it reaches a state for the second time, it follows the steps from that state again only if more switches are left
//! than before (see [`Setting::switches`]). In each state it checks the invariants of `invariants`. At the end it
//! checks that the program can still end from every state, so that there is neither a deadlock nor a livelock.
//!
//! # What a state is
//!
//! A state is all memory that the machine can write, byte by byte, hashed to 128 bits. This memory is an arena of its
//! own: everything that is allocated while the machine runs, and the used part of every stack. The registers of a flow
//! of control that does not run are on its stack. So two states with the same hash continue in the same way, except
//! for a hash collision. The table of the states contains 96 bits of each hash, so with ten million states a collision
//! is less probable than 10^-14. The following is cleared before a state is saved, and is therefore not part of the
//! state:
//!
//! - counters, the times since which Gs wait or are runnable, and the P's clock from which these times are read,
//!   because they are only used in reports;
//! - what is always written before it is read: the number of steps so far, the number of the CPU that ran last, whether
//!   its IPI was late, the context of the driver (see `simulation`), and the contexts of flows of control that run or
//!   have ended;
//! - the points at which the CPUs are stopped, which only the report of a failure names, and how long Gs have run,
//!   which only `slices` checks;
//! - memory below the stack pointer of a flow of control that does not run, and the stacks of Gs that have ended. Two
//!   things on these stacks are kept: results that have not been taken, and what Gs held when they exited by `goexit`,
//!   which does not unwind in an exploration;
//! - the random numbers of a P, which start anew in each state. So a thief always visits the other Ps in the same
//!   order, which [`Setting::order`] chooses.
//!
//! # How the number of states is reduced
//!
//! With [`Setting::reduces`], states that can be reached only by steps that make no difference are left out, and more
//! is cleared before a state is saved. `tests/composition.rs` compares complete explorations with and without the
//! reduction: they find the same stable situations ([`Census::situations`]). The reduction is sound for these reasons:
//!
//! - *Two points without an access to shared memory in between are one point.* A switch at the second point has the
//!   same effect as a switch at the first. This is so at a point before a lock
//!   ([`point_before_lock`](crate::base::points::Points::point_before_lock)), because taking a lock is a step, too; and
//!   in a CPU that waits for a lock, which only needs one point in each iteration.
//! - *A failed check that changes nothing need not be repeated*
//!   ([`repetitions`](crate::base::points::Points::repetitions)). A thief that finds nothing visits all Ps up to three
//!   times before its last round. Here it visits them once. For each run with repetitions there is a run without the
//!   failed ones, in which the thief makes the remaining visits at the same moments, with the same effect.
//! - *What is written before it is read is cleared*: the link of a G, M, P or thread that is in no list, the time of
//!   the last sleep of a thread that does not sleep, and the P that an M had in its last system call when it holds a P
//!   again. So is the last holder of a P, because it only makes the search of `Scheduler::holder_of` shorter.
//! - *Memory below a stack pointer is not in use*, so it is cleared before a state is saved. A part of it is also
//!   cleared in most functions of the simulated platform that the scheduler calls (`scrub` in `cpu`). Otherwise
//!   leftovers of earlier calls remain in the parts of later frames that the compiler does not use, and equal states
//!   differ.
//!
//! Symmetry does not help: if Ms, Ps and CPUs that differ only in their number are counted once, the number of states
//! falls by less than 3%.
//!
//! `tests/composition.rs` checks that an exploration finds the same number of states with and without
//! [`Setting::prunes`].
//!
//! # What a program must not do
//!
//! The search sets the machine's memory back to earlier states, but no other memory. So [`explore`] is `unsafe`, and
//! its documentation states what a program must not do. In particular, it must not print.
//!
//! A program may panic, although the report of a panic is printed. Memory that is allocated during a panic is not part
//! of the machine. The panic ends the exploration, so the machine's memory is not set back after the panic. The arena
//! of an exploration that has failed is never used again.
//!
//! # What is not covered
//!
//! - Memory is sequentially consistent; the effects of weaker memory are left to the loom models. All instructions
//!   between two points are one step.
//! - With [`Setting::switches`], the number of switches away from a CPU that could step is bounded. Runs with more such
//!   switches are not explored. A switch away from a CPU that halts, waits for a lock or computes does not count.
//! - Runs with more ticks than [`Setting::ticks`] while a CPU is busy are not explored. A pause of the stealing
//!   protocol takes one step, whatever its length.

pub(super) mod explored;
mod invariants;
pub(super) mod memory;
mod search;
mod state;
mod table;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use explored::{EXPLORED_CPUS, EXPLORED_PROCESSORS};
use memory::MachineMemory;
pub use memory::Memory;

use super::simulation;
use crate::base::id::{GoroutineId, MachineId};
use crate::base::points::Site;

/// The explored machine, and the bounds of the exploration.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Number of CPUs of the machine, at most 4.
    pub cpus: usize,
    /// Number of Ps of the scheduler, at most 32.
    pub processors: usize,
    /// The maximum number of Ps that the program may choose, at most 32. If this is less than `processors`, the maximum
    /// is `processors`.
    pub procs_limit: usize,
    /// How many times the clock may advance to the next deadline while a CPU is busy. When all CPUs halt, the clock
    /// always advances.
    pub ticks: u32,
    /// How many times a run may switch away from a CPU that could make progress; unbounded if `None`.
    pub switches: Option<u32>,
    /// Maximum number of steps of a run. If set, `switches` is ignored, and the exploration does not check that the
    /// program can still end from every state.
    pub steps: Option<u32>,
    /// Whether to skip what follows a state that was visited before. Set to `false` only to check that skipping omits
    /// no state.
    pub prunes: bool,
    /// Whether to reduce the number of states; see the [module's documentation](self). Set to `false` only to check the
    /// reduction.
    pub reduces: bool,
    /// Chooses the order in which thieves visit other Ps.
    pub order: u64,
    /// Number of states above which the exploration gives up.
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
            reduces: true,
            order: 1,
            states_at_most: 20_000_000,
        }
    }
}

impl Setting {
    /// Panics if no machine can have this setting.
    fn check(&self) {
        let Self { cpus, processors, procs_limit, .. } = *self;
        assert!((1..=EXPLORED_CPUS).contains(&cpus), "{cpus} CPUs: an explored machine has 1 to {EXPLORED_CPUS}");
        for processors in [processors, processors.max(procs_limit)] {
            let is_possible = (1..=EXPLORED_PROCESSORS).contains(&processors);
            assert!(is_possible, "{processors} Ps: an explored machine has 1 to {EXPLORED_PROCESSORS}");
        }
    }
}

/// How large the exploration was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Number of different states. With [`Setting::switches`], a state counts once for each CPU that took a last step
    /// to it.
    pub states: usize,
    /// Number of steps between states.
    pub transitions: usize,
    /// Number of times that the program ended.
    pub ends: usize,
    /// Number of states in which no protocol is under way, so that the stricter invariants are checked.
    pub stable: usize,
    /// Number of different situations in the stable states. A situation is what an observer can see of the scheduler:
    /// which G runs on which M, P and CPU, which of them are idle, and what waits where.
    pub situations: usize,
    /// The sum of the hashes of these situations. Two explorations with the same sum have found the same situations.
    pub sum_of_situations: u64,
    /// Number of steps of the longest path.
    pub depth: usize,
}

/// One step of an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A CPU runs until its next point. It handles its pending interrupts first, except for the IPI if `is_late`.
    Step {
        /// The CPU.
        cpu: usize,
        /// Whether the IPI that is pending at that CPU stays pending during this step.
        is_late: bool,
    },
    /// The clock advances to the next deadline.
    Tick,
}

/// The M on a CPU and the G on that M.
type Who = (Option<MachineId>, Option<GoroutineId>);

/// A step of a failed run.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The step.
    pub choice: Choice,
    /// The M and the G on the CPU that took the step, before the step. For [`Choice::Tick`], those on the CPU that took
    /// the step before.
    pub who: Who,
    /// The point at which the CPU stopped after the step; `None` at a lock, in a G's own code, if the CPU halts, and
    /// for [`Choice::Tick`].
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

/// A failed exploration.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Why the exploration failed: the broken invariant, the message of the panic, or another cause that
    /// [`explore`] lists.
    pub message: String,
    /// The steps of the run that failed, in order, without the steps that were taken while a panic unwound. Empty if
    /// the program failed before it called [`begin`]. Also empty if the program can no longer end from some state,
    /// because no single run shows this.
    pub steps: Vec<Step>,
    /// How much was explored before the failure.
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
/// There is a run in which a G or the scheduler panics, an invariant is broken, or the program can no longer end. Or
/// there are more states than the setting allows.
///
/// # Panics
///
/// - The global allocator is not [`Memory`], or too many explorations are under way or have failed.
/// - The caller is inside a simulation, or a panic unwinds on the calling thread.
/// - The setting has no CPU, more than 4 CPUs, no P, or more than 32 Ps.
/// - The program ends or waits for ever before it calls [`begin`]. The clock does not advance before that call.
///
/// # Safety
///
/// The exploration sets the memory of the explored machine back to earlier states, and later explorations use the
/// memory for other machines. This memory consists of what the program allocates and of the stacks of its flows of
/// control. Nothing else is set back. So the program, including the code that it calls, must change nothing else:
///
/// - It writes no statics and no thread-local variables. There is one exception: it may write an atomic static that
///   contains a plain value, if nothing that the program does depends on this value. `HashMap::new` writes a
///   thread-local variable (the keys of its hash function), and the bubbles of `synctest` write a static (their
///   numbers).
/// - Nothing outside of the machine keeps memory that the program has allocated, or a reference to it or to a stack.
///   `print!`, `println!`, `eprint!`, `eprintln!` and `dbg!` allocate such memory: the buffer of the output, or the
///   output that the test harness captures.
/// - It does not catch panics, because a panic prints.
/// - No G is [abandoned](crate::exit::abandon), except by [`goexit`](super::goexit).
/// - It starts no threads, and opens and closes no files.
#[expect(unsafe_code, reason = "restores memory to which the program may have given away references")]
pub unsafe fn explore(setting: Setting, program: fn()) -> Result<Census, Failure> {
    setting.check();
    assert!(simulation::try_current().is_none(), "a simulation inside a simulation");
    assert!(!std::thread::panicking(), "an exploration during a panic");
    // SAFETY: the memory is only used for the machine that runs `program`, and the caller promises that `program` keeps
    // the contract of this function.
    let memory = unsafe { MachineMemory::new() };
    search::Search::new(setting, memory, program)?.run()
}

/// Starts the exploration. From this call on, every order of steps is tried. Before the call, a CPU runs until a G
/// calls [`work`](super::work) or the CPU has nothing to do. The program calls `begin` once.
pub fn begin() {
    simulation::current().begin();
}

#[cfg(test)]
mod tests {
    use super::{Setting, begin, explore};

    /// The unit tests use the global allocator of the standard library.
    #[test]
    #[should_panic(expected = "needs `sim::exhaustive::Memory` as its global allocator")]
    fn exploration_with_another_global_allocator_panics() {
        #[expect(unsafe_code, reason = "explores a program")]
        // SAFETY: the program does nothing.
        let _ = unsafe { explore(Setting::default(), begin) };
    }
}
