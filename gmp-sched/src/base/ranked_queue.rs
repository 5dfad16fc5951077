//! An intrusive priority queue: the element with the lowest rank comes first, and among equal ranks the one that arrived
//! first. The links are in the elements, so that pushing neither allocates nor fails.
//!
//! It is a *pairing heap*: a tree in which no element comes after one of its children. To *meld* two trees, the root
//! that comes later becomes the first child of the other root. A push melds the tree with the new element. A pop takes
//! the root and melds its children: first in pairs, then the pairs one after the other. With n elements, a pop takes
//! O(log n) steps on average over many operations.

#[cfg(feature = "std")]
use alloc::vec::Vec;
use core::fmt;

use crate::base::atomic::{AtomicU64, Ordering};
use crate::base::list::Linked;
use crate::base::reference::AtomicRef;

/// An element of a [`RankedQueue`]. Its [link](Linked::link) refers to its next sibling: the next child of the same
/// parent.
pub(crate) trait Ranked: Linked {
    /// The element's place in a queue. An element is in at most one queue at a time.
    fn place(&self) -> &RankedPlace<Self>;
}

/// The place of an element in a [`RankedQueue`]. Who owns the queue owns the places of its elements, so `Relaxed`
/// accesses are enough.
#[derive(Debug)]
pub(crate) struct RankedPlace<T: 'static> {
    rank: AtomicU64,
    /// The time of the arrival. It orders elements of the same rank.
    arrival: AtomicU64,
    first_child: AtomicRef<T>,
}

impl<T> RankedPlace<T> {
    pub(crate) fn new() -> Self {
        Self { rank: AtomicU64::new(0), arrival: AtomicU64::new(0), first_child: AtomicRef::none() }
    }

    /// The rank with which the element was last pushed.
    pub(crate) fn rank(&self) -> u64 {
        self.rank.load(Ordering::Relaxed)
    }

    /// The time of the last arrival; 0 before the first.
    pub(crate) fn arrival(&self) -> u64 {
        self.arrival.load(Ordering::Relaxed)
    }

    /// Makes the element one that never arrived.
    pub(crate) fn forget(&self) {
        self.arrival.store(0, Ordering::Relaxed);
    }
}

/// A priority queue of `T`, linked through the elements themselves.
pub(crate) struct RankedQueue<T: Ranked> {
    root: Option<&'static T>,
    length: usize,
}

impl<T: Ranked> RankedQueue<T> {
    pub(crate) const fn new() -> Self {
        Self { root: None, length: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The element with the lowest rank, which the next pop returns.
    pub(crate) fn first(&self) -> Option<&'static T> {
        self.root
    }

    /// The elements, in no certain order.
    #[cfg(feature = "std")]
    pub(crate) fn elements(&self) -> Vec<&'static T> {
        let mut elements = Vec::with_capacity(self.length);
        let mut subtrees: Vec<_> = self.root.into_iter().collect();
        while let Some(item) = subtrees.pop() {
            elements.push(item);
            subtrees.extend(item.place().first_child.load(Ordering::Relaxed));
            subtrees.extend(item.link().load(Ordering::Relaxed));
        }
        elements
    }

    /// Adds an element that is in no queue.
    pub(crate) fn push(&mut self, item: &'static T, rank: u64, arrival: u64) {
        let place = item.place();
        place.rank.store(rank, Ordering::Relaxed);
        place.arrival.store(arrival, Ordering::Relaxed);
        place.first_child.store(None, Ordering::Relaxed);
        set_sibling(Some(item), None);
        self.length += 1;
        self.root = meld(self.root, Some(item));
    }

