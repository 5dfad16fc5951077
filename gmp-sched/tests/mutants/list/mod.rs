//! The mutants, grouped by concept.

mod background;
mod cancel;
mod channels;
mod composition;
mod device_signals;
mod future;
mod idle;
mod in_place;
mod join;
mod kthread;
mod locked;
mod policies;
mod policy;
mod refusal;
mod retire;
mod run;
mod run_queue;
mod scope;
mod shut_down;
mod slices;
mod spin_lock;
mod sync;
mod syscall;
mod timers;
mod token;
mod wake;
mod watchdog;
mod world;

use std::fmt;

/// The tests that must detect a mutant.
#[derive(Clone, Copy)]
pub(crate) enum Catcher {
    /// loom models whose path contains this string.
    Model(&'static str),
    /// Simulated programs, run with this many seeds. The first string is their file in `tests`, and the second is
    /// contained in their names.
    Simulation(&'static str, &'static str, u32),
    /// Ordinary tests. The first string is their file in `tests`, and the second is contained in their names.
    Test(&'static str, &'static str),
    /// Property tests, in `tests/run_queue.rs` or in the source, whose names contain this string.
    Properties(&'static str),
    /// No test, because the mutant behaves as the original does. The string gives the reason.
    Nobody(&'static str),
}

/// One small change of the source, which the tests named by `catcher` must detect.
pub(crate) struct Mutant {
    /// A description of the change.
    pub(crate) what: &'static str,
    /// The file in `gmp-sched/src`.
    pub(crate) file: &'static str,
    /// The code to be replaced. This code occurs exactly once in the file. Comments and whitespace are not compared.
    pub(crate) from: &'static str,
    /// The code that replaces `from` and the comments within it.
    pub(crate) to: &'static str,
    pub(crate) catcher: Catcher,
}

impl Mutant {
    /// Whether the mutant's file, its description or the name of its catcher contains `words`.
    pub(crate) fn is_called(&self, words: &str) -> bool {
        let catcher = match self.catcher {
            Catcher::Model(name)
            | Catcher::Simulation(_, name, _)
            | Catcher::Test(_, name)
            | Catcher::Properties(name) => name,
            Catcher::Nobody(_) => "",
        };
        self.to_string().contains(words) || catcher.contains(words)
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.what)
    }
}

const fn mutant(
    file: &'static str,
    what: &'static str,
    from: &'static str,
    to: &'static str,
    catcher: Catcher,
) -> Mutant {
    Mutant { what, file, from, to, catcher }
}

/// All mutants.
pub(crate) fn mutants() -> impl Iterator<Item = &'static Mutant> {
    let lists = [
        run_queue::MUTANTS,
        token::MUTANTS,
        idle::MUTANTS,
        background::MUTANTS,
        timers::MUTANTS,
        syscall::MUTANTS,
        join::MUTANTS,
        scope::MUTANTS,
        refusal::MUTANTS,
        retire::MUTANTS,
        shut_down::MUTANTS,
        slices::MUTANTS,
        spin_lock::MUTANTS,
        future::MUTANTS,
        kthread::MUTANTS,
        locked::MUTANTS,
        in_place::MUTANTS,
        device_signals::MUTANTS,
        run::MUTANTS,
        world::MUTANTS,
        channels::MUTANTS,
        sync::MUTANTS,
        cancel::MUTANTS,
        wake::MUTANTS,
        watchdog::MUTANTS,
        composition::MUTANTS,
        policies::MUTANTS,
        policy::MUTANTS,
    ];
    lists.into_iter().flatten()
}
