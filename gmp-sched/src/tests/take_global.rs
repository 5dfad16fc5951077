use alloc::boxed::Box;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::base::atomic::Ordering;
use crate::engine::take_global::take_global_batch;
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
        for &goroutine in &goroutines {
            scheduler.reserve_global().expect("memory");
            scheduler.put_global_one(&mut scheduler.shared.lock(), None, goroutine);
        }

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
