//! Parking a G and making it runnable again: what every blocking operation is built on.

use core::mem::ManuallyDrop;

use crate::base::list::List;
use crate::engine::caller::Caller;
use crate::engine::lock_os_thread::ready_locked;
use crate::engine::observe;
use crate::engine::switch::{Commit, Leave, commit_closure, leave};
use crate::entities::bubble::Bubble;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
#[cfg(doc)]
use crate::entities::status::ParkedStatus;
use crate::entities::status::Status;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// Parks the calling G. Go: `gopark`.
///
/// `commit` runs when the G's context is saved, on another stack, pinned and briefly: it makes the G known to the one that
/// is to [`ready`] it (unlocks the queue that the G is in, say), or returns `false`, and the G goes on. From there on the G may
/// run and its stack change, also while the commit is still running: see the safety section of [`ready`]. Blocks; not
/// callable from interrupts.
///
/// A commit must not panic: it runs on the stack of another G, or of none. If it does, the program ends with a fatal error.
///
/// # Panics
///
/// The caller is not a G, or holds no P, or is pinned.
#[doc(alias = "gopark")]
#[inline]
pub fn park<P: Platform>(reason: WaitReason, commit: impl FnOnce(&Pinned<P>, &'static Goroutine<P>) -> bool) {
    park_pinned(Pinned::new(), reason, commit);
}

/// [`park`] for a caller that has pinned itself already, once.
#[inline]
pub(crate) fn park_pinned<P: Platform>(
    pinned: Pinned<P>,
    reason: WaitReason,
    commit: impl FnOnce(&Pinned<P>, &'static Goroutine<P>) -> bool,
) {
    park_because(Caller::of(pinned), reason, || reason, commit);
}

/// [`park_pinned`] for a wait of which it depends whether it is durable: a G of a bubble asks `in_bubble` for its reason.
#[inline]
pub(crate) fn park_because<P: Platform>(
    caller: Caller<P>,
    reason: WaitReason,
    in_bubble: impl FnOnce() -> WaitReason,
    commit: impl FnOnce(&Pinned<P>, &'static Goroutine<P>) -> bool,
) {
    let commit = ManuallyDrop::new(|pinned: &Pinned<P>, me: &'static Goroutine<P>| {
        if !commit(pinned, me) {
            ready_pinned(pinned, me);
        }
    });
    drop(park_with(caller, reason, in_bubble, commit_closure(&commit)));
}

/// [`park_pinned`] for a caller that knows where it is. `commit` makes the G known. Still pinned when the G goes on.
///
/// For a G of a bubble the reason is what `in_bubble` gives, so that the others need not look whose it is what they wait for.
#[inline(always)]
pub(crate) fn park_with<P: Platform>(
    caller: Caller<P>,
    reason: WaitReason,
    in_bubble: impl FnOnce() -> WaitReason,
    commit: Commit<P>,
) -> Pinned<P> {
    let (processor, me) = (caller.processor, caller.me);
    processor.counters.parks.add(1);
    me.set_waiting(reason, processor.watch.parked_status(), processor.clock());
    if let Some(bubble) = me.bubble() {
        return park_in_bubble(caller.pinned, bubble, in_bubble(), commit);
    }
    #[cfg(all(test, gmp_loom))]
    return crate::engine::stand_in::leave(caller, commit);
    #[cfg(not(all(test, gmp_loom)))]
    leave(caller, Leave::Park, commit)
}

/// The rest of a park of a G in a bubble, which counts those that do not wait.
#[cold]
#[inline(never)]
fn park_in_bubble<P: Platform>(
    pinned: Pinned<P>,
    bubble: &'static Bubble<P>,
    reason: WaitReason,
    commit: Commit<P>,
) -> Pinned<P> {
    let caller = Caller::of(pinned);
    let is_durable = reason.is_durable();
    caller.me.set_waiting_in_bubble(reason, is_durable);
    // All that it needs it takes along: once the G is known it may go on, and its stack be used again.
    let commit = ManuallyDrop::new(move |pinned: &Pinned<P>, me: &'static Goroutine<P>| {
        commit.run(pinned, me);
        // Last: whoever readied the G in between has counted it, so that the count is never too low.
        if is_durable {
            bubble.blocked(pinned);
        }
    });
    leave(caller, Leave::Park, commit_closure(&commit))
}

/// Makes a parked G runnable: next on the caller's P. Go: `goready`.
///
/// Callable on any thread: if that is not an M of the G's own scheduler, the G goes to the global queue there. Does not
/// block; not callable from interrupts.
///
/// # Safety
///
/// - The commit of the G's [`park`] made it known to the caller, and nobody else readies it for that park. A G that is found
///   waiting by other means may not have left its stack yet, and would run twice.
/// - Once it has made the G known, that commit uses nothing any more that is on the G's stack, or that the G owns or borrows:
///   what the commit still needs, it has moved into itself.
///
/// # Panics
///
/// The G is not parked.
#[doc(alias = "goready")]
#[expect(unsafe_code, reason = "the caller must be the one to which the commit made the G known")]
#[inline]
pub unsafe fn ready<P: Platform>(goroutine: &'static Goroutine<P>) {
    ready_pinned(&Pinned::new(), goroutine);
}

/// [`ready`] for a caller that is pinned.
#[inline(always)]
pub(crate) fn ready_pinned<P: Platform>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>) {
    if let Some(machine) = machine_to_queue_on(pinned, goroutine) {
        goroutine.set_status(Status::Runnable);
        #[cfg(all(test, gmp_loom))]
        if crate::engine::stand_in::ready(goroutine) {
            return;
        }
        match machine.processor() {
            Some(processor) => {
                processor.counters.readies.add(1);
                put_next(machine, processor, goroutine);
            }
            // In a system call whose P was given away.
            None => machine.scheduler().inject(goroutine),
        }
    }
}

