//! Taking Gs from the global queue: steps 2 and 4 of [`pick`](crate::engine::pick).

use crate::base::atomic::Ordering;
use crate::base::run_queue::RING_CAPACITY;
use crate::engine::hooks;
use crate::entities::goroutine::Goroutine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

/// Step 2: takes the first runnable locked G or, if there is none, the first G of the global queue.
pub(crate) fn check_global_queue<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    if scheduler.global_length.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut shared = scheduler.shared.lock();
    if hooks::lets_next_run_first(processor, &shared) {
        processor.request_global_check();
        return None;
    }
    // A locked G first: otherwise only a P without any other work would take one (step 4).
    let goroutine = scheduler.take_locked(&mut shared).or_else(|| scheduler.take_global(&mut shared))?;
    drop(shared);
    processor.begin_global(goroutine, 1);
    Some(goroutine)
}

/// Step 4: takes the first G of the global queue and this P's share of the rest, at most half a ring with the first G
/// included. Returns the first G and puts the others into the local ring, which is empty. If the global queue is empty,
/// returns the first runnable locked G. Go: `globrunqgetbatch`.
pub(crate) fn take_global_batch<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    if scheduler.global_length.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut shared = scheduler.shared.lock();
    let Some(first) = shared.global.pop_front() else {
        let locked = scheduler.take_locked(&mut shared)?;
        drop(shared);
        processor.begin_global(locked, 1);
        return Some(locked);
    };
    let rest = shared.global.len();
    let share = (RING_CAPACITY / 2 - 1).min((rest + 1) / scheduler.procs()).min(rest);
    // There is room for all of them, because the ring is empty and only its owner, this M, fills it.
    let taken = processor.queue.push_back_all(shared.global.iter().take(share));
    shared.global.remove_front(taken as usize);
    scheduler.publish_global_length(&shared);
    drop(shared);
    processor.begin_global(first, 1 + taken);
    Some(first)
}
