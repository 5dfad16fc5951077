//! Stacks of dead Gs are returned to the platform when it is short of memory, and at a shutdown.

use core::iter;
use core::ops::Range;

use crate::base::atomic::Ordering;
use crate::entities::goroutine::{Goroutine, StackSize};
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

/// Moves the free slots of a P to the shared lists.
#[cold]
pub(crate) fn spill<Plat: Platform>(scheduler: &'static Scheduler<Plat>, processor: &'static Processor<Plat>) {
    let mut free = scheduler.free.lock();
    while let Some(goroutine) = processor.free.pop() {
        free.with_stack.push_front(goroutine);
    }
    if let Some(spare) = processor.free.spare.swap(None, Ordering::Relaxed) {
        free.batches.push_front(spare);
    }
}

/// Releases the stack of a dead G that is on no list; the slot goes to the list of slots without a stack.
#[cold]
pub(crate) fn strip<Plat: Platform>(scheduler: &'static Scheduler<Plat>, goroutine: &'static Goroutine<Plat>) {
    let stack = take_stack(scheduler, goroutine);
    #[expect(unsafe_code, reason = "frees a stack")]
    // SAFETY: `lifecycle::free_slots` got this stack from the platform. The G is dead and has left the stack, its
    // result has been taken out, and no slot refers to the stack any more.
    unsafe {
        Plat::release_stack(stack);
    }
}

/// Takes the stack out of a dead G that is on no list. The slot goes to the list of slots without a stack.
fn take_stack<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    goroutine: &'static Goroutine<Plat>,
) -> Range<usize> {
    let stack = goroutine.stack();
    // The range is cleared before the stack is released, because code that looks up the G of an address reads this
    // range.
    goroutine.set_stack(0..0, StackSize::Standard);
    scheduler.free.lock().bare.push_front(goroutine);
    stack
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Releases the stacks of up to `at_most` dead Gs of this scheduler; returns how many. The free lists of Ps that
    /// other Ms hold, at most 64 slots each, are not changed.
    ///
    /// A platform that is short of memory may call this. Does not block or allocate. Not callable from interrupts, or
    /// while holding a lock that [`Platform::release_stack`] takes.
    pub fn free_idle_stacks(&'static self, at_most: usize) -> usize {
        let pinned = Pinned::<Plat>::of_scheduler();
        // The P of the calling M may belong to another scheduler. Then the free list of that P has no slots of this
        // scheduler.
        let machine = pinned.try_machine().filter(|machine| core::ptr::eq(machine.scheduler(), self));
        if let Some(processor) = machine.and_then(|machine| machine.processor()) {
            spill(self, processor);
        }
        for given_back in 0..at_most {
            // The list may be long. So the lock is taken anew for each slot, and other threads can take the lock in
            // between.
            let Some(goroutine) = self.pop_dead() else { return given_back };
            strip(self, goroutine);
        }
        at_most
    }

    /// Takes a dead G with its stack from the shared lists, or else from the lists of an idle P.
    fn pop_dead(&'static self) -> Option<&'static Goroutine<Plat>> {
        let pop = || self.free.lock().pop_with_stack();
        pop().or_else(|| {
            self.spill_idle();
            pop()
        })
    }

    /// Moves the free slots of one idle P, if it has any, to the shared lists. No M uses these slots meanwhile, because
    /// an M takes an idle P with the lock only.
    fn spill_idle(&'static self) {
        let shared = self.shared.lock();
        let mut idle = self.processors().iter().filter(|processor| processor.status() == ProcessorStatus::Idle);
        if let Some(processor) = idle.find(|processor| processor.free.len() != 0) {
            spill(self, processor);
        }
        drop(shared);
    }

    /// Releases the stacks of all dead Gs, except the Gs on the free list of a P that an M holds. Called only during
    /// shutdown, because this function removes the idle Ps from the idle list.
    pub(crate) fn free_all_idle_stacks(&'static self) {
        loop {
            let idle = self.take_idle_processor(&mut self.shared.lock());
            let Some(processor) = idle else { break };
            spill(self, processor);
        }
        let pinned = Pinned::<Plat>::of_scheduler();
        let stacks = iter::from_fn(|| {
            let dead = self.free.lock().pop_with_stack();
            dead.map(|goroutine| take_stack(self, goroutine))
        });
        #[expect(unsafe_code, reason = "frees stacks")]
        // SAFETY: each stack comes from a dead G that has left it, so the reasons stated in `strip` hold.
        unsafe {
            Plat::release_stacks(stacks);
        }
        drop(pinned);
    }
}
