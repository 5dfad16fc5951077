//! Sums up the events of a profile by call stack.

use std::collections::{BTreeMap, HashMap};

use gmp_sched::goroutine::{GoroutineId, WaitReason};
use gmp_sched::trace::{Track, TrackTrace};

use crate::events::{Step, Unlocked, What, steps};

/// A call stack: addresses in the program, innermost first. Empty if it was lost.
pub type Stack = Vec<u64>;

/// What was counted for one call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Where the wait began, where the unlock was, or what ran when the timer interrupted, depending on the profile.
    pub stack: Stack,
    /// Why the G waited, in a profile of waits.
    pub reason: Option<WaitReason>,
    /// The number of waits, unlocks or interrupts.
    pub count: u64,
    /// The time of these events, in nanoseconds.
    pub nanoseconds: u64,
}

/// The three profiles of one recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// For how long Gs waited, by the call stack that led to the wait. A wait begins when the G parks and ends when the
    /// G becomes runnable, as in Go. Waits that had not ended when the recording ended are left out.
    pub block: Vec<Sample>,
    /// For how long Gs waited for locks, by the call stack of the *unlock* that ended the wait, as in Go. If more Gs
    /// wait for the same lock at that time, the unlock is also charged with the time for which they have waited since
    /// the previous unlock.
    pub mutex: Vec<Sample>,
    /// What ran when the timer interrupted a CPU. The time of a sample is the time for which the CPU was busy since the
    /// CPU's previous sample.
    pub cpu: Vec<Sample>,
    /// How many CPUs were recorded; 0 if the Ms are threads of the host.
    pub cpus: usize,
    /// How many Gs were waiting when the recording ended.
    pub waiting: u64,
    /// How many events were lost.
    pub lost: u64,
    /// For how long events were recorded, in nanoseconds.
    pub duration: u64,
}

impl Profile {
    /// Sums up the events of all tracks, which [`Scheduler::traces`](gmp_sched::scheduler::Scheduler::traces) returns
    /// after a profile was recorded.
    #[must_use]
    pub fn new(traces: &[TrackTrace]) -> Self {
        let steps = steps(traces);
        let mut replay = Replay::default();
        for step in &steps {
            replay.step(step);
        }
        let times = || traces.iter().flat_map(|trace| &trace.events).map(|event| event.when.as_nanos());
        Self {
            block: replay.block.into_samples(),
            mutex: replay.mutex.into_samples(),
            cpu: replay.cpu.into_samples(),
            cpus: traces.iter().filter(|trace| matches!(trace.track, Track::Cpu(_))).count(),
            waiting: replay.waiting.len() as u64,
            lost: traces.iter().map(|trace| trace.lost).fold(0, u64::saturating_add),
            duration: times().max().unwrap_or(0) - times().min().unwrap_or(0),
        }
    }
}

/// Sums by call stack and wait reason.
#[derive(Default)]
struct Sums(BTreeMap<(Stack, Option<u8>), (u64, u64)>);

impl Sums {
    fn add(&mut self, stack: &[u64], reason: Option<WaitReason>, nanoseconds: u64) {
        let (count, sum) = self.0.entry((stack.to_vec(), reason.map(|reason| reason as u8))).or_default();
        *count += 1;
        *sum = sum.saturating_add(nanoseconds);
    }

    /// Returns the sums, with the longest time first.
    fn into_samples(self) -> Vec<Sample> {
        let sample = |((stack, reason), (count, nanoseconds)): ((Stack, Option<u8>), (u64, u64))| Sample {
            stack,
            reason: reason.map(WaitReason::of_number),
            count,
            nanoseconds,
        };
        let mut samples: Vec<_> = self.0.into_iter().map(sample).collect();
        samples.sort_by_key(|sample| core::cmp::Reverse(sample.nanoseconds));
        samples
    }
}

/// A G that waits.
struct Waiting {
    since: u64,
    reason: WaitReason,
    stack: Stack,
    lock: Option<u64>,
}

/// The Gs that wait for a lock. Time that was charged to an unlock is not charged again, so the uncharged time of each
/// G begins with its wait or at the last charge, whichever is later. Only the sum of these beginnings is kept, so that
/// an unlock takes constant time, however many Gs wait.
#[derive(Default)]
struct Queue {
    count: u64,
    /// The sum of the times at which the uncharged time of each G begins.
    begins: u128,
    /// The time of the last unlock that was charged.
    charged: u64,
}

