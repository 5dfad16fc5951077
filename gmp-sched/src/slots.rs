//! The slots of Gs: made once, never freed, reused with or without the stack they had.
//!
//! | list | of | dead Gs | Go |
//! |---|---|---|---|
//! | `Processor::push_free` | each P, at most 64 | with a stack of the standard size | `p.gFree` |
//! | `FreeSlots::with_stack` | all | the same | `sched.gFree.stack` |
//! | `FreeSlots::bare` | all | without a stack | `sched.gFree.noStack` |
//!
//! Stacks of the standard size stay with their slots, so that the usual spawn finds both in one step. A stack of a chosen
//! size goes back to the platform when its G is dead, which keeps such stacks by size; and so do the others when the
//! platform is short of memory and asks for them ([`Scheduler::give_back_stacks`]).

use alloc::vec::Vec;

use crate::goroutine::{Goroutine, StackSize};
use crate::list::List;
use crate::machine::Machine;
use crate::platform::{OutOfResources, Pinned, Platform};
use crate::processor::Processor;
use crate::scheduler::Scheduler;
use crate::spawn::STACK_SIZE;

/// Free slots a P keeps at most, and how many it has after it gave the rest away or fetched new ones. Go: `gfput`.
const FREE_LIMIT: u32 = 64;
/// See [`FREE_LIMIT`].
const FREE_KEPT: u32 = 32;

/// The free slots that belong to no P. Go: `sched.gFree`.
#[derive(Debug)]
pub(crate) struct FreeSlots<P: Platform> {
    with_stack: List<Goroutine<P>>,
    bare: List<Goroutine<P>>,
}

impl<P: Platform> FreeSlots<P> {
    pub(crate) const fn new() -> Self {
        Self { with_stack: List::new(), bare: List::new() }
    }
}

/// A slot with a stack of the standard size. Go: `gfget`.
#[doc(alias = "gfget")]
#[inline]
pub(crate) fn take<P: Platform>(
    machine: &'static Machine<P>,
    processor: &'static Processor<P>,
) -> Result<&'static Goroutine<P>, OutOfResources> {
    match processor.pop_free() {
        Some(goroutine) => Ok(goroutine),
        None => refill(machine.scheduler(), processor),
    }
}

/// A slot from the common list, bringing more for later, or one with a new stack.
#[cold]
fn refill<P: Platform>(
    scheduler: &'static Scheduler<P>,
    processor: &'static Processor<P>,
) -> Result<&'static Goroutine<P>, OutOfResources> {
    {
        let mut free = scheduler.free.lock();
        if let Some(goroutine) = free.with_stack.pop_front() {
            for _ in 1..FREE_KEPT {
                let Some(spare) = free.with_stack.pop_front() else { break };
                processor.push_free(spare);
            }
            return Ok(goroutine);
        }
    }
    take_with_stack(scheduler, STACK_SIZE)
}

/// A slot with a new stack of at least `bytes` bytes. Go: `malg`.
#[doc(alias = "malg")]
pub(crate) fn take_with_stack<P: Platform>(
    scheduler: &'static Scheduler<P>,
    bytes: usize,
) -> Result<&'static Goroutine<P>, OutOfResources> {
    let size = if bytes == STACK_SIZE { StackSize::Standard } else { StackSize::Chosen };
    let bare = scheduler.free.lock().bare.pop_front();
    let goroutine = match bare {
        Some(goroutine) => goroutine,
        None => make(scheduler)?,
    };
    match P::allocate_stack(bytes) {
        Ok(stack) => {
            goroutine.set_stack(stack, size);
            Ok(goroutine)
        }
        Err(error) => {
            scheduler.free.lock().bare.push_front(goroutine);
            Err(error)
        }
    }
}

