//! Wrong preemptions, on which the tests of students are tried: a model of one P and its timer, and what may be wrong with it.
//! A sequence of steps finds a flaw if, after one of them, another G runs.
//!
//! The model follows `docs/policy.md`, but the global queue has no turns, and urgent Gs may run as long as they like.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::trial::Trial;

/// The unit of time is 50 us, for which a G runs undisturbed after it has displaced another one.
const UNDISTURBED: u64 = 1;

/// The length of a slice, 10 ms.
const SLICE: u64 = 200;

/// What happens. A G is called by the number of the step in which it becomes runnable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// The running G readies another one, which goes to `runnext`, and the one that was there goes to the ring. If no G
    /// runs, the readied one runs.
    Ready,
    /// The running G begins a wait, and the P picks the next one.
    Wait,
    /// An interrupt of a device readies a G, which is urgent for the length of a slice.
    Event,
    /// 50 us pass. The timer fires, if it is due.
    Moment,
    /// 5 ms pass, half a slice. The timer fires when it is due.
    HalfSlice,
    /// Another CPU stops the world, and interrupts this one. No G runs after this.
    Stop,
}

/// What may be wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flaw {
    /// No slice is ever over.
    SlicesNeverEnd,
    /// A slice is over when the timer sees it for the first time.
    EndsANewSlice,
    /// The interrupt sees that the slice is over, and the G gives way at the next one.
    GivesWayTooLate,
    /// The timer fires every ten slices.
    FiresTooRarely,
    /// A G from `runnext` begins a slice.
    RunnextBeginsASlice,
    /// A G whose slice is over goes to `runnext`.
    GoesToRunnext,
    /// A G whose slice is over goes to the urgent queue, although it is not urgent.
    GoesToTheUrgentQueue,
    /// An urgent G whose slice is over goes to the global queue.
    UrgentGoesToTheGlobalQueue,
    /// An urgent G waits until the slice is over.
    UrgentWaitsForTheSlice,
    /// An urgent G displaces the running one at once, even if the running one has just begun.
    HasNoRightToGoOn,
    /// When the time ends in which the running G must not be displaced, no timer fires.
    ForgetsTheTimer,
    /// A G that an urgent one displaces goes to the global queue.
    DisplacedGoesLast,
    /// A G that computes goes on, although the world is to stop.
    IgnoresTheWorld,
}

/// A G, and the time until which it is urgent.
#[derive(Clone, Copy, Debug)]
struct Goroutine {
    number: usize,
    urgent_until: u64,
}

#[derive(Debug, Default)]
struct Model {
    flaw: Option<Flaw>,
    now: u64,
    /// When the timer fires.
    timer: u64,
    running: Option<Goroutine>,
    urgent: VecDeque<Goroutine>,
    next: Option<Goroutine>,
    ring: VecDeque<Goroutine>,
    global: VecDeque<Goroutine>,
    /// The number of the slice.
    slice: u64,
    /// The slice that the timer saw last, and when it saw it for the first time.
    seen: u64,
    since: u64,
    /// The slice that is over.
    over: Option<u64>,
    undisturbed_until: u64,
    is_stopping: bool,
    is_stopped: bool,
}

