//! Taking Gs from the global queue: steps 2 and 4 of [`pick`](crate::engine::pick).

use core::{iter, mem};

use crate::base::atomic::Ordering;
use crate::base::list::List;
use crate::base::run_queue::RING_CAPACITY;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// Step 2: polls the devices, then takes the first runnable locked G or, if there is none, the first G of the global
/// queue.
pub(crate) fn check_global_queue<Plat: Platform>(
    pinned: &Pinned<Plat>,
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    scheduler.poll(pinned);
    if scheduler.global_length.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut shared = scheduler.shared.lock();
    // Takes a locked G first. If this function took no locked G, only a P without any other work would take one (step
    // 4, in `take_global_batch`).
    let goroutine = scheduler.take_locked(&mut shared).or_else(|| scheduler.take_global(&mut shared))?;
    drop(shared);
    processor.advance_tick();
    processor.counters.global_takes.add(1);
    processor.tracer.note::<Plat>(EventKind::GlobalTake, Some(goroutine.id()), 1);
    Some(goroutine)
}

/// Step 4: takes a fair share of the global queue. Returns the first G of the share and puts the others into the local
/// ring, which is empty. If the global queue is empty, returns the first runnable locked G. Go: `globrunqgetbatch`.
pub(crate) fn take_global_batch<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    if scheduler.global_length.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut shared = scheduler.shared.lock();
    let Some(first) = shared.global.pop_front() else {
        return scheduler.take_locked(&mut shared).inspect(|_| processor.advance_tick());
    };
    let share = (RING_CAPACITY / 2 - 1).min((shared.global.len() + 1) / scheduler.procs());
    let mut taken = 0;
    if share != 0 {
        // The queue is moved to a local variable, so that it is kept in registers during the loop.
        let mut global = mem::replace(&mut shared.global, List::new());
        // There is room, because the ring is empty and only its owner, this M, fills it.
        taken = processor.queue.push_back_all(iter::from_fn(|| global.pop_front()).take(share));
        shared.global = global;
    }
    scheduler.publish_global_length(&shared);
    drop(shared);
    processor.advance_tick();
    processor.counters.global_takes.add(1 + u64::from(taken));
    processor.tracer.note::<Plat>(EventKind::GlobalTake, Some(first.id()), 1 + u64::from(taken));
    Some(first)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::take_global_batch;
    use crate::base::atomic::Ordering;
    use crate::base::list::List;
    use crate::entities::goroutine::Goroutine;
    use crate::entities::scheduler::Scheduler;
    use crate::native::Native;

    proptest! {
        /// A batch has the same number of Gs as in Go: `min(128, size, size/gomaxprocs+1)`. The first G runs, and the
        /// others go to the local ring in order.
        #[test]
        fn a_batch_of_the_global_queue_is_gos(size in 0..600usize, processors in 1..65usize) {
            let scheduler = Scheduler::<Native>::new(processors);
            let goroutines: Vec<&'static Goroutine<Native>> =
                (0..size).map(|_| &*Box::leak(Box::new(Goroutine::new(scheduler)))).collect();
            let mut batch = List::new();
            goroutines.iter().for_each(|&goroutine| batch.push_back(goroutine));
            scheduler.put_global(&mut scheduler.shared.lock(), &mut batch);

            let processor = &scheduler.processors()[0];
            let first = take_global_batch(scheduler, processor);
            let rest = core::iter::from_fn(|| processor.queue.pop(true).map(|(goroutine, _)| goroutine));
            let taken: Vec<_> = first.into_iter().chain(rest).collect();
            prop_assert_eq!(taken.len(), 128.min(size).min(size / processors + 1));
            prop_assert!(taken.iter().zip(&goroutines).all(|(taken, expected)| core::ptr::eq(*taken, *expected)));
            prop_assert_eq!(scheduler.global_length.load(Ordering::Relaxed), size - taken.len());
            prop_assert_eq!(scheduler.shared.lock().global.len(), size - taken.len());
        }
    }
}
