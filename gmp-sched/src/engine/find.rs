//! The search for something to run, in Go's order (`findRunnable`, runtime/proc.go, go1.27).

use core::{iter, mem};

use crate::base::atomic::Ordering;
use crate::base::list::List;
use crate::base::run_queue::RING_CAPACITY;
use crate::engine::due::next_due;
use crate::engine::steal::steal;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

/// A G to run; blocks until there is one.
///
/// 1. Gs whose timers on the own P are due; 2. one tick in 61 the global queue; 3. `runnext`, then the local ring; 4. a batch from
///    the global queue; 5. Gs whose devices are ready; 6. steal from the others, unless enough Ms do so already; 7. give the P
///    up, look at everything once more, park.
#[doc(alias = "findRunnable")]
pub(crate) fn find_runnable<P: Platform>(pinned: &Pinned<P>, machine: &'static Machine<P>) -> &'static Goroutine<P> {
    let scheduler = machine.scheduler();
    loop {
        let Some(processor) = machine.processor() else {
            machine.wait_for_processor(pinned);
            continue;
        };
        if scheduler.is_stopping() {
            machine.stop_for_world();
            continue;
        }
        let found = next_due(pinned, processor)
            .or_else(|| find_here(pinned, scheduler, processor))
            .or_else(|| may_spin(scheduler, machine).then(|| steal(pinned, processor)).flatten());
        if let Some(goroutine) = found {
            stop_spinning(machine);
            if !goroutine.is_locked() {
                return goroutine;
            }
            machine.start_locked(goroutine);
            continue;
        }
        machine.go_idle(pinned);
    }
}

fn find_here<P: Platform>(
    pinned: &Pinned<P>,
    scheduler: &'static Scheduler<P>,
    processor: &'static Processor<P>,
) -> Option<&'static Goroutine<P>> {
    if processor.is_global_turn() {
        processor.set_next_global_turn();
        scheduler.poll(pinned);
        if scheduler.global_length.load(Ordering::Relaxed) != 0
            && let Some(goroutine) = take_at_turn(scheduler)
        {
            processor.advance_tick();
            processor.counters.global_takes.add(1);
            return Some(goroutine);
        }
    }
    let found = processor.pop_local().map(|(goroutine, _)| goroutine);
    found.or_else(|| take_global_batch(scheduler, processor)).or_else(|| {
        let any = scheduler.poll(pinned);
        any.then(|| processor.pop_local().map(|(goroutine, _)| goroutine)).flatten()
    })
}

/// What is next in line at the global queue's turn: a locked G, of which P by P only dry ones take notice otherwise.
fn take_at_turn<P: Platform>(scheduler: &'static Scheduler<P>) -> Option<&'static Goroutine<P>> {
    let mut shared = scheduler.shared.lock();
    scheduler.take_locked(&mut shared).or_else(|| scheduler.take_global(&mut shared))
}

/// Takes a fair share of the global queue: the first to run, the rest for the local ring, which is empty. Go:
/// `globrunqgetbatch`.
pub(crate) fn take_global_batch<P: Platform>(
    scheduler: &'static Scheduler<P>,
    processor: &'static Processor<P>,
) -> Option<&'static Goroutine<P>> {
    if scheduler.global_length.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut shared = scheduler.shared.lock();
    let Some(first) = shared.global.pop_front() else {
        return scheduler.take_locked(&mut shared).inspect(|_| processor.advance_tick());
    };
    let share = (RING_CAPACITY / 2 - 1).min((shared.global.len() + 1) / scheduler.procs());
    // Out of the lock's memory, so that it is in registers meanwhile.
    let mut global = mem::replace(&mut shared.global, List::new());
    // The ring was empty a moment ago, and only its owner, this M, fills it: there is room.
    let taken = processor.queue.push_back_all(iter::from_fn(|| global.pop_front()).take(share));
    shared.global = global;
    scheduler.publish_global_length(&shared);
    drop(shared);
    processor.advance_tick();
    processor.counters.global_takes.add(1 + u64::from(taken));
    Some(first)
}

impl<P: Platform> Scheduler<P> {
    /// Whether there is work that belongs to no P: what a P looks at once in a while also when it has enough of its own.
    #[inline(always)]
    pub(crate) fn has_work_for_all(&self) -> bool {
        self.global_length.load(Ordering::Relaxed) != 0 || self.poller.is_ready()
    }
}

/// Limits the Ms that look for work to half of the busy Ps: more would only take the CPUs from those that work.
fn may_spin<P: Platform>(scheduler: &'static Scheduler<P>, machine: &'static Machine<P>) -> bool {
    if machine.is_spinning() {
        return true;
    }
    let spinning = scheduler.spinning.load(Ordering::Relaxed) as usize;
    let idle = scheduler.idle_processors.load(Ordering::Relaxed) as usize;
    if 2 * spinning >= scheduler.procs() - idle.min(scheduler.procs()) {
        return false;
    }
    machine.spinning.store(true, Ordering::Relaxed);
    scheduler.spinning.fetch_add(1, Ordering::SeqCst);
    true
}

/// An M that has found work no longer looks for it; if it was the last that did, and Ps are idle, another takes its
/// place, since where one piece of work was there may be more. Go: `resetspinning`.
#[doc(alias = "resetspinning")]
fn stop_spinning<P: Platform>(machine: &'static Machine<P>) {
    if machine.spinning.swap(false, Ordering::Relaxed) {
        let scheduler = machine.scheduler();
        scheduler.spinning.fetch_sub(1, Ordering::SeqCst);
        scheduler.wake_processor();
    }
}