impl Model {
    fn new(flaw: Option<Flaw>) -> Self {
        Self { flaw, timer: SLICE, ..Self::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Takes a step. Returns the number of the G that runs then.
    fn take(&mut self, step: Step, number: usize) -> Option<usize> {
        if self.is_stopped {
            return None;
        }
        match step {
            Step::Ready => {
                let goroutine = Goroutine { number, urgent_until: 0 };
                if self.running.is_some() {
                    self.put_next(goroutine);
                } else {
                    self.slice += 1;
                    self.running = Some(goroutine);
                }
            }
            Step::Wait => self.running = self.pick(false),
            Step::Event => {
                self.urgent.push_back(Goroutine { number, urgent_until: self.now + SLICE });
                self.give_way();
            }
            Step::Moment => self.pass(),
            Step::HalfSlice => (0..SLICE / 2).for_each(|_| self.pass()),
            Step::Stop => {
                self.is_stopping = !self.has(Flaw::IgnoresTheWorld);
                self.give_way();
            }
        }
        self.running.map(|goroutine| goroutine.number)
    }

    fn pass(&mut self) {
        self.now += 1;
        if self.timer <= self.now {
            self.fire();
        }
    }

    fn is_slice_over(&self) -> bool {
        self.over == Some(self.slice)
    }

    fn fire(&mut self) {
        let was_over = self.is_slice_over();
        let is_new = self.seen != self.slice;
        if is_new {
            (self.seen, self.since) = (self.slice, self.now);
        }
        let is_over = if is_new { self.has(Flaw::EndsANewSlice) } else { self.now - self.since >= SLICE };
        if is_over && !self.has(Flaw::SlicesNeverEnd) {
            self.over = Some(self.slice);
        }
        self.timer = self.now + if self.has(Flaw::FiresTooRarely) { 10 * SLICE } else { SLICE };
        if was_over || !self.is_slice_over() || !self.has(Flaw::GivesWayTooLate) {
            self.give_way();
        }
    }

    /// What the running G does at the end of an interrupt.
    fn give_way(&mut self) {
        let Some(me) = self.running else {
            self.running = self.pick(false);
            self.is_stopped = self.is_stopping;
            return;
        };
        if self.is_stopping {
            self.is_stopped = true;
            self.running = None;
        } else if self.is_slice_over() {
            self.preempt(me);
        } else if !self.urgent.is_empty() && !self.has(Flaw::UrgentWaitsForTheSlice) {
            self.displace(me);
        }
    }

    fn preempt(&mut self, me: Goroutine) {
        let is_urgent = self.now < me.urgent_until;
        self.ring.extend(self.next.take());
        (self.seen, self.since) = (self.slice + 1, self.now);
        match self.flaw {
            Some(Flaw::GoesToRunnext) => self.next = Some(me),
            Some(Flaw::GoesToTheUrgentQueue) => self.urgent.push_back(me),
            _ if is_urgent && !self.has(Flaw::UrgentGoesToTheGlobalQueue) => self.urgent.push_back(me),
            _ => self.global.push_back(me),
        }
        self.running = self.pick(is_urgent);
        if is_urgent && !self.urgent.is_empty() {
            self.undisturbed_until = self.now + UNDISTURBED;
            self.arm();
        }
    }

    fn displace(&mut self, me: Goroutine) {
        if self.undisturbed_until <= self.now || self.has(Flaw::HasNoRightToGoOn) {
            self.undisturbed_until = self.now + UNDISTURBED;
            self.running = self.urgent.pop_front();
            if self.has(Flaw::DisplacedGoesLast) {
                self.global.push_back(me);
            } else {
                self.put_next(me);
            }
        }
        self.arm();
    }

    /// If an urgent G waits, the timer fires when the running one has no right to go on any more.
    fn arm(&mut self) {
        if !self.urgent.is_empty() && !self.has(Flaw::ForgetsTheTimer) {
            self.timer = self.timer.min(self.undisturbed_until);
        }
    }

    fn put_next(&mut self, goroutine: Goroutine) {
        let kicked = self.next.replace(goroutine);
        self.ring.extend(kicked);
    }

    /// Picks the next G. After the slice of an urgent G, a G that is not urgent comes first, if there is one.
    fn pick(&mut self, others_first: bool) -> Option<Goroutine> {
        let others_wait = self.next.is_some() || !self.ring.is_empty() || !self.global.is_empty();
        if !(others_first && others_wait)
            && let Some(urgent) = self.urgent.pop_front()
        {
            self.slice += u64::from(self.is_slice_over());
            return Some(urgent);
        }
        if let Some(next) = self.next.take() {
            self.slice += u64::from(self.is_slice_over() || self.has(Flaw::RunnextBeginsASlice));
            return Some(next);
        }
        let found = self.ring.pop_front().or_else(|| self.global.pop_front());
        self.slice += u64::from(found.is_some());
        found
    }
}

impl Trial for &[Step] {
    type Flaw = Flaw;
    /// Which G runs after each step.
    type Seen = Vec<Option<usize>>;

    const FLAWS: &'static [&'static [Flaw]] = &[
        &[
            Flaw::SlicesNeverEnd,
            Flaw::EndsANewSlice,
            Flaw::GivesWayTooLate,
            Flaw::FiresTooRarely,
            Flaw::RunnextBeginsASlice,
            Flaw::GoesToRunnext,
            Flaw::GoesToTheUrgentQueue,
        ],
        &[
            Flaw::UrgentGoesToTheGlobalQueue,
            Flaw::UrgentWaitsForTheSlice,
            Flaw::HasNoRightToGoOn,
            Flaw::ForgetsTheTimer,
            Flaw::DisplacedGoesLast,
            Flaw::IgnoresTheWorld,
        ],
    ];
    const LIMIT: &'static str = "at most nine steps";

    fn is_small(&self) -> bool {
        self.len() <= 9
    }

    fn run(&self, flaw: Option<Flaw>) -> Self::Seen {
        let mut model = Model::new(flaw);
        self.iter().enumerate().map(|(number, step)| model.take(*step, number)).collect()
    }
}
