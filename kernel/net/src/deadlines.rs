//! When connections need attention: a binary heap in which each connection knows its place.

use alloc::vec::Vec;

use gmp_sched::platform::OutOfResources;
use gmp_sched::time::Instant;

/// The place of an index without a deadline.
const NOWHERE: usize = usize::MAX;

/// The deadlines of connections, by their indices. Connections without a deadline cost no time.
pub(crate) struct Deadlines {
    /// No element is due earlier than its parent. The parent of the element at `place` is at `(place - 1) / 2`.
    heap: Vec<(Instant, usize)>,
    /// For each index, the place of its deadline in the heap.
    places: Vec<usize>,
}

impl Deadlines {
    pub(crate) const fn new() -> Self {
        Self { heap: Vec::new(), places: Vec::new() }
    }

    /// Makes room for one more index, so that no other function has to allocate memory.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn add_index(&mut self) -> Result<(), OutOfResources> {
        let missing = self.places.len() + 1 - self.heap.len();
        self.heap.try_reserve(missing).map_err(|_| OutOfResources)?;
        self.places.try_reserve(1).map_err(|_| OutOfResources)?;
        self.places.push(NOWHERE);
        Ok(())
    }

    /// Returns the first deadline, and its index.
    pub(crate) fn first(&self) -> Option<(Instant, usize)> {
        self.heap.first().copied()
    }

    /// Sets the deadline of an index. `Instant::NEVER` stands for none.
    pub(crate) fn set(&mut self, index: usize, at: Instant) {
        let place = self.places[index];
        match (place, at) {
            (NOWHERE, Instant::NEVER) => {}
            (NOWHERE, _) => {
                self.heap.push((at, index));
                self.places[index] = self.heap.len() - 1;
                self.restore(self.heap.len() - 1);
            }
            (_, Instant::NEVER) => {
                self.heap.swap_remove(place);
                self.places[index] = NOWHERE;
                if place < self.heap.len() {
                    self.restore(place);
                }
            }
            _ if self.heap[place].0 == at => {}
            _ => {
                self.heap[place].0 = at;
                self.restore(place);
            }
        }
    }

    /// Moves the element at `place` up or down until the order is right.
    fn restore(&mut self, mut place: usize) {
        while place != 0 && self.heap[place] < self.heap[(place - 1) / 2] {
            self.heap.swap(place, (place - 1) / 2);
            self.places[self.heap[place].1] = place;
            place = (place - 1) / 2;
        }
        let least_child = |heap: &[(Instant, usize)], place: usize| {
            [2 * place + 1, 2 * place + 2]
                .into_iter()
                .filter(|&child| child < heap.len())
                .min_by_key(|&child| heap[child])
        };
        while let Some(child) = least_child(&self.heap, place).filter(|&child| self.heap[child] < self.heap[place]) {
            self.heap.swap(place, child);
            self.places[self.heap[place].1] = place;
            place = child;
        }
        self.places[self.heap[place].1] = place;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn first_deadline_is_the_earliest_after_every_change() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut deadlines, mut model) = (Deadlines::new(), [Instant::NEVER; 50]);
        model.iter().for_each(|_| deadlines.add_index().unwrap());
        for _ in 0..20_000 {
            let index = random.usize(..50);
            let at = if random.u8(..3) == 0 { Instant::NEVER } else { Instant::from_nanos(random.u64(..100)) };
            model[index] = at;
            deadlines.set(index, at);
            let earliest = model.iter().copied().zip(0..).filter(|(at, _)| *at != Instant::NEVER).min();
            assert_eq!(deadlines.first(), earliest);
        }
    }
}
