//! The run queues, to which the events of a trace are applied.
//!
//! The page has queues of its own in `page/state.js`. The tests compare the queues of the page with those of this
//! module. They also compare the length of one P's ring in this module with that in the scheduler.

use std::collections::VecDeque;

use gmp_sched::trace::{EventKind, PreemptReason, Track};

use crate::{Cause, Entry, Trace};

/// The queues of one P, and the G that runs there. Gs are indices in [`Trace::goroutines`].
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// The G in `runnext`.
    pub next: Option<usize>,
    /// The other Gs of the P's queue, the first one first.
    pub ring: VecDeque<usize>,
    /// The G that runs.
    pub runs: Option<usize>,
}

impl Local {
    /// Returns the number of Gs that wait in the queues of the P.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ring.len() + usize::from(self.next.is_some())
    }
}

/// In which queue a G is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Local(usize),
    Global,
    Locked,
}

/// All run queues.
#[derive(Clone, Debug)]
pub struct Queues {
    /// The queues of each P.
    pub processors: Vec<Local>,
    /// The global queue, the first G first.
    pub global: VecDeque<usize>,
    /// The runnable Gs that are locked to their Ms, the first one first.
    pub locked: VecDeque<usize>,
    /// Whether each G is locked to its M.
    is_locked: Vec<bool>,
    /// The place of each G.
    places: Vec<Place>,
}

impl Queues {
    /// Makes the queues before the first event.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        Self {
            processors: vec![Local::default(); trace.processors() as usize],
            global: VecDeque::new(),
            locked: VecDeque::new(),
            is_locked: vec![false; trace.goroutines().len()],
            places: vec![Place::Nowhere; trace.goroutines().len()],
        }
    }

    /// Returns the Gs that the steal `entry`, which has not been applied, takes from another P.
    #[must_use]
    pub fn stolen(&self, entry: &Entry) -> Vec<usize> {
        let (victim, count) = (entry.detail as u32 as usize, (entry.detail >> 32) as usize);
        let ring = self.processors.get(victim).map(|local| local.ring.iter());
        // The thief runs the last stolen G, which the event names. This G may be the one that was in `runnext`.
        let others = ring.into_iter().flatten().copied().filter(|&g| Some(g) != entry.goroutine);
        others.take(count.saturating_sub(1)).chain(entry.goroutine).collect()
    }

    /// Applies one event.
    pub fn apply(&mut self, entry: &Entry) {
        let on = match entry.track {
            Track::Cpu(_) => return,
            Track::Outside => None,
            Track::Processor(number) => Some(number as usize),
        };
        match (entry.kind, on, entry.goroutine) {
            (EventKind::Spawn | EventKind::Ready | EventKind::SyscallReturn, _, Some(g)) => {
                self.remove(g);
                match on {
                    None => self.put_global(g),
                    // A G that a timer or a device readies runs at once, or waits in the urgent queue, which this
                    // module does not replay.
                    Some(_) if matches!(entry.cause, Cause::Timer | Cause::Device) => {}
                    Some(on) => self.put_next(on, g),
                }
            }
            (EventKind::Start | EventKind::SyscallExit, Some(on), Some(g)) => {
                self.remove(g);
                self.processors[on].runs = Some(g);
            }
            (EventKind::Switch, Some(on), _) => self.processors[on].runs = Some(entry.detail as usize),
            (EventKind::Yield, Some(on), Some(g)) => {
                self.processors[on].runs = None;
                self.put_local(on, g);
            }
            (EventKind::Preempt, Some(on), Some(g)) => {
                self.processors[on].runs = None;
                // A G whose slice is over goes to the global queue or, if it is urgent, to the urgent queue. The next
                // event records that.
                if entry.detail != PreemptReason::Slice as u64 {
                    self.put_next(on, g);
                }
            }
            (EventKind::SyscallEnter, Some(on), Some(g)) => self.processors[on].runs = Some(g),
            (EventKind::Park | EventKind::End | EventKind::HandOff | EventKind::Retake, Some(on), _)
            | (EventKind::Idle | EventKind::Stop | EventKind::Busy | EventKind::Spin, Some(on), _) => {
                self.processors[on].runs = None;
            }
            (EventKind::GlobalPut, _, Some(g)) => {
                self.remove(g);
                self.put_global(g);
            }
            (EventKind::GlobalTake, Some(on), Some(g)) => {
                self.remove(g);
                let taken = (entry.detail as usize).saturating_sub(1).min(self.global.len());
                let taken: Vec<_> = self.global.drain(..taken).collect();
                taken.into_iter().for_each(|g| self.put_local(on, g));
            }
            (EventKind::Retire, Some(on), _) => {
                let Local { next, ring, .. } = std::mem::take(&mut self.processors[on]);
                let moved = next.into_iter().chain(ring).inspect(|&g| self.places[g] = Place::Global);
                let moved: VecDeque<_> = moved.chain(std::mem::take(&mut self.global)).collect();
                self.global = moved;
            }
            (EventKind::Kick, Some(on), Some(g)) => {
                self.remove(g);
                self.put_local(on, g);
            }
            (EventKind::UrgentPut, _, Some(g)) => self.remove(g),
            (EventKind::LockThread, _, Some(g)) => self.is_locked[g] = true,
            (EventKind::UnlockThread, _, Some(g)) => self.is_locked[g] = false,
            (EventKind::Overflow, Some(on), _) => {
                let ring = &mut self.processors[on].ring;
                let moved = (entry.detail as usize).min(ring.len());
                let moved: Vec<_> = ring.drain(..moved).collect();
                moved.into_iter().for_each(|g| self.put_global(g));
            }
            (EventKind::Steal, Some(on), Some(g)) => {
                for stolen in self.stolen(entry) {
                    self.remove(stolen);
                    if stolen != g {
                        self.put_local(on, stolen);
                    }
                }
            }
            _ => {}
        }
    }

    // A G that is locked to its M goes to no queue of a P and not to the global queue, but to the list of locked Gs.

    fn put_local(&mut self, on: usize, g: usize) {
        if self.is_locked[g] {
            return self.put_locked(g);
        }
        self.places[g] = Place::Local(on);
        self.processors[on].ring.push_back(g);
    }

    fn put_locked(&mut self, g: usize) {
        self.remove(g);
        self.places[g] = Place::Locked;
        self.locked.push_back(g);
    }

    fn put_global(&mut self, g: usize) {
        if self.is_locked[g] {
            return self.put_locked(g);
        }
        self.places[g] = Place::Global;
        self.global.push_back(g);
    }

    /// Puts a G into `runnext`. The G that was there goes to the tail of the ring.
    fn put_next(&mut self, on: usize, g: usize) {
        if self.is_locked[g] {
            return self.put_locked(g);
        }
        self.places[g] = Place::Local(on);
        let local = &mut self.processors[on];
        local.ring.extend(local.next.replace(g));
    }

    /// Removes a G from the queue that contains it.
    fn remove(&mut self, g: usize) {
        let take = |queue: &mut VecDeque<usize>| {
            queue.iter().position(|&other| other == g).map(|index| queue.remove(index));
        };
        match std::mem::replace(&mut self.places[g], Place::Nowhere) {
            Place::Nowhere => {}
            Place::Global => take(&mut self.global),
            Place::Locked => take(&mut self.locked),
            Place::Local(on) if self.processors[on].next == Some(g) => self.processors[on].next = None,
            Place::Local(on) => take(&mut self.processors[on].ring),
        }
    }
}
