//! Whether the world is stopped, and which G may stop it; see [`crate::refinements::stop_the_world`].

use core::fmt;
use core::time::Duration;

use crate::base::atomic::AtomicBool;
use crate::base::list::{Linked, List};
use crate::base::points::Points;
use crate::base::spin_lock::Lock;

/// A reason to stop the world. Go: `stwReason`.
#[doc(alias = "stwReason")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// To change the number of Ps.
    Procs,
    /// The program requested the stop.
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

/// The number of stops of the world, and the longest time that a stop took. Go: `/sched/pauses/stopping`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Number of stops so far.
    pub count: u64,
    /// The longest time from the request until all Ps had stopped. The time during which the Ps stayed stopped
    /// does not count.
    pub longest: Duration,
    /// The reason for the stop that took longest; `None` before the first stop.
    pub longest_for: Option<StopReason>,
}

/// Whether the world is stopped, and the queue of the Gs of type `T` that wait to stop it.
pub(crate) struct WorldStop<T: Linked, S: Points> {
    /// Whether the world is being stopped or is stopped. Changed under the scheduler lock. Go: `gcwaiting`.
    pub(crate) stopping: AtomicBool,
    /// Whether the world is stopped.
    pub(crate) stopped: AtomicBool,
    pub(crate) queue: Lock<StopQueue<T>, S>,
}

/// The right to stop the world, and the queue of Gs that wait for it. Go: `worldsema`.
pub(crate) struct StopQueue<T: Linked> {
    pub(crate) is_taken: bool,
    /// The Gs that wait for the right to stop the world, in FIFO order.
    pub(crate) waiting: List<T>,
    pub(crate) stops: Stops,
}

impl<T: Linked, S: Points> WorldStop<T, S> {
    pub(crate) fn new() -> Self {
        Self {
            stopping: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            queue: Lock::new(StopQueue { is_taken: false, waiting: List::new(), stops: Stops::default() }),
        }
    }

    /// If the right to stop the world is free, takes it and returns `true`. If another G has the right, appends `me`,
    /// if given, to the queue and returns `false`.
    pub(crate) fn acquire(&self, me: Option<&'static T>) -> bool {
        let mut queue = self.queue.lock();
        if let Some(me) = me
            && queue.is_taken
        {
            queue.waiting.push_back(me);
        }
        !core::mem::replace(&mut queue.is_taken, true)
    }
}

impl<T: Linked, S: Points> fmt::Debug for WorldStop<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorldStop")
            .field("stopping", &self.stopping)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}