    /// Takes the element with the lowest rank.
    pub(crate) fn pop(&mut self) -> Option<&'static T> {
        let first = self.root?;
        // The pairs form a list through the links of their roots, the last pair first.
        let mut pairs = None;
        let mut rest = first.place().first_child.load(Ordering::Relaxed);
        while let Some(one) = rest {
            let other = take_sibling(one);
            rest = other.and_then(take_sibling);
            let pair = meld(Some(one), other);
            set_sibling(pair, pairs);
            pairs = pair;
        }
        self.root = None;
        while let Some(pair) = pairs {
            pairs = take_sibling(pair);
            self.root = meld(self.root, Some(pair));
        }
        self.length -= 1;
        Some(first)
    }
}

/// Makes one tree of two. The roots have no siblings.
fn meld<T: Ranked>(one: Option<&'static T>, other: Option<&'static T>) -> Option<&'static T> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    let key = |item: &'static T| (item.place().rank(), item.place().arrival());
    let (first, child) = if key(one) <= key(other) { (one, other) } else { (other, one) };
    set_sibling(Some(child), first.place().first_child.load(Ordering::Relaxed));
    first.place().first_child.store(Some(child), Ordering::Relaxed);
    Some(first)
}

fn set_sibling<T: Ranked>(item: Option<&'static T>, sibling: Option<&'static T>) {
    if let Some(item) = item {
        item.link().store(sibling, Ordering::Relaxed);
    }
}

/// Returns the sibling of `item`, and removes the link from `item` to that sibling.
fn take_sibling<T: Ranked>(item: &'static T) -> Option<&'static T> {
    let sibling = item.link().load(Ordering::Relaxed);
    item.link().store(None, Ordering::Relaxed);
    sibling
}

impl<T: Ranked> fmt::Debug for RankedQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RankedQueue({})", self.length)
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use alloc::boxed::Box;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use super::{Ranked, RankedPlace, RankedQueue};
    use crate::base::list::Linked;
    use crate::base::reference::AtomicRef;

    #[derive(Debug)]
    struct Item {
        name: usize,
        place: RankedPlace<Self>,
        link: AtomicRef<Self>,
    }

    impl Linked for Item {
        fn link(&self) -> &AtomicRef<Self> {
            &self.link
        }
    }

    impl Ranked for Item {
        fn place(&self) -> &RankedPlace<Self> {
            &self.place
        }
    }

    fn items(count: usize) -> Vec<&'static Item> {
        let item = |name| Item { name, place: RankedPlace::new(), link: AtomicRef::none() };
        (0..count).map(|name| &*Box::leak(Box::new(item(name)))).collect()
    }

    #[test]
    fn lower_ranks_leave_first_and_equal_ranks_in_order_of_arrival() {
        let mut queue = RankedQueue::new();
        for (item, rank) in items(6).into_iter().zip([7, 3, 7, 0, 3, u64::MAX]) {
            queue.push(item, rank, item.name as u64);
        }
        assert_eq!(queue.first().map(|item| item.place.rank()), Some(0));
        let order: Vec<_> = core::iter::from_fn(|| queue.pop()).map(|item| item.name).collect();
        assert_eq!(order, [3, 1, 4, 0, 2, 5]);
        assert_eq!((queue.len(), queue.pop().is_none()), (0, true));
    }

    #[test]
    fn random_pushes_and_pops_agree_with_an_ordered_map() {
        let mut state = 1u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (mut queue, mut model) = (RankedQueue::new(), BTreeMap::new());
        let mut free = items(200);
        for arrival in 0..50_000 {
            // The share of pushes changes, so that the queue is sometimes empty and sometimes full.
            if random() % 100 < 30 + arrival / 500 % 50 && !free.is_empty() {
                let item = free.swap_remove(random() as usize % free.len());
                let rank = random() % 20;
                queue.push(item, rank, arrival);
                model.insert((rank, arrival), item.name);
            } else {
                let popped = queue.pop();
                assert_eq!(popped.map(|item| item.name), model.pop_first().map(|(_, name)| name));
                free.extend(popped);
            }
            assert_eq!(queue.len(), model.len());
            assert!(arrival % 100 != 0 || queue.elements().len() == model.len());
        }
    }
}
