//! The global run queue, and the list of runnable Gs that are locked to their Ms. The scheduler lock guards both.

use crate::base::atomic::Ordering;
use crate::base::list::List;
use crate::entities::goroutine::Goroutine;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::platform::Platform;

impl<Plat: Platform> Scheduler<Plat> {
    /// Appends Gs to the global queue. The caller makes sure that an M runs them. Go: `globrunqputbatch`.
    pub(crate) fn put_global(&self, shared: &mut Shared<Plat>, goroutines: &mut List<Goroutine<Plat>>) {
        shared.global.append(goroutines);
        self.publish_global_length(shared);
    }

    /// Appends a G to the global queue, or to the list of locked Gs if the G is locked to its M. The caller makes sure
    /// that an M runs the G.
    pub(crate) fn put_global_one(&self, shared: &mut Shared<Plat>, goroutine: &'static Goroutine<Plat>) {
        let list = if goroutine.is_locked() { &mut shared.locked } else { &mut shared.global };
        list.push_back(goroutine);
        self.publish_global_length(shared);
    }

    pub(crate) fn publish_global_length(&self, shared: &Shared<Plat>) {
        self.global_length.store(shared.global.len() + shared.locked.len(), Ordering::Relaxed);
    }

    /// Puts Gs on the global queue before all others. The caller makes sure that an M runs them.
    pub(crate) fn put_global_first(&self, shared: &mut Shared<Plat>, goroutines: &mut List<Goroutine<Plat>>) {
        goroutines.append(&mut shared.global);
        self.put_global(shared, goroutines);
    }

    /// Takes one G from the global queue.
    pub(crate) fn take_global(&self, shared: &mut Shared<Plat>) -> Option<&'static Goroutine<Plat>> {
        let goroutine = shared.global.pop_front()?;
        self.publish_global_length(shared);
        Some(goroutine)
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use crate::base::atomic::Ordering;
    use crate::base::list::List;
    use crate::engine::pick::take_global_batch;
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
