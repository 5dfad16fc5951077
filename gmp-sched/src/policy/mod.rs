//! The scheduling policy of a program: in which order runnable Gs run, on which P, and when a running G is
//! preempted.
//!
//! Without a policy, Go's rules apply (`docs/policy.md`). A program that installs a policy replaces these rules. The
//! policy decides, and the scheduler stores: each P has a queue of runnable Gs, ordered by their *ranks*. The policy
//! gives each G a rank when it becomes runnable; the P runs the G with the lowest rank first, and among equal ranks the
//! one that came first (in any order if they came in the same nanosecond). A policy never holds a G, so it cannot lose one.
//!
//! | the scheduler asks | when |
//! |---|---|
//! | [`place`](Policy::place) | a G becomes runnable, and a G that ran has to wait again |
//! | [`preempts`](Policy::preempts) | a G has been placed on a P that runs another one |
//! | [`steal`](Policy::steal) | a P has nothing to run, and Gs wait on other Ps |
//!
//! These are the rules that hold for every policy:
//!
//! - A P runs the first G of its queue. No P stays idle while a G waits, whatever [`steal`](Policy::steal) returns.
//! - A G that has run for a slice ([`Platform::slice`](crate::platform::Platform::slice)) is placed again. It runs on if
//!   it is the first one still. A G that is preempted earlier continues its slice when it runs again.
//! - A G that is locked to its M waits in a list of its own, and the G that frees the memory of caches runs when there
//!   is nothing else to run, as with Go's rules.
//!
//! Two policies are in this module: [`PriorityAging`] and [`EarliestDeadline`]. Each takes one number from a G, its
//! [parameter](crate::by_policy::set_parameter). `docs/manual/policies.md` is a guide with an example.

mod earliest_deadline;
mod priority_aging;

use core::fmt;
use core::time::Duration;

pub use crate::base::id::{GoroutineId, ProcessorId};
pub use crate::base::instant::Instant;
pub use earliest_deadline::EarliestDeadline;
pub use priority_aging::PriorityAging;

/// A scheduling policy. The [module](self) describes when each function is called.
///
/// The functions are called while preemption is off, by several Ms at once. They must be short and must not call the
/// scheduler, allocate, wait or panic.
pub trait Policy: Sync + fmt::Debug {
    /// Returns where `ready`, which has to wait now, waits. `processors` are all Ps in use.
    fn place(&self, ready: &Ready, processors: &mut dyn Iterator<Item = ProcessorState>) -> Place;

    /// Whether the running G, which has the rank `running`, gives way at once to a G with the rank `ready` that has been
    /// placed on the same P.
    fn preempts(&self, ready: u64, running: u64) -> bool {
        ready < running
    }

    /// Returns from which P, and how many Gs, a P takes that has nothing to run. `victims` are the Ps on which a G
    /// waits, in random order. The thief runs the first of the Gs at once. If the answer is `None`, or if the Gs are
    /// gone, the thief takes one G from any P.
    fn steal(&self, victims: &mut dyn Iterator<Item = ProcessorState>) -> Option<Theft> {
        victims.next().map(|victim| Theft { from: victim.id, count: victim.waiting.div_ceil(2) })
    }

    /// Called when a P begins to run a G that has waited. For policies and tests that follow what runs.
    fn begins(&self, _begun: &Begun) {}

    /// The longest time for which a G waits while `goroutines` Gs are alive, if each M has a CPU of its own and a slice
    /// lasts for `slice`. `None` if a G may wait for any time. The simulator checks the answer.
    fn longest_wait(&self, _goroutines: usize, _slice: Duration) -> Option<Duration> {
        None
    }
}

/// A G that has to wait for a P.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The id of the G.
    pub goroutine: GoroutineId,
    /// Why it has to wait.
    pub cause: Cause,
    /// The number that the program has given to the G; 0 if none. See [`set_parameter`](crate::by_policy::set_parameter).
    pub parameter: u64,
    /// The rank with which the G waited last; 0 if it never did.
    pub rank: u64,
    /// The P of the M that places the G.
    pub processor: ProcessorId,
    /// The current time.
    pub now: Instant,
}

/// Why a G has to wait for a P.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is new.
    Spawned,
    /// Its wait is over: a G or a thread has readied it, or its system call has ended and there is no P.
    Readied,
    /// Its wait is over because of a timer, a device or the end of a blocking call.
    Event,
    /// It yields, so that others run first.
    Yielded,
    /// It has run for a slice.
    SliceOver,
    /// It has been preempted before its slice was over.
    Displaced,
}

/// Where a G waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Gs with lower ranks run first.
    pub rank: u64,
    /// The P in whose queue the G waits. If no P has this number, the G waits in the queue of the P whose M places the
    /// G.
    pub processor: ProcessorId,
}

/// A P, as a policy sees it. Other Ms change the P at the same time.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorState {
    /// The number of the P.
    pub id: ProcessorId,
    /// How many Gs wait in its queue.
    pub waiting: usize,
    /// The rank of the first G in its queue. If none waits, the highest rank.
    pub first: u64,
    /// The rank of the G that it runs. `None` if it runs none that has waited in a queue.
    pub running: Option<u64>,
}

/// What a thief takes.
#[derive(Clone, Copy, Debug)]
pub struct Theft {
    /// The P from whose queue it takes Gs.
    pub from: ProcessorId,
    /// How many Gs it takes. Those with the lowest ranks are taken.
    pub count: usize,
}

/// A G that begins to run.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// The id of the G.
    pub goroutine: GoroutineId,
    /// The P that runs it.
    pub processor: ProcessorId,
    /// The rank with which it waited.
    pub rank: u64,
    /// How long it has waited.
    pub waited: Duration,
    /// The current time.
    pub now: Instant,
}
