//! The local run queue is compared with a simple model. With one thread, every result is checked. With several threads,
//! the test checks that every element is taken exactly once.
#![cfg(not(gmp_loom))]

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::platform::Points;
use gmp_sched::run_queue::{RING_CAPACITY, RunQueue, Slice};
use proptest::prelude::*;
use static_assertions::{assert_impl_all, assert_not_impl_any};

#[derive(Debug)]
struct NoPoints;

impl Points for NoPoints {}

// A thief gets the reference that the owner pushed. If a queue of `Cell`s could be shared, safe code could access one
// cell from two threads at once.
assert_not_impl_any!(RunQueue<Cell<u32>, NoPoints>: Send, Sync);
assert_impl_all!(RunQueue<u32, NoPoints>: Send, Sync);

/// The share of a ring that the thieves of these tests take: half of the ring, rounded up.
fn half(length: u32) -> u32 {
    length.div_ceil(2)
}

/// The tests push references to the entries of this array.
static ITEMS: [u8; 1 << 16] = [0; 1 << 16];

fn item(number: usize) -> &'static u8 {
    &ITEMS[number % ITEMS.len()]
}

fn number(item: &'static u8) -> usize {
    core::ptr::from_ref(item).addr() - ITEMS.as_ptr().addr()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    PushNext,
    PushBack,
    /// Pushes several elements at once, as many as fit.
    PushBackAll(usize),
    Pop,
    /// Pops as an owner does when no thief can steal at the same time.
    PopAlone,
    /// Pops from the ring and pushes another element to its tail, as a yield does.
    PopAndPushBack,
    DrainHalf,
    Steal,
    StealWithNext,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => Just(Step::PushNext),
        6 => Just(Step::PushBack),
        1 => (0..6usize).prop_map(Step::PushBackAll),
        3 => Just(Step::Pop),
        3 => Just(Step::PopAlone),
        2 => Just(Step::PopAndPushBack),
        1 => Just(Step::DrainHalf),
        1 => Just(Step::Steal),
        1 => Just(Step::StealWithNext),
    ];
    prop::collection::vec(step, 0..1500)
}

/// The model of the queue: the element in `runnext`, and a FIFO.
#[derive(Default)]
struct Model {
    next: Option<usize>,
    ring: VecDeque<usize>,
}

impl Model {
    fn push_back<const CAPACITY: usize>(&mut self, number: usize) -> bool {
        let fits = self.ring.len() < CAPACITY;
        if fits {
            self.ring.push_back(number);
        }
        fits
    }

    fn steal(&mut self, with_next: bool) -> Vec<usize> {
        let half = self.ring.len() - self.ring.len() / 2;
        let mut stolen: Vec<_> = self.ring.drain(..half).collect();
        if stolen.is_empty() && with_next {
            stolen.extend(self.next.take());
        }
        stolen
    }
}

