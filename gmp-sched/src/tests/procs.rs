use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::base::run_queue::RING_CAPACITY;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::native::Native;

fn goroutine(scheduler: &'static Scheduler<Native>) -> &'static Goroutine<Native> {
    scheduler.reserve_global().expect("memory");
    Box::leak(Box::new(Goroutine::new(scheduler)))
}

/// The Gs of a retired P come before those of the global queue, in the order in which they would have run.
#[test]
fn order_is_kept_when_a_processor_is_retired() {
    let scheduler = Scheduler::<Native>::with_limit(3, 3);
    let [successor, first, second] = [0, 1, 2].map(|index| &scheduler.processors()[index]);
    let goroutines: Vec<_> = (0..RING_CAPACITY + 3).map(|_| goroutine(scheduler)).collect();
    let (later, ring) = goroutines.split_at(2);
    let (next, ring) = ring.split_first().unwrap();
    ring.iter().for_each(|&goroutine| first.queue.push_back(goroutine).unwrap());
    assert!(first.queue.push_next(next).is_none());
    let other = goroutine(scheduler);
    second.queue.push_back(other).unwrap();

    let mut shared = scheduler.shared.lock();
    later.iter().for_each(|&goroutine| scheduler.put_global_one(&mut shared, None, goroutine));
    scheduler.destroy_processor(&mut shared, first, successor);
    scheduler.destroy_processor(&mut shared, second, successor);

    // The Gs of the P that was retired last come first, as in Go.
    let expected = [other, next].into_iter().chain(ring.iter().copied()).chain(later.iter().copied());
    for goroutine in expected {
        assert!(core::ptr::eq(scheduler.take_global(&mut shared).unwrap(), goroutine));
    }
    assert!(scheduler.take_global(&mut shared).is_none());
    assert!(first.queue.is_empty() && second.queue.is_empty());
    assert_eq!((first.status(), second.status()), (ProcessorStatus::Dead, ProcessorStatus::Dead));
}