/// A new slot, without a stack.
fn make<P: Platform>(scheduler: &'static Scheduler<P>) -> Result<&'static Goroutine<P>, OutOfResources> {
    let mut home = Vec::new();
    home.try_reserve_exact(1).map_err(|_| OutOfResources)?;
    home.push(Goroutine::new());
    let slot: &'static Goroutine<P> = &home.leak()[0];
    scheduler.register(slot);
    Ok(slot)
}

/// Puts a dead G whose stack is at rest on a free list. Go: `gfput`.
#[doc(alias = "gfput")]
#[inline]
pub(crate) fn recycle<P: Platform>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>) {
    recycle_on(pinned, pinned.machine().processor(), goroutine);
}

/// [`recycle`] for a caller that knows which P its M holds.
#[inline(always)]
pub(crate) fn recycle_on<P: Platform>(
    pinned: &Pinned<P>,
    processor: Option<&'static Processor<P>>,
    goroutine: &'static Goroutine<P>,
) {
    if goroutine.stack_size() == StackSize::Chosen {
        strip(pinned.machine().scheduler(), goroutine);
        return;
    }
    match processor {
        Some(processor) => {
            if processor.push_free(goroutine) >= FREE_LIMIT {
                spill_some(pinned, processor);
            }
        }
        None => pinned.machine().scheduler().free.lock().with_stack.push_front(goroutine),
    }
}

/// Moves the older half of the free slots of the current P to the common list.
#[cold]
#[inline(never)]
fn spill_some<P: Platform>(pinned: &Pinned<P>, processor: &'static Processor<P>) {
    spill(pinned.machine().scheduler(), processor, FREE_KEPT);
}

/// Moves the free slots of a P beyond `kept` to the common list.
#[cold]
pub(crate) fn spill<P: Platform>(scheduler: &'static Scheduler<P>, processor: &'static Processor<P>, kept: u32) {
    let mut free = scheduler.free.lock();
    while processor.free_count() > kept
        && let Some(goroutine) = processor.pop_free()
    {
        free.with_stack.push_front(goroutine);
    }
}

/// Gives the stack of a dead G that is on no list back to the platform; the slot goes to the bare ones.
#[cold]
fn strip<P: Platform>(scheduler: &'static Scheduler<P>, goroutine: &'static Goroutine<P>) {
    let stack = goroutine.stack();
    // Before the stack is gone, for those who look up whose stack an address is in.
    goroutine.set_stack(0..0, StackSize::Standard);
    #[expect(unsafe_code, reason = "gives a stack back")]
    // SAFETY: `take_with_stack` got it from the platform for this slot; the G is dead and has left it, its result has
    // been taken out, and the slot does not know it any more.
    unsafe {
        P::release_stack(stack);
    }
    scheduler.free.lock().bare.push_front(goroutine);
}

impl<P: Platform> Scheduler<P> {
    /// Gives the stacks of up to `at_most` dead Gs back to the platform, and tells how many those were. What other Ps keep
    /// for themselves, at most 64 each, stays there.
    ///
    /// For a platform that is short of memory. Does not block or allocate; not callable from interrupts, nor with a lock
    /// held that [`Platform::release_stack`] takes.
    pub fn give_back_stacks(&'static self, at_most: usize) -> usize {
        let pinned = Pinned::<P>::new();
        if let Some(processor) = pinned.try_machine().and_then(|machine| machine.processor()) {
            spill(self, processor, 0);
        }
        for given_back in 0..at_most {
            // The lock is free in between: the list may be long.
            let dead = self.free.lock().with_stack.pop_front();
            let Some(goroutine) = dead else { return given_back };
            strip(self, goroutine);
        }
        at_most
    }

    /// Gives back the stacks of all dead Gs that no running P keeps for itself. For the end: takes the idle Ps out of use.
    pub(crate) fn give_back_all_stacks(&'static self) {
        loop {
            let idle = self.take_idle_processor(&mut self.shared.lock());
            let Some(processor) = idle else { break };
            spill(self, processor, 0);
        }
        self.give_back_stacks(usize::MAX);
    }

    /// How many stacks dead Gs keep for the next ones.
    #[must_use]
    pub fn cached_stacks(&'static self) -> usize {
        let pinned = Pinned::<P>::new();
        let common = self.free.lock().with_stack.len();
        drop(pinned);
        common + self.processors().iter().map(|processor| processor.free_count() as usize).sum::<usize>()
    }
}

