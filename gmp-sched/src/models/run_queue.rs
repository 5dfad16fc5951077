//! The local ring between its owner and thieves, with room for four.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Unwatched, explore};
use crate::run_queue::{RunQueue, StealNext};

type Queue = RunQueue<u32, Unwatched, 4>;

static ITEMS: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

fn pop_all(queue: &Queue, taken: &mut Vec<u32>) {
    while let Some((item, _)) = queue.pop() {
        taken.push(*item);
    }
}

/// Every item is taken exactly once, whoever takes it.
fn check_all_once(mut taken: Vec<u32>, count: u32) {
    taken.sort_unstable();
    assert!(taken.iter().copied().eq(0..count), "{taken:?}");
}

fn steal_all(victim: &Queue, next: StealNext) -> Vec<u32> {
    let own = Queue::new();
    let mut taken = Vec::new();
    if let Some(item) = victim.steal_into(&own, next) {
        taken.push(*item);
    }
    pop_all(&own, &mut taken);
    taken
}

#[test]
fn owner_pushes_and_pops_while_a_thief_steals() {
    explore(|| {
        let queue = Arc::new(Queue::new());
        let victim = queue.clone();
        let thief = loom::thread::spawn(move || steal_all(&victim, StealNext::No));
        let mut taken = Vec::new();
        for item in &ITEMS[..3] {
            queue.push_back(item).unwrap();
        }
        taken.extend(queue.pop().map(|(item, _)| *item));
        taken.extend(thief.join().unwrap());
        pop_all(&queue, &mut taken);
        check_all_once(taken, 3);
    });
}

#[test]
fn owner_wraps_around_while_a_thief_steals() {
    explore(|| {
        let queue = Arc::new(Queue::new());
        for item in &ITEMS[..4] {
            queue.push_back(item).unwrap();
        }
        let victim = queue.clone();
        let thief = loom::thread::spawn(move || steal_all(&victim, StealNext::No));
        let mut taken = Vec::new();
        let mut pushed = 4;
        for item in &ITEMS[4..6] {
            taken.extend(queue.pop().map(|(item, _)| *item));
            // A thief between its copy and its claim must not get hold of a slot that is written here.
            if queue.push_back(item).is_ok() {
                pushed += 1;
            } else {
                break;
            }
        }
        taken.extend(thief.join().unwrap());
        pop_all(&queue, &mut taken);
        check_all_once(taken, pushed);
    });
}

#[test]
fn two_thieves() {
    explore(|| {
        let queue = Arc::new(Queue::new());
        for item in &ITEMS[..3] {
            queue.push_back(item).unwrap();
        }
        let thieves: Vec<_> = (0..2)
            .map(|_| {
                let victim = queue.clone();
                loom::thread::spawn(move || steal_all(&victim, StealNext::No))
            })
            .collect();
        let mut taken = Vec::new();
        taken.extend(queue.pop().map(|(item, _)| *item));
        for thief in thieves {
            taken.extend(thief.join().unwrap());
        }
        pop_all(&queue, &mut taken);
        check_all_once(taken, 3);
    });
}

#[test]
fn run_next_against_a_thief() {
    explore(|| {
        let queue = Arc::new(Queue::new());
        queue.push_next(&ITEMS[0]);
        let victim = queue.clone();
        let thief = loom::thread::spawn(move || steal_all(&victim, StealNext::Yes));
        let mut taken = Vec::new();
        if let Some(kicked) = queue.push_next(&ITEMS[1]) {
            queue.push_back(kicked).unwrap();
        }
        taken.extend(queue.pop().map(|(item, _)| *item));
        taken.extend(thief.join().unwrap());
        pop_all(&queue, &mut taken);
        check_all_once(taken, 2);
    });
}

#[test]
fn overflow_against_a_thief() {
    explore(|| {
        let queue = Arc::new(Queue::new());
        for item in &ITEMS[..4] {
            queue.push_back(item).unwrap();
        }
        let victim = queue.clone();
        let thief = loom::thread::spawn(move || steal_all(&victim, StealNext::No));
        let mut taken = Vec::new();
        queue.drain_half(|item| taken.push(*item));
        taken.extend(thief.join().unwrap());
        pop_all(&queue, &mut taken);
        check_all_once(taken, 4);
    });
}

/// An element on its way from `runnext` to the ring is never overlooked.
#[test]
fn a_queue_with_an_element_is_never_seen_empty() {
    explore(|| {
        let queue = Arc::new(Queue::new());
        queue.push_next(&ITEMS[0]);
        let seen = queue.clone();
        let observer = loom::thread::spawn(move || assert!(!seen.is_empty()));
        let kicked = queue.push_next(&ITEMS[1]).unwrap();
        queue.push_back(kicked).unwrap();
        // The second is taken, the first is still there.
        assert_eq!(queue.pop().map(|(item, _)| *item), Some(1));
        observer.join().unwrap();
    });
}