fn check_against_model<const CAPACITY: usize>(steps: &[Step]) {
    let queue = RunQueue::<u8, NoPoints, CAPACITY>::new();
    let mut model = Model::default();
    for (count, step) in steps.iter().enumerate() {
        match step {
            Step::PushNext => {
                let kicked = queue.push_next(item(count));
                assert_eq!(kicked.map(number), model.next.replace(count));
            }
            Step::PushBack => {
                assert_eq!(queue.push_back(item(count)).is_ok(), model.push_back::<CAPACITY>(count));
            }
            Step::PushBackAll(many) => {
                let pushed = queue.push_back_all((0..*many).map(|_| item(count)));
                let fit = (0..*many).filter(|_| model.push_back::<CAPACITY>(count)).count();
                assert_eq!(pushed as usize, fit);
            }
            Step::Pop | Step::PopAlone => {
                let expected = match model.next.take() {
                    Some(next) => Some((next, Slice::Inherited)),
                    None => model.ring.pop_front().map(|first| (first, Slice::New)),
                };
                let popped = queue.pop(matches!(step, Step::Pop));
                assert_eq!(popped.map(|(item, slice)| (number(item), slice)), expected);
            }
            Step::PopAndPushBack => {
                let expected = if model.next.is_some() { None } else { model.ring.pop_front() };
                if let Some(first) = expected {
                    assert_eq!(queue.pop(true).map(|(item, slice)| (number(item), slice)), Some((first, Slice::New)));
                    queue.push_back(item(count)).expect("the pop made room");
                    model.ring.push_back(count);
                }
            }
            Step::DrainHalf => {
                let drained = queue.drain_half().map(|half| half.map(number).collect::<Vec<_>>());
                let is_full = model.ring.len() == CAPACITY;
                assert_eq!(drained, is_full.then(|| model.ring.drain(..CAPACITY / 2).collect()));
            }
            Step::Steal | Step::StealWithNext => {
                let with_next = matches!(step, Step::StealWithNext);
                let thief = RunQueue::<u8, NoPoints, CAPACITY>::new();
                // The last stolen element is returned. The others are in the thief's ring in order.
                let last = queue.steal_into(&thief, half, queue.next().filter(|_| with_next)).map(number);
                let mut stolen = Vec::new();
                while let Some((item, _)) = thief.pop(true) {
                    stolen.push(number(item));
                }
                stolen.extend(last);
                assert_eq!(stolen, model.steal(with_next));
            }
        }
        assert_eq!(queue.len(), model.ring.len());
        assert_eq!(queue.is_empty(), model.ring.is_empty() && model.next.is_none());
    }
}

proptest! {
    #[test]
    fn behaves_like_a_slot_and_a_fifo_of_four(steps in steps()) {
        check_against_model::<4>(&steps);
    }

    #[test]
    fn behaves_like_a_slot_and_a_fifo_of_256(steps in steps()) {
        check_against_model::<RING_CAPACITY>(&steps);
    }
}

#[test]
fn counters_wrap_around() {
    // The head and the tail of the ring are 32-bit counters. In a new queue they have the highest value, so they wrap
    // around at the first push. The indices into the ring, which are derived from the counters, wrap around every four
    // pushes.
    let queue = RunQueue::<u8, NoPoints, 4>::new();
    for count in 0..100_000 {
        queue.push_back(item(count)).unwrap();
        if count >= 3 {
            assert_eq!(queue.pop(true).map(|(item, _)| number(item)), Some((count - 3) % ITEMS.len()));
        }
    }
}

/// An owner pushes, pops and drains half of a full ring while three thieves steal. Every element is taken exactly once.
#[test]
fn every_element_is_taken_once_among_threads() {
    const ELEMENTS: usize = ITEMS.len();
    let queue = Arc::new(RunQueue::<u8, NoPoints>::new());
    let done = Arc::new(AtomicBool::new(false));
    let thieves: Vec<_> = (0..3)
        .map(|_| {
            let (victim, done) = (queue.clone(), done.clone());
            std::thread::spawn(move || {
                let own = RunQueue::<u8, NoPoints>::new();
                let mut taken = Vec::new();
                loop {
                    let finished = done.load(Ordering::Acquire);
                    let last = victim.steal_into(&own, half, victim.next());
                    taken.extend(last.map(number));
                    while let Some((item, _)) = own.pop(true) {
                        taken.push(number(item));
                    }
                    if finished && last.is_none() {
                        return taken;
                    }
                }
            })
        })
        .collect();
    let mut taken = Vec::new();
    for count in 0..ELEMENTS {
        let kicked = if count % 3 == 0 { queue.push_next(item(count)) } else { Some(item(count)) };
        if let Some(kicked) = kicked {
            while queue.push_back(kicked).is_err() {
                taken.extend(queue.drain_half().into_iter().flatten().map(number));
            }
        }
        if count % 7 == 0 {
            taken.extend(queue.pop(true).map(|(item, _)| number(item)));
        }
    }
    done.store(true, Ordering::Release);
    for thief in thieves {
        taken.extend(thief.join().unwrap());
    }
    while let Some((item, _)) = queue.pop(true) {
        taken.push(number(item));
    }
    taken.sort_unstable();
    assert!(taken.iter().copied().eq(0..ELEMENTS), "{} taken of {ELEMENTS}", taken.len());
}
