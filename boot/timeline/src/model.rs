//! What a trace shows: when each G ran and where, why it waited, and who readied it. The file `replay` finds this out.

use std::fmt;

use gmp_sched::goroutine::WaitReason;
use gmp_sched::trace::Track;

use crate::Cause;
pub use crate::arrows::{Arrow, ArrowKind};
use crate::cpus::{CpuSlice, InterruptSlice};

/// What a P does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The P runs the G with this index.
    Run(usize),
    /// The G with this index is in a system call, and the P has not been taken from its M.
    Syscall(usize),
    /// The M of the P picks the next G.
    Schedule,
    /// The M of the P searches the other Ps for work.
    Search,
    /// No M holds the P.
    Idle,
    /// The P is stopped, because the world is stopped.
    Stopped,
}

impl Activity {
    /// Returns the word for activities of this kind.
    #[must_use]
    pub fn category(self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Syscall(_) => "syscall",
            Self::Schedule => "schedule",
            Self::Search => "search",
            Self::Idle => "idle",
            Self::Stopped => "stopped",
        }
    }
}

/// A period in which a P did one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The P.
    pub processor: u32,
    /// The M that held the P, if known.
    pub machine: Option<u64>,
    /// What the P did.
    pub activity: Activity,
    /// When the period began, in nanoseconds.
    pub from: u64,
    /// When the period ended.
    pub to: u64,
    /// Why the period ended.
    pub end: End,
    /// If a G began to run in this period, how that G had become runnable. `None` if this is unknown, or if no G began
    /// to run.
    pub readied: Option<Readied>,
    /// The P on which the G of this period ran last, if that was another P: the G has migrated from there.
    pub migrated_from: Option<u32>,
}

/// Why a period of a P ended. `Display` describes the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The trace ended during the period.
    Trace,
    /// The G parked.
    Parks(WaitReason),
    /// The reason that these words describe.
    Other(&'static str),
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace => formatter.write_str("the trace ends"),
            Self::Parks(reason) => write!(formatter, "parks: {reason}"),
            Self::Other(words) => formatter.write_str(words),
        }
    }
}

/// How a G became runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readied {
    /// When the G became runnable, in nanoseconds.
    pub at: u64,
    /// The track on which the G became runnable, if known.
    pub track: Option<Track>,
    /// Why the G became runnable. `None` if the G gave way, and so stayed runnable.
    pub cause: Option<Cause>,
}

/// A period in which an M was blocked in a system call and held no P.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The M.
    pub machine: u64,
    /// The G in the call.
    pub goroutine: usize,
    /// When the M lost its P.
    pub from: u64,
    /// When the call or the trace ended.
    pub to: u64,
}

/// A wait of a G.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The G.
    pub goroutine: usize,
    /// When the G parked.
    pub from: u64,
    /// When the G was readied.
    pub to: u64,
    /// Why the G waited.
    pub reason: WaitReason,
    /// What ended the wait.
    pub cause: Cause,
}

/// How many Gs run and how many are runnable, how many Ps are idle, and how many Ms spin, from a point in time until
/// the next change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The point in time from which these numbers are valid, in nanoseconds.
    pub when: u64,
    /// Gs that run.
    pub running: usize,
    /// Gs that are runnable.
    pub runnable: usize,
    /// Ps without an M.
    pub idle: usize,
    /// Ms that spin, which means that they search the other Ps for work.
    pub spinning: usize,
}

/// The length of a run queue, from a point in time until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLength {
    /// The point in time from which this length is valid, in nanoseconds.
    pub when: u64,
    /// The P of the queue, or `None` for the global queue.
    pub processor: Option<u32>,
    /// The number of Gs in the queue, including the G in `runnext`.
    pub length: usize,
}

/// The result of replaying a trace: what the Ps, Ms, Gs and CPUs did.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// What the Ps did, in the order in which the periods ended.
    pub slices: Vec<Slice>,
    /// The periods in which Ms were blocked.
    pub blocked: Vec<Blocked>,
    /// Waits that ended.
    pub waits: Vec<Wait>,
    /// Arrows.
    pub arrows: Vec<Arrow>,
    /// The periods in which the CPUs ran threads.
    pub cpus: Vec<CpuSlice>,
    /// The interrupts that the CPUs took.
    pub interrupts: Vec<InterruptSlice>,
    /// Numbers of Gs, Ps and Ms. There is an entry for each point in time at which they change.
    pub numbers: Vec<Numbers>,
    /// The lengths of the run queues. There is an entry for each change.
    pub queue_lengths: Vec<QueueLength>,
}
