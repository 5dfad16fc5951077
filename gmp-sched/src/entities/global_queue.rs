//! The global run queue, and the list of runnable Gs that are locked to their Ms. The scheduler lock guards both.
//!
//! Go links the Gs of the global queue to a list. A P that takes a batch then reads each of these Gs while it holds the
//! lock. Often another CPU has just created them, so each read is a cache miss, for which the other Ps wait, too. Here
//! the queue is an array of references, so a P takes a batch without reading the Gs. (On threads, a G takes 142 ns
//! instead of 169 ns in the benchmark `spawn_batch` with two Ps, and 119 ns instead of 155 ns in `global_queue`.)
//!
//! The array always has room for all Gs of the scheduler, because [`reserve_global`](Scheduler::reserve_global) is
//! called before a new G is made. So if there is no memory, the spawn fails. A G that exists can always be enqueued,
//! and no P waits for the lock while another allocates memory. When a larger array replaces the old one, the references
//! to the queued Gs are copied under the lock. Each array is twice as large as the one before, so this is rare.

use alloc::collections::VecDeque;
use core::fmt;
use core::mem;

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// The global run queue, a FIFO. Go: `sched.runq`.
pub(crate) struct GlobalQueue<Plat: Platform> {
    goroutines: VecDeque<&'static Goroutine<Plat>>,
    /// The number of Gs for which there must be room. It is never larger than the capacity of `goroutines`.
    reserved: usize,
}

impl<Plat: Platform> GlobalQueue<Plat> {
    /// The capacity of the first array.
    const FIRST_CAPACITY: usize = 64;

    /// The empty queue, without room for any G.
    pub(crate) const fn new() -> Self {
        Self { goroutines: VecDeque::new(), reserved: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.goroutines.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.goroutines.is_empty()
    }

    /// Appends a G that is on no queue. [`reserve_global`](Scheduler::reserve_global) was called for the G.
    pub(crate) fn push_back(&mut self, goroutine: &'static Goroutine<Plat>) {
        debug_assert!(self.len() < self.reserved, "no room for {goroutine:?} in the global queue");
        self.goroutines.push_back(goroutine);
    }

    /// Appends Gs that are on no queue. Room was reserved for them.
    fn extend(&mut self, goroutines: impl Iterator<Item = &'static Goroutine<Plat>>) {
        self.goroutines.extend(goroutines);
        debug_assert!(self.len() <= self.reserved, "no room for Gs in the global queue");
    }

    pub(crate) fn pop_front(&mut self) -> Option<&'static Goroutine<Plat>> {
        self.goroutines.pop_front()
    }

    /// The Gs in the queue, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Goroutine<Plat>> {
        self.goroutines.iter().copied()
    }

    /// Removes the first `count` Gs, which the caller has put on another queue.
    pub(crate) fn remove_front(&mut self, count: usize) {
        self.goroutines.drain(..count);
    }

    /// Puts Gs before all others, in their order.
    fn push_front_all(&mut self, goroutines: impl Iterator<Item = &'static Goroutine<Plat>>) {
        let before = self.len();
        self.extend(goroutines);
        self.goroutines.rotate_left(before);
    }

    /// Reserves room for one more G in the array. Returns whether there was room.
    fn reserve_one(&mut self) -> bool {
        let has_room = self.reserved < self.goroutines.capacity();
        self.reserved += usize::from(has_room);
        has_room
    }

    /// Exchanges the array for `array`, which is empty, if `array` is larger. Moves the Gs to the new array.
    fn grow_into(&mut self, array: &mut VecDeque<&'static Goroutine<Plat>>) {
        if array.capacity() > self.goroutines.capacity() {
            array.append(&mut self.goroutines);
            mem::swap(array, &mut self.goroutines);
        }
    }
}

