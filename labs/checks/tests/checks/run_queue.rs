//! Lab 2: the local run queue is compared with a model, for all sequences of steps up to a length, the shortest first.

use gmp_sched::platform::Points;
use gmp_sched::run_queue::RunQueue;
use lab_puzzles::rings::{Given, Model, Step, first_element};
use lab_puzzles::trial::sequences;

#[derive(Debug)]
struct NoPoints;

impl Points for NoPoints {}

type Queue<const CAPACITY: usize> = RunQueue<usize, NoPoints, CAPACITY>;

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

fn half(length: u32) -> u32 {
    length.div_ceil(2)
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
    let (queue, mut model) = (Queue::<CAPACITY>::new(), Model::new(CAPACITY, None));
    for (index, step) in steps.iter().enumerate() {
        let first = first_element(index);
        if *step == Step::PushBack && model.len() == limit {
            return;
        }
        let (expected, given) = (model.take(*step, first), take(&queue, *step, first));
        assert!(
            expected == given,
            "in a ring of {CAPACITY}: {}\nthe last step gives {given:?}\nit should be {expected:?}",
            shown(&steps[..=index])
        );
    }
    let (length, expected) = (queue.len(), model.len());
    assert!(
        length == expected,
        "in a ring of {CAPACITY}: {}\nthen {length} elements are in the ring\nit should be {expected}",
        shown(steps)
    );
}

/// Compares queue and model for all sequences of at most `longest` steps of those in `kinds`, in which the ring never gets
/// more than `limit` elements.
fn compare_all<const CAPACITY: usize>(kinds: &[Step], limit: usize, longest: u32) {
    for steps in sequences(kinds, 1..=longest) {
        compare::<CAPACITY>(&steps, limit);
    }
}

#[test]
fn ring_is_a_fifo_of_its_capacity() {
    let kinds = [Step::PushBack, Step::Pop, Step::PushNext, Step::PushBackAll];
    compare_all::<2>(&kinds, usize::MAX, 7);
    compare_all::<4>(&kinds, usize::MAX, 9);
}

// The two tests below do not repeat what the test above tests, so that an error in a push or pop does not fail all three.

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
