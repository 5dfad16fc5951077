use alloc::boxed::Box;
use alloc::vec::Vec;

use std::thread;

use crate::base::id::GoroutineId;
use crate::entities::goroutine::Goroutine;
use crate::entities::scheduler::Scheduler;
use crate::native::Native;

/// Four threads make room for new Gs and put these Gs on the queue, whose array grows meanwhile. No G is lost, and the
/// Gs of each thread stay in order.
#[test]
fn queue_grows_while_gs_are_on_it() {
    const THREADS: u64 = 4;
    const EACH: u64 = 500;
    let scheduler = Scheduler::<Native>::new(1);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in 0..EACH {
                    scheduler.reserve_global().expect("memory");
                    let goroutine: &'static _ = Box::leak(Box::new(Goroutine::new(scheduler)));
                    goroutine.begin(GoroutineId(1 + number * THREADS + thread), None);
                    scheduler.put_global_one(&mut scheduler.shared.lock(), None, goroutine);
                }
            });
        }
    });
    let mut shared = scheduler.shared.lock();
    let ids: Vec<_> = core::iter::from_fn(|| scheduler.take_global(&mut shared)).map(|g| g.id().get() - 1).collect();
    for thread in 0..THREADS {
        let numbers = ids.iter().filter(|&id| id % THREADS == thread).map(|id| id / THREADS);
        assert!(numbers.eq(0..EACH), "the Gs of thread {thread}");
    }
    assert_eq!(ids.len() as u64, THREADS * EACH);
}
