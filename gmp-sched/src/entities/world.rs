//! Whether the world stands, and who may stop it; see [`crate::engine::stop_the_world`].

use core::fmt;
use core::time::Duration;

use crate::base::atomic::AtomicBool;
use crate::base::list::List;
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::Goroutine;
use crate::platform::Platform;

/// Why the world is stopped. Go: `stwReason`.
#[doc(alias = "stwReason")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// For the number of Ps to be changed.
    Procs,
    /// For a purpose of the program's own.
    Program,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Procs => "GOMAXPROCS",
            Self::Program => "program",
        })
    }
}

/// How often the world was stopped, and how long it took at most until everything stood. Go: `/sched/pauses/stopping`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Stops so far.
    pub count: u64,
    /// The longest time from the wish to the world standing still. How long it then stood does not count.
    pub longest: Duration,
    /// What that one was for.
    pub longest_for: Option<StopReason>,
}

/// The scheduler's part in stopping the world.
pub(crate) struct World<P: Platform> {
    /// The world is to stop, or stands. Changed under the scheduler lock. Go: `gcwaiting`.
    pub(crate) stopping: AtomicBool,
    /// The world stands.
    pub(crate) stopped: AtomicBool,
    pub(crate) turns: Lock<Turns<P>, P>,
}

/// Who may stop the world. Go: `worldsema`.
pub(crate) struct Turns<P: Platform> {
    pub(crate) is_taken: bool,
    /// Those who want to be next, first come, first served.
    pub(crate) waiting: List<Goroutine<P>>,
    pub(crate) stops: Stops,
}

impl<P: Platform> World<P> {
    pub(crate) fn new() -> Self {
        Self {
            stopping: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            turns: Lock::new(Turns { is_taken: false, waiting: List::new(), stops: Stops::default() }),
        }
    }

    /// Takes the turn if it is free, and tells whether it was; if not, `me` stands in the queue for it.
    pub(crate) fn take_turn(&self, me: Option<&'static Goroutine<P>>) -> bool {
        let mut turns = self.turns.lock();
        if let Some(me) = me
            && turns.is_taken
        {
            turns.waiting.push_back(me);
        }
        !core::mem::replace(&mut turns.is_taken, true)
    }
}

impl<P: Platform> fmt::Debug for World<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("stopping", &self.stopping)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}
