use alloc::vec::Vec;

use proptest::prelude::*;

use crate::entities::free_list::BATCH;
use crate::entities::goroutine::{Goroutine, StackSize};
use crate::entities::scheduler::Scheduler;
use crate::lifecycle::free_slots::{recycle, take_to_spawn, take_with_stack};
use crate::native::{Native, THREADS};
use crate::platform::{Pinned, Platform};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Spawns this many Gs.
    Take(usize),
    /// Spawns a G with a stack that does not have the standard size.
    TakeLarge,
    /// Ends this many Gs.
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

/// How many free slots with a stack are on each list of the P and on each shared list. The model knows only the
/// lengths of the lists, not which slot is on which list.
#[derive(Debug, Default)]
struct Model {
    local: u32,
    spare: u32,
    batches: u32,
    singles: u32,
}

impl Model {
    fn take(&mut self) {
        if self.local == 0 {
            // The local list is refilled from one of the other lists. Then one slot is returned to the caller.
            let from = if self.spare != 0 {
                &mut self.spare
            } else if self.batches != 0 {
                &mut self.batches
            } else {
                &mut self.singles
            };
            self.local = BATCH.min(*from);
            *from -= self.local;
        }
        self.local = self.local.saturating_sub(1);
    }

    fn recycle(&mut self) {
        if self.local == BATCH {
            self.batches += self.spare;
            self.spare = self.local;
            self.local = 0;
        }
        self.local += 1;
    }

    /// Releases up to `count` stacks; returns how many.
    fn give_back(&mut self, count: u32) -> u32 {
        self.singles += core::mem::take(&mut self.local);
        self.batches += core::mem::take(&mut self.spare);
        let given_back = count.min(self.singles + self.batches);
        while self.singles < given_back {
            self.batches -= BATCH;
            self.singles += BATCH;
        }
        self.singles -= given_back;
        given_back
    }
}

fn check(scheduler: &'static Scheduler<Native>, steps: &[Step]) {
    let pinned = Pinned::<Native>::of_scheduler();
    let processor = pinned.processor();
    // Moves all free slots to the shared list of single slots.
    scheduler.free_idle_stacks(0);
    let mut model = Model { singles: scheduler.cached_stacks() as u32, ..Model::default() };
    assert!(model.singles < BATCH, "more free slots than a scheduler without a full batch has");
    let mut in_use: Vec<&'static Goroutine<Native>> = Vec::new();
    for step in steps {
        match *step {
            Step::Take(count) => {
                for _ in 0..count {
                    let (_, taken) = take_to_spawn::<Native>(Native::STACK_SIZE).unwrap();
                    assert!(in_use.iter().all(|used| !core::ptr::eq(*used, taken)), "taken twice");
                    assert!(taken.stack().len() >= Native::STACK_SIZE, "without a stack");
                    in_use.push(taken);
                    model.take();
                }
            }
            Step::TakeLarge => {
                let taken = take_with_stack(scheduler, 2 * Native::STACK_SIZE).unwrap();
                assert!(in_use.iter().all(|used| !core::ptr::eq(*used, taken)), "taken twice");
                assert!(taken.stack().len() >= 2 * Native::STACK_SIZE);
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
                assert_eq!(scheduler.free_idle_stacks(count), model.give_back(count as u32) as usize);
            }
        }
        assert_eq!(processor.free.len(), model.local + model.spare);
        assert_eq!(scheduler.cached_stacks() as u32, processor.free.len() + model.batches + model.singles);
    }
    in_use.into_iter().for_each(|goroutine| recycle(&pinned, goroutine));
}

proptest! {
    // Every case leaks a scheduler, with all the stacks that it made. So there are fewer cases than by default.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn slots_are_spilled_and_refilled_as_gos(steps in steps()) {
        THREADS.run_with(1, move |scheduler| check(scheduler, &steps));
    }
}

/// While the main G waits, each G that begins gets the stack of a dead G, and that slot gets the fresh stack, which
/// must still be poisoned. With the feature `control-words`, the preparation of a context writes to the stack.
#[test]
fn fresh_stack_of_a_free_slot_is_poisoned() {
    crate::native::poison_dead_stacks();
    THREADS.run(1, || {
        for _ in 0..3 {
            let gs: Vec<_> = (0..8).map(|_| crate::native::go(|| ())).collect();
            gs.into_iter().for_each(|g| g.join().unwrap());
            // The free list is not empty now, and the new G has not begun when main waits for it.
            crate::native::go(crate::native::yield_now).join().unwrap();
        }
    });
}