/// Puts a G of this M's scheduler that has just become runnable where the current P finds it next.
#[inline(always)]
pub(crate) fn queue<P: Platform>(pinned: &Pinned<P>, goroutine: &'static Goroutine<P>) {
    let machine = pinned.machine();
    debug_assert!(machine.is_of_scheduler_of(goroutine), "{goroutine:?} is of another scheduler");
    match machine.processor() {
        Some(processor) => put_next(machine, processor, goroutine),
        // In a system call whose P was given away.
        None => machine.scheduler().inject(goroutine),
    }
}

/// Makes a parked G runnable, for the caller to run or to [`queue`]. Returns `None` if this M may do neither, since the G is
/// locked to another M or belongs to another scheduler: then it is on its way there.
#[inline(always)]
pub(crate) fn make_runnable<P: Platform>(
    pinned: &Pinned<P>,
    goroutine: &'static Goroutine<P>,
) -> Option<&'static Goroutine<P>> {
    let machine = machine_to_queue_on(pinned, goroutine)?;
    goroutine.set_status(Status::Runnable);
    if let Some(processor) = machine.processor() {
        processor.counters.readies.add(1);
    }
    Some(goroutine)
}

/// [`make_runnable`] of a G that is parked as [unwatched](ParkedStatus::unwatched) in the scheduler of `processor`: any of
/// its Ms may run it.
#[inline(always)]
pub(crate) fn make_unwatched_runnable<P: Platform>(processor: &Processor<P>, goroutine: &Goroutine<P>) {
    debug_assert!(goroutine.is_parked_as(processor.watch.unwatched()), "{goroutine:?} is not parked, or not like that");
    goroutine.set_status(Status::Runnable);
    processor.counters.readies.add(1);
}

/// The calling M, if it may queue `goroutine`, which is parked and about to become runnable. Returns `None` if the G is on its
/// way to where it may run.
#[inline(always)]
fn machine_to_queue_on<P: Platform>(
    pinned: &Pinned<P>,
    goroutine: &'static Goroutine<P>,
) -> Option<&'static Machine<P>> {
    match pinned.try_machine() {
        Some(machine) if goroutine.is_parked_as(machine.unwatched()) => Some(machine),
        here => ready_special(here, goroutine),
    }
}

