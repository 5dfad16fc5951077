//! Lab 2: the local run queue is compared with a model, for all sequences of steps up to a length, the shortest first.

use std::collections::VecDeque;

use gmp_sched::platform::Points;
use gmp_sched::run_queue::{RunQueue, Slice};

#[derive(Debug)]
struct NoPoints;

impl Points for NoPoints {}

type Queue<const CAPACITY: usize> = RunQueue<usize, NoPoints, CAPACITY>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    PushNext,
    PushBack,
    /// Pushes three elements at once, or as many as fit.
    PushBackAll,
    Pop,
    DrainHalf,
    /// A thief takes the half, rounded up.
    Steal,
}

/// What a step gives, of the queue or of the model.
#[derive(Debug, Eq, PartialEq)]
enum Given {
    Kicked(Option<usize>),
    IsFull(bool),
    Appended(usize),
    Popped(Option<(usize, Slice)>),
    Drained(Option<Vec<usize>>),
    Stolen(Vec<usize>),
}

/// The elements: references to the numbers from 0 on.
static ELEMENTS: [usize; 64] = {
    let mut elements = [0; 64];
    let mut number = 0;
    while number < elements.len() {
        elements[number] = number;
        number += 1;
    }
    elements
};

/// The model of the queue: the element in `runnext`, and a FIFO.
#[derive(Default)]
struct Model {
    next: Option<usize>,
    ring: VecDeque<usize>,
}

fn half(length: u32) -> u32 {
    length.div_ceil(2)
}

impl Model {
    fn push_back(&mut self, number: usize, capacity: usize) -> bool {
        let fits = self.ring.len() < capacity;
        if fits {
            self.ring.push_back(number);
        }
        fits
    }

    /// Takes `step`, whose first element is `number`.
    fn take(&mut self, step: Step, number: usize, capacity: usize) -> Given {
        match step {
            Step::PushNext => Given::Kicked(self.next.replace(number)),
            Step::PushBack => Given::IsFull(!self.push_back(number, capacity)),
            Step::PushBackAll => {
                Given::Appended((number..number + 3).filter(|number| self.push_back(*number, capacity)).count())
            }
            Step::Pop => Given::Popped(match self.next.take() {
                Some(next) => Some((next, Slice::Inherited)),
                None => self.ring.pop_front().map(|first| (first, Slice::New)),
            }),
            Step::DrainHalf => {
                let is_full = self.ring.len() == capacity;
                Given::Drained(is_full.then(|| self.ring.drain(..capacity / 2).collect()))
            }
            Step::Steal => Given::Stolen(self.ring.drain(..half(self.ring.len() as u32) as usize).collect()),
        }
    }
}

fn take<const CAPACITY: usize>(queue: &Queue<CAPACITY>, step: Step, number: usize) -> Given {
    match step {
        Step::PushNext => Given::Kicked(queue.push_next(&ELEMENTS[number]).copied()),
        Step::PushBack => Given::IsFull(queue.push_back(&ELEMENTS[number]).is_err()),
        Step::PushBackAll => Given::Appended(queue.push_back_all(ELEMENTS[number..number + 3].iter()) as usize),
        Step::Pop => Given::Popped(queue.pop(true).map(|(element, slice)| (*element, slice))),
        Step::DrainHalf => Given::Drained(queue.drain_half().map(|half| half.copied().collect())),
        Step::Steal => {
            let thief = Queue::<CAPACITY>::new();
            let last = queue.steal_into(&thief, half, None);
            // The last stolen element is returned. The others are in the thief's ring in order. They are read by another
            // thief, one by one, so that the result does not depend on `pop`.
            let reader = Queue::<CAPACITY>::new();
            let others = core::iter::from_fn(|| thief.steal_into(&reader, |length| length.min(1), None));
            Given::Stolen(others.chain(last).copied().collect())
        }
    }
}

/// The elements that the step at `index` of a sequence pushes begin with this one.
fn first_element(index: usize) -> usize {
    3 * index
}

/// The steps as the report of a failure shows them, with the elements that they push.
fn shown(steps: &[Step]) -> String {
    let steps = steps.iter().enumerate().map(|(index, step)| {
        let first = first_element(index);
        match step {
            Step::PushNext | Step::PushBack => format!("{step:?}({first})"),
            Step::PushBackAll => format!("{step:?}({first}, {}, {})", first + 1, first + 2),
            Step::Pop | Step::DrainHalf | Step::Steal => format!("{step:?}"),
        }
    });
    steps.collect::<Vec<_>>().join(", ")
}

/// Takes the steps on a new queue and on a new model. Panics if they differ. Stops before a step that pushes while the ring
/// has `limit` elements.
fn compare<const CAPACITY: usize>(steps: &[Step], limit: usize) {
    let (queue, mut model) = (Queue::<CAPACITY>::new(), Model::default());
    for (index, step) in steps.iter().enumerate() {
        let first = first_element(index);
        if *step == Step::PushBack && model.ring.len() == limit {
            return;
        }
        let (expected, given) = (model.take(*step, first, CAPACITY), take(&queue, *step, first));
        assert!(
            expected == given,
            "in a ring of {CAPACITY}: {}\nthe last step gives {given:?}\nit should be {expected:?}",
            shown(&steps[..=index])
        );
    }
    let (length, expected) = (queue.len(), model.ring.len());
    assert!(
        length == expected,
        "in a ring of {CAPACITY}: {}\nthen {length} elements are in the ring\nit should be {expected}",
        shown(steps)
    );
}

/// Compares queue and model for all sequences of at most `longest` steps of those in `kinds`, in which the ring never gets
/// more than `limit` elements.
fn compare_all<const CAPACITY: usize>(kinds: &[Step], limit: usize, longest: u32) {
    for length in 1..=longest {
        for mut sequence in 0..kinds.len().pow(length) {
            let steps: Vec<Step> = (0..length)
                .map(|_| {
                    let kind = kinds[sequence % kinds.len()];
                    sequence /= kinds.len();
                    kind
                })
                .collect();
            compare::<CAPACITY>(&steps, limit);
        }
    }
}

#[test]
fn ring_is_a_fifo_of_its_capacity() {
    let kinds = [Step::PushBack, Step::Pop, Step::PushNext, Step::PushBackAll];
    compare_all::<2>(&kinds, usize::MAX, 7);
    compare_all::<4>(&kinds, usize::MAX, 9);
}

// The two tests below leave out what the first one tests, so that an error of a push or pop is not counted three times.

#[test]
fn full_ring_gives_its_older_half() {
    let kinds = [Step::DrainHalf, Step::PushBack];
    compare_all::<2>(&kinds, 2, 12);
    compare_all::<4>(&kinds, 4, 14);
}

#[test]
fn thief_takes_its_share_of_the_oldest() {
    let kinds = [Step::Steal, Step::PushBack];
    compare_all::<2>(&kinds, 1, 10);
    compare_all::<4>(&kinds, 3, 14);
}
