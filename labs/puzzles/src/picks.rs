//! Wrong picks and wrong thieves, on which the tests of students are tried: a model of three Ps and the global queue, and what
//! may be wrong with it. A sequence of steps finds a flaw if, with the flaw, a pick of it takes another G.
//!
//! The model follows `docs/policy.md`, with smaller numbers: a turn of the global queue comes after two slices and not
//! after 61, a P takes one G of that queue and not its share, and a thief visits the next P and then the one after it,
//! in no random order.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::trial::Trial;

/// The number of Ps.
pub const PROCESSORS: usize = 3;

/// After this number of slices, a P takes a G of the global queue before its own. A G from `runnext` and an urgent one
/// begin no slice.
pub const SLICES_BETWEEN_TURNS: u32 = 2;

/// What happens. The number in a step is that of a P, from 0 to 2. A G is named by the number of the step that makes it
/// runnable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// A G is readied on this P. It goes to `runnext`, and the one that was there to the tail of the ring.
    Ready(usize),
    /// A G yields on this P. It goes to the tail of the ring, or of the global queue if that has Gs.
    Yields(usize),
    /// A G is readied by an event: it goes to the urgent queue of this P.
    Urgent(usize),
    /// A G has used up its slice. It goes to the tail of the global queue.
    Preempted,
    /// This P needs a G. It takes one, perhaps from another P. The G that it ran before is gone.
    Pick(usize),
}

/// What may be wrong with a pick, or with a thief.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flaw {
    /// An urgent G waits until the local queue is empty.
    UrgentComesLast,
    /// The global queue has no turns: its Gs wait until the local queue is empty.
    NeverTakesATurn,
    /// Each pick is a turn of the global queue.
    TakesEveryTurn,
    /// If an urgent G runs when the global queue has its turn, the turn is lost.
    UrgentTakesTheTurn,
    /// If the global queue is empty when it has its turn, the pick ends there.
    GivesUpAtAnEmptyTurn,
    /// A thief takes one G.
    StealsOne,
    /// A thief takes all Gs of a ring.
    StealsAll,
    /// A thief takes the half, rounded down.
    RoundsDown,
    /// A thief has no last round, so it never takes from a short ring, or what is in `runnext`, or an urgent G.
    LeavesTheLastOnes,
    /// A thief visits only the next P.
    VisitsOnlyTheNext,
    /// A thief has only its last round, so it takes whatever the first P has.
    RobsTheFirst,
}

/// A P.
#[derive(Debug, Default)]
struct Processor {
    urgent: VecDeque<usize>,
    next: Option<usize>,
    ring: VecDeque<usize>,
    /// The slices since the last turn of the global queue.
    slices: u32,
}

/// The model.
#[derive(Debug)]
struct Model {
    processors: [Processor; PROCESSORS],
    global: VecDeque<usize>,
    flaw: Option<Flaw>,
}

impl Model {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Takes the step with this number. Returns what a pick takes.
    fn take(&mut self, step: Step, number: usize) -> Option<usize> {
        match step {
            Step::Ready(index) => {
                let processor = &mut self.processors[index];
                let kicked = processor.next.replace(number);
                processor.ring.extend(kicked);
            }
            Step::Yields(index) if self.global.is_empty() => self.processors[index].ring.push_back(number),
            Step::Yields(_) | Step::Preempted => self.global.push_back(number),
            Step::Urgent(index) => self.processors[index].urgent.push_back(number),
            Step::Pick(index) => return self.pick(index),
        }
        None
    }

