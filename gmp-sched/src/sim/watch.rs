//! What the simulator checks about a run with a [policy](crate::policy) of the program: the rules that hold for every
//! policy, and the policy's own model.
//!
//! The simulator installs a policy that passes all questions on to the program's policy, and checks each G that begins
//! to run.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::Sim;
use super::simulation::current;
use crate::base::id::GoroutineId;
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::Goroutine;
use crate::platform::SLICE;
use crate::policy::{Begun, Place, Policy, ProcessorState, Ready, Theft};

/// The model of a policy: a specification that is independent of the ranks which the policy chooses.
pub trait PolicyModel: Send {
    /// A G has become runnable, or has to wait again.
    fn waits(&mut self, ready: &Ready);

    /// A P begins to run a G. `others` are the Gs in the queue of this P.
    ///
    /// # Errors
    ///
    /// The policy does not allow that the G runs now. The text says why.
    fn begins(&mut self, begun: &Begun, others: &[GoroutineId]) -> Result<(), String>;
}

/// A policy whose answers are checked.
pub(super) struct Watched {
    policy: &'static dyn Policy,
    model: Option<Lock<Box<dyn PolicyModel>, Sim>>,
}

impl Watched {
    pub(super) fn new(policy: &'static dyn Policy, model: Option<fn() -> Box<dyn PolicyModel>>) -> Self {
        Self { policy, model: model.map(|model| Lock::new(model())) }
    }

    /// Checks that the G that begins is the first of its queue, that it has not waited for too long, and what the model
    /// says.
    fn check(&self, begun: &Begun) -> Result<(), String> {
        let simulation = current();
        let scheduler = simulation.scheduler.get().expect("a G runs after the scheduler is made");
        let Begun { goroutine, processor, rank, waited, .. } = *begun;
        let others = scheduler.processors_ever()[processor.get() as usize].ranked.elements();
        let comes_before = |other: &&Goroutine<Sim>| other.placed().is_some_and(|(other, _)| other < rank);
        if let Some(first) = others.iter().copied().find(comes_before) {
            return Err(format!("P{} runs goroutine {goroutine} before goroutine {}", processor.get(), first.id()));
        }
        // The bound is not meant for a machine on which Ms wait for CPUs.
        let config = simulation.config();
        let bound = self.policy.longest_wait(scheduler.num_goroutine(), SLICE);
        if let Some(bound) = bound.filter(|&bound| config.cpus > config.processors && waited > bound) {
            return Err(format!("goroutine {goroutine} has waited for {waited:?}, at most {bound:?} are allowed"));
        }
        let others: Vec<_> = others.into_iter().map(Goroutine::id).collect();
        self.model.as_ref().map_or(Ok(()), |model| model.lock().begins(begun, &others))
    }
}

impl Policy for Watched {
    fn place(&self, ready: &Ready, processors: &mut dyn Iterator<Item = ProcessorState>) -> Place {
        if let Some(model) = &self.model {
            model.lock().waits(ready);
        }
        self.policy.place(ready, processors)
    }

    fn preempts(&self, ready: u64, running: u64) -> bool {
        self.policy.preempts(ready, running)
    }

    fn steal(&self, victims: &mut dyn Iterator<Item = ProcessorState>) -> Option<Theft> {
        self.policy.steal(victims)
    }

    fn begins(&self, begun: &Begun) {
        self.policy.begins(begun);
        let allowed = self.check(begun);
        if allowed.is_err() {
            current().finish(allowed);
        }
    }

    fn longest_wait(&self, goroutines: usize, slice: Duration) -> Option<Duration> {
        self.policy.longest_wait(goroutines, slice)
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)
    }
}