#[cfg(all(test, feature = "std", not(gmp_loom)))]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{FREE_KEPT, FREE_LIMIT, StackSize, recycle, take, take_with_stack};
    use crate::goroutine::Goroutine;
    use crate::native::{self, Native};
    use crate::platform::Pinned;
    use crate::scheduler::Scheduler;
    use crate::spawn::STACK_SIZE;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// As many spawns.
        Take(usize),
        /// A spawn with a stack of its own size.
        TakeLarge,
        /// As many ends of Gs.
        Recycle(usize),
        GiveBack(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..80usize).prop_map(Step::Take),
            1 => Just(Step::TakeLarge),
            4 => (0..80usize).prop_map(Step::Recycle),
            1 => (0..50usize).prop_map(Step::GiveBack),
        ];
        prop::collection::vec(step, 0..24)
    }

    /// How many free slots with a stack there are: on the P's list and on the common one. A list of one P is its own
    /// model only in its order, so what is checked is that.
    #[derive(Debug, Default)]
    struct Model {
        local: u32,
        common: u32,
    }

    impl Model {
        fn take(&mut self) {
            if self.local == 0 {
                // One for the caller, and more for later.
                let fetched = self.common.min(FREE_KEPT);
                self.common -= fetched;
                self.local = fetched.saturating_sub(1);
            } else {
                self.local -= 1;
            }
        }

        fn recycle(&mut self) {
            self.local += 1;
            if self.local == FREE_LIMIT {
                self.common += self.local - FREE_KEPT;
                self.local = FREE_KEPT;
            }
        }
    }

    fn check(scheduler: &'static Scheduler<Native>, steps: &[Step]) {
        let pinned = Pinned::<Native>::new();
        let processor = pinned.processor();
        let mut model = Model { local: processor.free_count(), common: 0 };
        model.common = scheduler.cached_stacks() as u32 - model.local;
        let mut in_use: Vec<&'static Goroutine<Native>> = Vec::new();
        for step in steps {
            match *step {
                Step::Take(count) => {
                    for _ in 0..count {
                        let taken = take(pinned.machine(), processor).unwrap();
                        assert!(in_use.iter().all(|used| !core::ptr::eq(*used, taken)), "given twice");
                        assert!(taken.stack().len() >= STACK_SIZE, "without a stack");
                        in_use.push(taken);
                        model.take();
                    }
                }
                Step::TakeLarge => {
                    let taken = take_with_stack(scheduler, 2 * STACK_SIZE).unwrap();
                    assert!(in_use.iter().all(|used| !core::ptr::eq(*used, taken)), "given twice");
                    assert!(taken.stack().len() >= 2 * STACK_SIZE);
                    in_use.push(taken);
                }
                Step::Recycle(count) => {
                    for goroutine in in_use.drain(..count.min(in_use.len())) {
                        let keeps_stack = goroutine.stack_size() == StackSize::Standard;
                        recycle(&pinned, goroutine);
                        assert_eq!(goroutine.stack().is_empty(), !keeps_stack);
                        if keeps_stack {
                            model.recycle();
                        }
                    }
                }
                Step::GiveBack(count) => {
                    let cached = model.local + model.common;
                    let given_back = cached.min(count as u32);
                    assert_eq!(scheduler.give_back_stacks(count), given_back as usize);
                    model = Model { local: 0, common: cached - given_back };
                }
            }
            assert_eq!(processor.free_count(), model.local);
            assert_eq!(scheduler.cached_stacks() as u32, model.local + model.common);
        }
        in_use.into_iter().for_each(|goroutine| recycle(&pinned, goroutine));
    }

    proptest! {
        // Every case leaves a scheduler behind, with all the stacks it ever had.
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn slots_are_spilled_and_refilled_as_gos(steps in steps()) {
            native::run_with(1, move |scheduler| check(scheduler, &steps));
        }
    }
}
