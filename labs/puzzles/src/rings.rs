//! Wrong rings, on which the tests of students are tried: a model of a run queue, and models with one flaw each. A sequence of
//! steps finds a flaw if one of its steps has different results in the right model and in the model with the flaw.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use gmp_sched::run_queue::Slice;

use crate::trial::Trial;

/// The capacity of these rings.
pub const CAPACITY: usize = 4;

/// What one does with a run queue. The elements are numbers. A step that pushes takes those from [`first_element`] on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Puts an element into `runnext`.
    PushNext,
    /// Appends an element to the ring.
    PushBack,
    /// Appends three elements at once, or as many as fit.
    PushBackAll,
    /// Takes the next element.
    Pop,
    /// Takes the older half of a full ring.
    DrainHalf,
    /// A thief takes the half, rounded up.
    Steal,
}

/// What a step gives, of the queue or of the model.
#[derive(Debug, Eq, PartialEq)]
pub enum Given {
    /// By [`Step::PushNext`]: what was in `runnext`.
    Kicked(Option<usize>),
    /// By [`Step::PushBack`]: whether the ring is full.
    IsFull(bool),
    /// By [`Step::PushBackAll`]: how many were appended.
    Appended(usize),
    /// By [`Step::Pop`].
    Popped(Option<(usize, Slice)>),
    /// By [`Step::DrainHalf`].
    Drained(Option<Vec<usize>>),
    /// By [`Step::Steal`].
    Stolen(Vec<usize>),
}

/// What may be wrong with a ring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flaw {
    /// A pop takes the newest element of the ring.
    PopsTheNewest,
    /// A pop takes the element in `runnext` only if the ring is empty.
    RunnextComesLast,
    /// The element in `runnext` begins a slice of its own.
    RunnextGetsASlice,
    /// `PushNext` forgets the element that was in `runnext`.
    ForgetsWhoWasNext,
    /// The ring is full when one place is free.
    IsFullTooEarly,
    /// A push to a full ring overwrites its oldest element.
    OverwritesTheOldest,
    /// Of three elements of which not all fit, none is appended.
    AllOrNothing,
    /// A drain of a ring that is not full takes elements, too.
    DrainsAlways,
    /// A full ring gives its newer half.
    DrainsTheNewerHalf,
    /// A thief takes the half, rounded down.
    RoundsDown,
    /// A thief takes the newest elements.
    StealsTheNewest,
    /// A thief that finds the ring empty takes the element in `runnext`.
    StealsRunnext,
}

/// The model of a run queue: the element in `runnext`, and a FIFO.
#[derive(Debug)]
pub struct Model {
    next: Option<usize>,
    ring: VecDeque<usize>,
    capacity: usize,
    flaw: Option<Flaw>,
}

impl Model {
    /// An empty queue, perhaps with a flaw.
    #[must_use]
    pub fn new(capacity: usize, flaw: Option<Flaw>) -> Self {
        Self { next: None, ring: VecDeque::new(), capacity, flaw }
    }

    /// The number of elements in the ring.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether the ring has no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn push_back(&mut self, number: usize) -> bool {
        if self.has(Flaw::OverwritesTheOldest) && self.ring.len() == self.capacity {
            self.ring.pop_front();
        }
        let fits = self.ring.len() + usize::from(self.has(Flaw::IsFullTooEarly)) < self.capacity;
        if fits {
            self.ring.push_back(number);
        }
        fits
    }

    fn pop(&mut self) -> Option<(usize, Slice)> {
        let inherited = if self.has(Flaw::RunnextGetsASlice) { Slice::New } else { Slice::Inherited };
        let waits = self.has(Flaw::RunnextComesLast) && !self.ring.is_empty();
        if let Some(next) = self.next.take_if(|_| !waits) {
            return Some((next, inherited));
        }
        let popped = if self.has(Flaw::PopsTheNewest) { self.ring.pop_back() } else { self.ring.pop_front() };
        popped.map(|first| (first, Slice::New))
    }

    /// Takes `count` elements, the newest ones or the oldest ones, in their order.
    fn drain(&mut self, count: usize, newest: bool) -> Vec<usize> {
        let from = if newest { self.ring.len() - count } else { 0 };
        self.ring.drain(from..from + count).collect()
    }

    /// Takes `step`, whose first element is `number`.
    pub fn take(&mut self, step: Step, number: usize) -> Given {
        match step {
            Step::PushNext => {
                let was = self.next.replace(number);
                Given::Kicked(was.filter(|_| !self.has(Flaw::ForgetsWhoWasNext)))
            }
            Step::PushBack => Given::IsFull(!self.push_back(number)),
            Step::PushBackAll if self.has(Flaw::AllOrNothing) && self.ring.len() + 3 > self.capacity => {
                Given::Appended(0)
            }
            Step::PushBackAll => Given::Appended((number..number + 3).filter(|number| self.push_back(*number)).count()),
            Step::Pop => Given::Popped(self.pop()),
            Step::DrainHalf => {
                let is_drained = self.ring.len() == self.capacity || self.has(Flaw::DrainsAlways);
                let half = (self.capacity / 2).min(self.ring.len());
                Given::Drained(is_drained.then(|| self.drain(half, self.has(Flaw::DrainsTheNewerHalf))))
            }
            Step::Steal => {
                let length = self.ring.len();
                let half = if self.has(Flaw::RoundsDown) { length / 2 } else { length.div_ceil(2) };
                let stolen = self.drain(half, self.has(Flaw::StealsTheNewest));
                let next = self.next.take_if(|_| length == 0 && self.flaw == Some(Flaw::StealsRunnext));
                Given::Stolen(stolen.into_iter().chain(next).collect())
            }
        }
    }
}

/// The first element that the step at `index` of a sequence pushes.
#[must_use]
pub fn first_element(index: usize) -> usize {
    3 * index
}

impl Trial for &[Step] {
    type Flaw = Flaw;
    /// What each step gives.
    type Seen = Vec<Given>;

    const FLAWS: &'static [&'static [Flaw]] = &[
        &[Flaw::PopsTheNewest, Flaw::RunnextComesLast, Flaw::RunnextGetsASlice, Flaw::ForgetsWhoWasNext],
        &[Flaw::IsFullTooEarly, Flaw::OverwritesTheOldest, Flaw::AllOrNothing, Flaw::DrainsAlways],
        &[Flaw::DrainsTheNewerHalf, Flaw::RoundsDown, Flaw::StealsTheNewest, Flaw::StealsRunnext],
    ];
    const LIMIT: &'static str = "at most seven steps";

    fn is_small(&self) -> bool {
        self.len() <= 7
    }

    fn run(&self, flaw: Option<Flaw>) -> Self::Seen {
        let mut model = Model::new(CAPACITY, flaw);
        self.iter().enumerate().map(|(index, step)| model.take(*step, first_element(index))).collect()
    }
}
