//! Models of the local ring, with a capacity of four, and of `runnext`. The owner and thieves access them at the same
//! time. Each item is taken exactly once, and the taker sees what was written to the item.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::checked::Checked;
use super::{LoomPoints, explore};
use crate::base::run_queue::RunQueue;

type Queue = RunQueue<Item, LoomPoints, 4>;

/// An item of the queue. The M that takes it must see what was written to it before.
struct Item {
    number: u32,
    content: Checked,
}

/// Makes items with the numbers from 0 on; each has been used once.
fn items<const COUNT: usize>() -> [&'static Item; COUNT] {
    core::array::from_fn(|number| {
        let item = Item { number: number as u32, content: Checked::default() };
        item.content.used();
        &*Box::leak(Box::new(item))
    })
}

/// The numbers of the items that one thread has taken.
#[derive(Default)]
struct Taken(Vec<u32>);

impl Taken {
    fn take(&mut self, item: &'static Item) {
        item.content.used();
        self.0.push(item.number);
    }

    fn pop(&mut self, queue: &Queue) -> bool {
        let item = queue.pop(true);
        item.map(|(item, _)| self.take(item)).is_some()
    }

    /// Checks that every item was taken exactly once, by the owner or by one thief.
    fn check(mut self, queue: &Queue, others: impl IntoIterator<Item = Self>, count: u32) {
        for other in others {
            self.0.extend(other.0);
        }
        while self.pop(queue) {}
        self.0.sort_unstable();
        assert!(self.0.iter().copied().eq(0..count), "{:?}", self.0);
    }
}

/// The share of these thieves, as in the scheduler. The scheduler's own function is empty until lab 3, but these models
/// check the ring in lab 2. With a share of nothing, they would check nothing.
fn half(length: u32) -> u32 {
    length.div_ceil(2)
}

fn steal_all(victim: &Queue, with_next: bool) -> Taken {
    let own = Queue::new();
    let mut taken = Taken::default();
    if let Some(item) = victim.steal_into(&own, half, victim.next().filter(|_| with_next)) {
        taken.take(item);
    }
    while taken.pop(&own) {}
    taken
}

fn thief(queue: &Arc<Queue>, with_next: bool) -> loom::thread::JoinHandle<Taken> {
    let victim = queue.clone();
    loom::thread::spawn(move || steal_all(&victim, with_next))
}

fn queue_of(items: &[&'static Item]) -> Arc<Queue> {
    let queue = Arc::new(Queue::new());
    for item in items {
        queue.push_back(item).unwrap();
    }
    queue
}

#[test]
fn owner_pushes_and_pops_while_a_thief_steals() {
    explore(|| {
        let items = items::<3>();
        let queue = queue_of(&[]);
        let thief = thief(&queue, false);
        let mut taken = Taken::default();
        for item in items {
            item.content.used();
            queue.push_back(item).unwrap();
        }
        taken.pop(&queue);
        taken.check(&queue, [thief.join().unwrap()], 3);
    });
}

#[test]
fn owner_wraps_around_while_a_thief_steals() {
    explore(|| {
        let items = items::<6>();
        let queue = queue_of(&items[..4]);
        let thief = thief(&queue, false);
        let mut taken = Taken::default();
        let mut pushed = 4;
        for item in &items[4..] {
            taken.pop(&queue);
            // The push may overwrite entries that a thief has copied and not yet claimed. The thief must not get such
            // an entry.
            if queue.push_back(item).is_ok() {
                pushed += 1;
            } else {
                break;
            }
        }
        taken.check(&queue, [thief.join().unwrap()], pushed);
    });
}
#[test]
fn two_thieves() {
    explore(|| {
        let queue = queue_of(&items::<3>());
        let thieves = [thief(&queue, false), thief(&queue, false)];
        let mut taken = Taken::default();
        taken.pop(&queue);
        taken.check(&queue, thieves.map(|thief| thief.join().unwrap()), 3);
    });
}

/// One thief steals what another thief has just stolen, from the queue of that thief. Each item is taken exactly once.
#[test]
fn thief_is_stolen_from_while_it_steals() {
    explore(|| {
        let queue = queue_of(&items::<4>());
        let middle = queue_of(&[]);
        let robber = thief(&middle, false);
        let (victim, own) = (queue.clone(), middle.clone());
        let robbed = loom::thread::spawn(move || {
            let mut taken = Taken::default();
            if let Some(item) = victim.steal_into(&own, half, None) {
                taken.take(item);
            }
            while taken.pop(&own) {}
            taken
        });
        Taken::default().check(&queue, [robbed.join().unwrap(), robber.join().unwrap()], 4);
    });
}

#[test]
fn run_next_against_a_thief() {
    explore(|| {
        let items = items::<2>();
        let queue = queue_of(&[]);
        queue.push_next(items[0]);
        let thief = thief(&queue, true);
        let mut taken = Taken::default();
        items[1].content.used();
        if let Some(kicked) = queue.push_next(items[1]) {
            queue.push_back(kicked).unwrap();
        }
        taken.pop(&queue);
        taken.check(&queue, [thief.join().unwrap()], 2);
    });
}

/// The owner puts an item into `runnext` while two thieves steal. `runnext` is empty at first, so the owner sets
/// `runnext` without an exchange. The item is taken exactly once.
#[test]
fn first_run_next_against_two_thieves() {
    explore(|| {
        let items = items::<1>();
        let queue = queue_of(&[]);
        let thieves = [thief(&queue, true), thief(&queue, true)];
        items[0].content.used();
        assert!(queue.push_next(items[0]).is_none());
        Taken::default().check(&queue, thieves.map(|thief| thief.join().unwrap()), 1);
    });
}

#[test]
fn overflow_against_two_thieves() {
    explore(|| {
        let items = items::<5>();
        let queue = queue_of(&items[..4]);
        let thieves = [thief(&queue, false), thief(&queue, false)];
        let mut taken = Taken::default();
        // Does what the engine does when the ring is full: drains half of it. If a thief has made room meanwhile, the
        // drain fails, and the new item is pushed instead.
        let half = loop {
            if let Some(half) = queue.drain_half() {
                break half;
            }
            if queue.push_back(items[4]).is_ok() {
                return taken.check(&queue, thieves.map(|thief| thief.join().unwrap()), 5);
            }
        };
        half.for_each(|item| taken.take(item));
        taken.take(items[4]);
        taken.check(&queue, thieves.map(|thief| thief.join().unwrap()), 5);
    });
}

/// While an element moves from `runnext` to the ring, another thread never sees the queue empty.
#[test]
fn queue_with_an_element_is_never_seen_empty() {
    explore(|| {
        let items = items::<2>();
        let queue = queue_of(&[]);
        queue.push_next(items[0]);
        let seen = queue.clone();
        let observer = loom::thread::spawn(move || assert!(!seen.is_empty()));
        let kicked = queue.push_next(items[1]).unwrap();
        queue.push_back(kicked).unwrap();
        // The second element has been taken; the first is still queued.
        assert_eq!(queue.pop(true).map(|(item, _)| item.number), Some(1));
        observer.join().unwrap();
    });
}