    fn pick(&mut self, index: usize) -> Option<usize> {
        let slices = self.processors[index].slices;
        let is_turn = slices >= SLICES_BETWEEN_TURNS && !self.has(Flaw::NeverTakesATurn);
        if is_turn {
            self.processors[index].slices = 0;
        }
        if !self.has(Flaw::UrgentComesLast)
            && let Some(urgent) = self.processors[index].urgent.pop_front()
        {
            if is_turn && !self.has(Flaw::UrgentTakesTheTurn) {
                self.processors[index].slices = slices;
            }
            return Some(urgent);
        }
        if is_turn || self.has(Flaw::TakesEveryTurn) {
            let first = self.global.pop_front();
            if first.is_some() || (is_turn && self.has(Flaw::GivesUpAtAnEmptyTurn)) {
                return self.begin_slice(index, first);
            }
        }
        if let Some(next) = self.processors[index].next.take() {
            return Some(next);
        }
        let found = self.processors[index].ring.pop_front();
        let found = found.or_else(|| self.processors[index].urgent.pop_front());
        let found = found.or_else(|| self.global.pop_front()).or_else(|| self.steal(index));
        self.begin_slice(index, found)
    }

    fn begin_slice(&mut self, index: usize, found: Option<usize>) -> Option<usize> {
        self.processors[index].slices += u32::from(found.is_some());
        found
    }

    fn steal(&mut self, thief: usize) -> Option<usize> {
        let rounds = match self.flaw {
            Some(Flaw::LeavesTheLastOnes) => &[false][..],
            Some(Flaw::RobsTheFirst) => &[true],
            _ => &[false, true],
        };
        let visits = if self.has(Flaw::VisitsOnlyTheNext) { 1 } else { PROCESSORS - 1 };
        let mut visits = rounds.iter().flat_map(|last| (1..=visits).map(move |distance| (*last, distance)));
        visits.find_map(|(last, distance)| self.steal_from(thief, (thief + distance) % PROCESSORS, last))
    }

    /// Steals from one P. In the last round, a short ring, `runnext` and urgent Gs count, too.
    fn steal_from(&mut self, thief: usize, victim: usize, last: bool) -> Option<usize> {
        let robbed = &mut self.processors[victim];
        if last && let Some(urgent) = robbed.urgent.pop_front() {
            return Some(urgent);
        }
        let length = robbed.ring.len();
        let share = match self.flaw {
            _ if length <= 2 && !last => 0,
            Some(Flaw::StealsOne) => length.min(1),
            Some(Flaw::StealsAll) => length,
            Some(Flaw::RoundsDown) => length / 2,
            _ => length.div_ceil(2),
        };
        let mut stolen: VecDeque<usize> = robbed.ring.drain(..share).collect();
        // The last one runs at once, and the others go to the thief's ring.
        let runs = stolen.pop_back().or_else(|| robbed.next.take_if(|_| last && length == 0));
        self.processors[thief].ring.extend(stolen);
        runs
    }
}

impl Trial for &[Step] {
    type Flaw = Flaw;
    /// What each pick takes.
    type Seen = Vec<Option<usize>>;

    const FLAWS: &'static [&'static [Flaw]] = &[
        &[
            Flaw::UrgentComesLast,
            Flaw::NeverTakesATurn,
            Flaw::TakesEveryTurn,
            Flaw::UrgentTakesTheTurn,
            Flaw::GivesUpAtAnEmptyTurn,
        ],
        &[
            Flaw::StealsOne,
            Flaw::StealsAll,
            Flaw::RoundsDown,
            Flaw::LeavesTheLastOnes,
            Flaw::VisitsOnlyTheNext,
            Flaw::RobsTheFirst,
        ],
    ];
    const LIMIT: &'static str = "at most nine steps, on the Ps 0 to 2";

    fn is_small(&self) -> bool {
        self.len() <= 9
            && self.iter().all(|step| match step {
                Step::Ready(index) | Step::Yields(index) | Step::Urgent(index) | Step::Pick(index) => {
                    *index < PROCESSORS
                }
                Step::Preempted => true,
            })
    }

    fn run(&self, flaw: Option<Flaw>) -> Self::Seen {
        let mut model = Model { processors: Default::default(), global: VecDeque::new(), flaw };
        self.iter().enumerate().map(|(number, step)| model.take(*step, number)).collect()
    }
}