/// The rest of [`machine_to_queue_on`] for a G that is watched, waits in a bubble, is locked to its M or belongs to another
/// scheduler than the M `here`, which is `None` on a thread that is no M.
#[cold]
#[inline(never)]
fn ready_special<P: Platform>(
    here: Option<&'static Machine<P>>,
    goroutine: &'static Goroutine<P>,
) -> Option<&'static Machine<P>> {
    assert_eq!(goroutine.status(), Status::Waiting, "readied a G that does not wait: {goroutine:?}");
    let here = here.filter(|machine| machine.is_of_scheduler_of(goroutine));
    if goroutine.is_waiting_in_bubble() {
        goroutine.bubble().expect("it says that it waits in one").unblocked();
    }
    if goroutine.is_waiting_watched() {
        match here.and_then(|machine| machine.processor().map(|processor| (machine, processor))) {
            Some((machine, processor)) => observe::runnable(machine, processor, goroutine, EventKind::Ready),
            None => observe::stamp(goroutine),
        }
    }
    if goroutine.is_waiting_locked() {
        ready_locked(here, goroutine);
        return None;
    }
    if here.is_none() {
        goroutine.scheduler().inject_from_outside(goroutine);
    }
    here
}

/// Puts a runnable G into `runnext` of the current P, and sees to it that the others hear of the work.
#[inline]
pub(crate) fn put_next<P: Platform>(
    machine: &'static Machine<P>,
    processor: &'static Processor<P>,
    goroutine: &'static Goroutine<P>,
) {
    if let Some(kicked) = processor.queue.push_next(goroutine)
        && processor.queue.push_back(kicked).is_err()
    {
        overflow(machine.scheduler(), processor, kicked);
    }
    if !processor.is_alone() {
        machine.scheduler().submitted_among_others();
    }
}

/// Puts a runnable G at the tail of the current P's ring. The caller calls `submitted`.
#[inline]
pub(crate) fn put_last<P: Platform>(
    scheduler: &'static Scheduler<P>,
    processor: &'static Processor<P>,
    goroutine: &'static Goroutine<P>,
) {
    if processor.queue.push_back(goroutine).is_err() {
        overflow(scheduler, processor, goroutine);
    }
}

/// The ring is full: moves half of it and `goroutine` to the global queue in one lock hold. Go: `runqputslow`.
#[cold]
fn overflow<P: Platform>(
    scheduler: &'static Scheduler<P>,
    processor: &'static Processor<P>,
    goroutine: &'static Goroutine<P>,
) {
    let mut batch = List::new();
    // If thieves made room in the meantime it goes into the ring after all.
    while !processor.queue.drain_half(|taken| batch.push_back(taken)) {
        if processor.queue.push_back(goroutine).is_ok() {
            return;
        }
    }
    batch.push_back(goroutine);
    processor.counters.overflows.add(1);
    scheduler.put_global(&mut scheduler.shared.lock(), &mut batch);
}

impl<P: Platform> Scheduler<P> {
    /// Puts a runnable G on the global queue and wakes an idle P for it. Callable without a P. Go: `injectglist`.
    #[doc(alias = "injectglist")]
    pub(crate) fn inject(&'static self, goroutine: &'static Goroutine<P>) {
        self.put_global_one(&mut self.shared.lock(), goroutine);
        self.wake_processor();
    }

    /// [`inject`](Self::inject) of a G of this scheduler that is not runnable yet, by a caller that is no M of it: makes it
    /// runnable.
    pub(crate) fn inject_from_outside(&'static self, goroutine: &'static Goroutine<P>) {
        {
            // In one hold: while every M is idle, a G that neither waits nor is on a queue would look like a deadlock of the
            // others to `check_dead`.
            let mut shared = self.shared.lock();
            goroutine.set_status(Status::Runnable);
            self.put_global_one(&mut shared, goroutine);
        }
        self.wake_processor();
    }
}
