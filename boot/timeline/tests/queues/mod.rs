//! A model of the run queues, to which the events of a trace are applied. `tests/page` compares the model with the
//! queues that the HTML page of the timeline shows. The model shares no code with that page, so that an error of the
//! page is not repeated here.

use std::collections::VecDeque;

use gmp_sched::trace::{EventKind, PreemptReason, Track};
use timeline::{Cause, Entry, Trace};

/// The queues of one P, and the G that runs there. Gs are indices in [`Trace::goroutines`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    pub(crate) next: Option<usize>,
    pub(crate) ring: VecDeque<usize>,
    pub(crate) runs: Option<usize>,
}

/// All run queues.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    pub(crate) processors: Vec<Local>,
    pub(crate) global: VecDeque<usize>,
}

impl Queues {
    /// Makes the queues before the first event.
    pub(crate) fn new(trace: &Trace) -> Self {
        Self { processors: vec![Local::default(); trace.processors() as usize], global: VecDeque::new() }
    }

    /// Applies one event.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        let on = match entry.track {
            Track::Cpu(_) => return,
            Track::Outside => None,
            Track::Processor(number) => Some(number as usize),
        };
        match (entry.kind, on, entry.goroutine) {
            (EventKind::Spawn | EventKind::Ready | EventKind::SyscallReturn, _, Some(g)) => {
                self.remove(g);
                match on {
                    None => self.global.push_back(g),
                    // If a due timer readies a G, the M that has found the timer runs the G at once. So this G waits in
                    // no queue.
                    Some(_) if entry.cause == Cause::Timer => {}
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
                self.processors[on].ring.push_back(g);
            }
            (EventKind::Preempt, Some(on), Some(g)) => {
                self.processors[on].runs = None;
                // A G whose slice is over goes to the global queue. The event `GlobalPut` records that.
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
                self.global.push_back(g);
            }
            (EventKind::GlobalTake, Some(on), Some(g)) => {
                self.remove(g);
                let taken = (entry.detail as usize - 1).min(self.global.len());
                self.processors[on].ring.extend(self.global.drain(..taken));
            }
            (EventKind::Overflow, Some(on), _) => {
                let ring = &mut self.processors[on].ring;
                let moved = (entry.detail as usize).min(ring.len());
                self.global.extend(ring.drain(..moved));
            }
            (EventKind::Steal, Some(on), Some(g)) => {
                self.remove(g);
                let (victim, count) = (entry.detail as u32 as usize, (entry.detail >> 32) as usize);
                let ring = &mut self.processors[victim].ring;
                let stolen: Vec<_> = ring.drain(..(count - 1).min(ring.len())).collect();
                self.processors[on].ring.extend(stolen);
            }
            _ => {}
        }
    }

    /// Puts a G into `runnext`. The G that was there goes to the tail of the ring.
    fn put_next(&mut self, on: usize, g: usize) {
        let local = &mut self.processors[on];
        local.ring.extend(local.next.replace(g));
    }

    /// Removes a G from the queue that contains it.
    fn remove(&mut self, g: usize) {
        self.global.retain(|&other| other != g);
        for local in &mut self.processors {
            local.next = local.next.filter(|&other| other != g);
            local.ring.retain(|&other| other != g);
        }
    }
}