impl Queue {
    fn join(&mut self, when: u64) {
        self.count += 1;
        self.begins += u128::from(when);
    }

    /// Removes a G that has waited since `since`.
    fn leave(&mut self, since: u64) {
        self.count -= 1;
        self.begins -= u128::from(since.max(self.charged));
    }

    /// Returns the sum of the times of all Gs that are not charged yet, up to `when`, and marks them as charged.
    fn charge(&mut self, when: u64) -> u64 {
        let ends = u128::from(self.count) * u128::from(when);
        let uncharged = ends - self.begins;
        (self.begins, self.charged) = (ends, when);
        u64::try_from(uncharged).unwrap_or(u64::MAX)
    }
}

/// The busy time of a CPU since its last sample.
#[derive(Default)]
struct Cpu {
    /// The beginning of the busy time that no sample contains yet. This is the end of the last halt or the time of the
    /// last sample, whichever is later. `None` while the CPU halts, and before the first event that says which thread
    /// the CPU runs.
    busy_since: Option<u64>,
    /// The busy time between the last sample and the beginning of the last halt.
    before: u64,
}

#[derive(Default)]
struct Replay {
    waiting: HashMap<GoroutineId, Waiting>,
    /// The Gs that wait for each lock.
    queues: HashMap<u64, Queue>,
    cpus: HashMap<u32, Cpu>,
    block: Sums,
    mutex: Sums,
    cpu: Sums,
}

impl Replay {
    fn step(&mut self, step: &Step) {
        let when = step.when;
        match &step.what {
            What::Park { goroutine, reason, stack, lock } => {
                // If an earlier wait of this G has not ended here, the event that ended it was lost. The length of that
                // wait is unknown, so the wait is dropped.
                self.leave(*goroutine);
                if let Some(lock) = lock {
                    self.queues.entry(*lock).or_default().join(when);
                }
                let waiting = Waiting { since: when, reason: *reason, stack: stack.clone(), lock: *lock };
                self.waiting.insert(*goroutine, waiting);
            }
            What::Ready { goroutine, unlocked } => self.ready(when, *goroutine, unlocked.as_ref()),
            What::Runs { cpu } => {
                self.cpus.entry(*cpu).or_default().busy_since.get_or_insert(when);
            }
            What::Halts { cpu } => {
                let cpu = self.cpus.entry(*cpu).or_default();
                cpu.before += cpu.busy_since.take().map_or(0, |since| when - since);
            }
            What::Timer { cpu, stack } => {
                let cpu = self.cpus.entry(*cpu).or_default();
                if let Some(since) = cpu.busy_since.replace(when) {
                    self.cpu.add(stack, None, core::mem::take(&mut cpu.before) + (when - since));
                } else {
                    // The CPU was halted when the interrupt came, and still runs no thread.
                    cpu.busy_since = None;
                }
            }
        }
    }

    fn ready(&mut self, when: u64, goroutine: GoroutineId, unlocked: Option<&Unlocked>) {
        if let Some(unlocked) = unlocked {
            self.charge(when, unlocked);
        }
        if let Some(waiting) = self.leave(goroutine) {
            self.block.add(&waiting.stack, Some(waiting.reason), when - waiting.since);
        }
    }

    /// Charges an unlock with the sum of the times for which Gs have waited for its lock. Time that was charged to an
    /// earlier unlock is not charged again. Go estimates the sum from the longest and the shortest of the waits
    /// (`semrelease1`).
    fn charge(&mut self, when: u64, unlocked: &Unlocked) {
        let sum = self.queues.get_mut(&unlocked.lock).map_or(0, |queue| queue.charge(when));
        self.mutex.add(&unlocked.stack, None, sum);
    }

    /// Ends the wait of a G, and returns what is known about the wait. Returns `None` if the G does not wait.
    fn leave(&mut self, goroutine: GoroutineId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&goroutine)?;
        if let Some(queue) = waiting.lock.and_then(|lock| self.queues.get_mut(&lock)) {
            queue.leave(waiting.since);
        }
        Some(waiting)
    }
}