impl<Plat: Platform> fmt::Debug for GlobalQueue<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GlobalQueue({})", self.len())
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Makes room in the global queue for one more G. Called before the G is made, without any lock held. Allocates, so
    /// the caller should not be pinned.
    pub(crate) fn reserve_global(&self) -> Result<(), OutOfResources> {
        loop {
            let pinned = Pinned::<Plat>::of_scheduler();
            let (has_room, capacity) = {
                let mut shared = self.shared.lock();
                (shared.global.reserve_one(), shared.global.goroutines.capacity())
            };
            drop(pinned);
            if has_room {
                return Ok(());
            }
            self.grow_global(capacity)?;
        }
    }

    /// Replaces the array of the global queue, which has room for `capacity` Gs, by one that is twice as large, unless
    /// another M has done so meanwhile.
    #[cold]
    fn grow_global(&self, capacity: usize) -> Result<(), OutOfResources> {
        let mut larger = VecDeque::new();
        let wanted = (2 * capacity).max(GlobalQueue::<Plat>::FIRST_CAPACITY);
        larger.try_reserve_exact(wanted).map_err(|_| OutOfResources)?;
        let pinned = Pinned::<Plat>::of_scheduler();
        self.shared.lock().global.grow_into(&mut larger);
        drop(pinned);
        // Here `larger` is the array that is not used any more. It is freed without the lock.
        Ok(())
    }

    /// Appends `half` of the ring of `by`, and then `goroutine`, to the global queue. The caller, which holds `by`, makes
    /// sure that an M runs them. Go: `globrunqputbatch`.
    pub(crate) fn put_global_half(
        &self,
        shared: &mut Shared<Plat>,
        by: &Processor<Plat>,
        half: impl ExactSizeIterator<Item = &'static Goroutine<Plat>>,
        goroutine: &'static Goroutine<Plat>,
    ) {
        by.tracer.note::<Plat>(EventKind::Overflow, None, half.len() as u64);
        by.tracer.note::<Plat>(EventKind::GlobalPut, Some(goroutine.id()), 0);
        shared.global.extend(half.chain([goroutine]));
        self.publish_global_length(shared);
    }

    /// Appends a G to the global queue, or to the list of locked Gs if the G is locked to its M. The caller makes sure
    /// that an M runs the G. `by` is the P that the caller holds, if any.
    pub(crate) fn put_global_one(
        &self,
        shared: &mut Shared<Plat>,
        by: Option<&Processor<Plat>>,
        goroutine: &'static Goroutine<Plat>,
    ) {
        // The event is recorded under the lock, so that the events are in the order of the queue.
        match by {
            Some(processor) => processor.tracer.note::<Plat>(EventKind::GlobalPut, Some(goroutine.id()), 0),
            None => self.note_outside(EventKind::GlobalPut, goroutine, 0),
        }
        if goroutine.is_locked() {
            shared.locked.push_back(goroutine);
        } else {
            shared.global.push_back(goroutine);
        }
        self.publish_global_length(shared);
    }

    pub(crate) fn publish_global_length(&self, shared: &Shared<Plat>) {
        self.global_length.store(shared.global.len() + shared.locked.len(), Ordering::Relaxed);
    }

    /// Puts Gs on the global queue before all others. The caller makes sure that an M runs them.
    pub(crate) fn put_global_first(
        &self,
        shared: &mut Shared<Plat>,
        goroutines: impl Iterator<Item = &'static Goroutine<Plat>>,
    ) {
        shared.global.push_front_all(goroutines);
        self.publish_global_length(shared);
    }

    /// Takes the first G from the global queue, if there is one.
    pub(crate) fn take_global(&self, shared: &mut Shared<Plat>) -> Option<&'static Goroutine<Plat>> {
        let goroutine = shared.global.pop_front()?;
        self.publish_global_length(shared);
        Some(goroutine)
    }

    /// Takes the first runnable locked G, if there is one.
    pub(crate) fn take_locked(&self, shared: &mut Shared<Plat>) -> Option<&'static Goroutine<Plat>> {
        let goroutine = shared.locked.pop_front()?;
        self.publish_global_length(shared);
        Some(goroutine)
    }
}
