//! Where a runnable G goes: sentences 5 to 10 of `docs/policy.md`. (A locked G goes to the list of locked Gs, see
//! `put_global_one`.)
//!
//! After the G has been enqueued, an M is woken if a P is idle and no M spins (see `wake`). So the G does not wait
//! while a P is idle.

use crate::engine::hooks;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::platform::{Pinned, Platform};
use crate::policy::Cause;

/// Puts a G of this M's scheduler that has just become runnable into `runnext`, or, without a P, on the global queue.
pub(crate) fn enqueue_next<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    let machine = pinned.machine();
    enqueue_next_on(machine, machine.processor(), goroutine);
}

/// Like [`enqueue_next`], for a caller that knows its M and the P, if any, that this M holds.
#[inline(always)]
pub(crate) fn enqueue_next_on<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: Option<&'static Processor<Plat>>,
    goroutine: &'static Goroutine<Plat>,
) {
    debug_assert!(machine.is_of_scheduler_of(goroutine), "{goroutine:?} is of another scheduler");
    match processor {
        Some(processor) => put_next(machine, processor, goroutine),
        // The caller is in a system call.
        None => machine.scheduler().inject(goroutine),
    }
}

/// Puts a runnable G into `runnext` of the current P. The G that was in `runnext` before goes to the tail of the
/// ring.
#[inline]
pub(crate) fn put_next<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    goroutine: &'static Goroutine<Plat>,
) {
    if let Some(kicked) = processor.queue.push_next(goroutine) {
        put_last(machine.scheduler(), processor, kicked);
    }
    if !processor.is_alone() {
        notice(machine, processor, Cause::Readied);
    }
}

/// Makes sure that an M notices the Gs that the caller has put into the local queue of `processor`.
#[inline(always)]
fn notice<Plat: Platform>(machine: &'static Machine<Plat>, processor: &'static Processor<Plat>, cause: Cause) {
    match machine.scheduler().policy() {
        None => machine.scheduler().submitted(),
        Some(_) => hooks::place_queued(machine, processor, cause),
    }
}

/// Puts a runnable G at the tail of the current P's ring. The caller must wake an M afterwards if another P may be
/// idle. If the ring is full, half of it and the G go to the global queue, and this function itself wakes an M if a P
/// is idle.
#[inline]
pub(crate) fn put_last<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
    goroutine: &'static Goroutine<Plat>,
) {
    if processor.queue.push_back(goroutine).is_err() {
        overflow(scheduler, processor, goroutine);
    }
}

/// Moves the G in `runnext`, if there is one, to the tail of the ring, so that it does not inherit the current slice.
/// Returns whether there was one.
pub(crate) fn put_next_last<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
) -> bool {
    let Some(next) = processor.kick_next() else { return false };
    put_last(scheduler, processor, next);
    true
}

/// Called when the ring is full: moves half of it and `goroutine` to the global queue, in one critical section. Go:
/// `runqputslow`.
#[cold]
#[inline(never)]
fn overflow<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    processor: &'static Processor<Plat>,
    goroutine: &'static Goroutine<Plat>,
) {
    let half = loop {
        if let Some(half) = processor.queue.drain_half() {
            break half;
        }
        // If thieves have made room in the meantime, `goroutine` goes into the ring after all.
        if processor.queue.push_back(goroutine).is_ok() {
            return scheduler.submitted();
        }
    };
    processor.counters.overflows.add(1);
    scheduler.put_global_half(&mut scheduler.shared.lock(), processor, half, goroutine);
    scheduler.submitted();
}

// The functions `requeue_…` are commits (see `switch`). Each of them makes the G that has just left its M runnable.

/// Called by the commit of a yield if the global queue is empty or a policy is installed. Puts the G at the tail of the
/// ring.
#[inline(always)]
pub(crate) fn requeue_last<Plat: Platform>(
    pinned: &Pinned<Plat>,
    processor: &'static Processor<Plat>,
    goroutine: &'static Goroutine<Plat>,
) {
    goroutine.set_status(Status::Runnable);
    if processor.queue.push_back(goroutine).is_err() {
        overflow(goroutine.scheduler(), processor, goroutine);
    } else if !processor.is_alone() {
        notice(pinned.machine(), processor, Cause::Yielded);
    }
}

/// Commit of a preemption at the end of a slice, of a yield while the global queue has work, and of a yield of a locked
/// G.
pub(crate) fn requeue_global<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    requeue(pinned, goroutine, put_global);
}

/// Commit of a G that is displaced, or that is stopped with the world. Puts the G into `runnext`.
pub(crate) fn requeue_next<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    requeue(pinned, goroutine, put_next);
}

/// Commit of an urgent G that has to give way because the slice is over. Puts the G back at the tail of the urgent
/// queue. Called on g0, whose next pick checks this queue.
pub(crate) fn requeue_urgent<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    requeue(pinned, goroutine, |_, processor, goroutine| processor.put_urgent(goroutine));
}

/// Makes `goroutine` runnable and passes it to `put`. But a locked G goes to the list of locked Gs, and if the program
/// has installed a policy, that decides where the G goes.
#[inline(always)]
fn requeue<Plat: Platform>(
    pinned: &Pinned<Plat>,
    goroutine: &'static Goroutine<Plat>,
    put: impl FnOnce(&'static Machine<Plat>, &'static Processor<Plat>, &'static Goroutine<Plat>),
) {
    let machine = pinned.machine();
    let processor = machine.held_processor();
    hooks::runnable_again(processor, goroutine);
    goroutine.set_status(Status::Runnable);
    if goroutine.is_locked() {
        put_global(machine, processor, goroutine);
    } else if !hooks::place_displaced(pinned, goroutine) {
        put(machine, processor, goroutine);
    }
}

/// Puts a runnable G at the tail of the global queue, or on the list of locked Gs if it is locked.
fn put_global<Plat: Platform>(
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
    goroutine: &'static Goroutine<Plat>,
) {
    let scheduler = machine.scheduler();
    scheduler.put_global_one(&mut scheduler.shared.lock(), Some(processor), goroutine);
    scheduler.submitted();
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Puts a runnable G on the global queue, and wakes an M if a P is idle and no M is spinning. Callable without a P.
    /// Go: `injectglist`.
    #[doc(alias = "injectglist")]
    pub(crate) fn inject(&'static self, goroutine: &'static Goroutine<Plat>) {
        self.put_global_one(&mut self.shared.lock(), None, goroutine);
        self.wake_processor();
    }

    /// Makes a G of this scheduler runnable and [injects](Self::inject) it. The caller is not an M of this scheduler,
    /// or is an M that holds no P.
    ///
    /// As soon as the G can run, the scheduler may end and be used again. So after the critical section, this function
    /// uses only the park token of the M that it unparks.
    pub(crate) fn inject_from_outside(&'static self, goroutine: &'static Goroutine<Plat>) {
        let woken = {
            // One critical section: otherwise `check_dead` could see a G that neither waits nor is on a queue, and
            // report a deadlock of the other Gs.
            let mut shared = self.shared.lock();
            goroutine.set_status(Status::Runnable);
            self.put_global_one(&mut shared, None, goroutine);
            self.assign_searcher(&mut shared)
        };
        if let Some(machine) = woken {
            Plat::unpark_thread(machine);
        }
    }
}
