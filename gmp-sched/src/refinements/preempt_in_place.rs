//! Preemption in place: a G is preempted, but keeps its M.
//!
//! On threads, a G may be interrupted while it holds a lock of the C library, in the middle of an allocation, or while
//! it uses thread-local variables. So no other G may run on its thread before it continues. Such a G gives its P up
//! where it is, and its thread waits until the M is assigned a P again. In this time the G is in the same state as a
//! runnable G that is [locked](crate::refinements::lock_os_thread) to its M: it is on the list of locked Gs, its M is
//! counted as blocked, and the M that finds the G on the list assigns its own P to the G's M.
//!
//! A G that gives way needs an idle M that takes its P over. This M must exist already, because the caller may be a
//! signal handler, which must not allocate. If there is none, the platform is asked to make one elsewhere. Meanwhile,
//! and also if as many Gs as allowed are preempted, a G whose slice is over passes its P to the G that has been preempted
//! for longest, and a G that has to give way for another reason continues.
//!
//! # Why each preempted G gets a P again
//!
//! The code here, and all code that passes a P on, takes only spinlocks of the scheduler. These are held only by pinned
//! code, which is not preempted. So it never waits for a preempted G. The M that gets the P is either the one of a G
//! that was preempted, or an idle one. On threads, the thread of an idle M has begun (`native::starting`), or needs no
//! lock of a library to begin (`native::bare_thread`). A G that waits for what a preempted G holds (a lock of the C
//! library, say) is preempted in its turn, whether it spins or blocks its thread. So the P comes to the list of locked
//! Gs, from which Gs are taken in FIFO order. (A displaced G goes to the head of the list, but only to use up its
//! slice.)

use core::time::Duration;

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::engine::enqueue::put_next_last;
use crate::engine::preempt::must_give_way;
use crate::engine::urgent::await_next;
use crate::engine::yield_now::has_nothing_else;
use crate::entities::events::Leave;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::entities::status::Status;
use crate::platform::{Parking, Pinned, Platform};
use crate::record::trace::{EventKind, PreemptReason};

/// Who gets the P of a G that is preempted in place.
#[derive(Clone, Copy, Debug)]
enum Successor<Plat: Platform> {
    /// An idle M, which picks what to run.
    IdleMachine,
    /// This M, whose G was preempted before.
    Preempted(&'static Machine<Plat>),
}

/// Lets the calling G give its P up, if it has to give way and something else can run. Returns when its M has a P again.
/// The caller is a G that is pinned once, or a handler that has interrupted such a G and has raised the pin. It is on
/// the same M when this returns. `limit` is how many Gs of a scheduler may be preempted in place at the same time. Does
/// not allocate.
pub(crate) fn give_way_in_place<Plat: Platform>(pinned: &Pinned<Plat>, limit: u32) {
    let Some(machine) = pinned.try_machine() else { return };
    let (Some(me), Some(processor)) = (machine.current_goroutine(), machine.processor()) else { return };
    if me.status() != Status::Running || machine.are_waits_forbidden() || !must_give_way(machine) {
        return;
    }
    if has_nothing_else(machine.scheduler(), processor) {
        // As after a yield that finds nothing to run, a new slice begins.
        processor.advance_tick();
        return;
    }
    let Some(reason) = reason_to_give_way(machine.scheduler(), processor) else { return };
    let Some(successor) = machine.secure_to_preempt(me, reason, limit) else { return };
    machine.give_up(me, processor, reason, successor);
    continue_in_place(pinned, machine, me);
}

/// Waits until `machine`, the calling M, has a P again for `me`, which was preempted in place, and continues `me`.
pub(crate) fn continue_in_place<Plat: Platform>(
    pinned: &Pinned<Plat>,
    machine: &'static Machine<Plat>,
    me: &'static Goroutine<Plat>,
) {
    let processor = loop {
        // As in `wait_for_locked`, but the thread does not end with the scheduler: the G has not ended.
        if machine.take_assigned()
            && let Some(processor) = machine.processor()
        {
            break processor;
        }
        Plat::park_thread(Parking::new(pinned), None);
    };
    processor.advance_tick();
    // A G that was displaced continues its slice. Otherwise a G that is displaced often would never use up a slice, and
    // the Gs behind it in the queue would starve.
    let now = Plat::now();
    let used = Duration::from_nanos(machine.locked.used.swap(0, Ordering::Relaxed));
    processor.slice.begin(processor.tick(), now - used);
    await_next(pinned, processor, now);
    processor.check_when_due(pinned);
    me.set_status(Status::Running);
    machine.set_current(Some(me));
    machine.end_preemption(me);
    processor.tracer.note::<Plat>(EventKind::Start, Some(me.id()), 0);
}

/// Why the G on `processor`, which has to give way, does so. Returns `None` if only an urgent G waits, and
/// another G was displaced on this P a short time ago.
fn reason_to_give_way<Plat: Platform>(
    scheduler: &Scheduler<Plat>,
    processor: &Processor<Plat>,
) -> Option<PreemptReason> {
    if scheduler.is_stopping() {
        return Some(PreemptReason::WorldStop);
    }
    if processor.is_slice_over() {
        return Some(PreemptReason::Slice);
    }
    let now = Plat::now();
    if processor.undisturbed_until() > now {
        return None;
    }
    processor.slice.undisturbed_since.store(now.as_nanos(), Ordering::Relaxed);
    Some(PreemptReason::Urgent)
}

impl<Plat: Platform> Processor<Plat> {
    /// For how long the current slice has lasted at `now`. Zero if sysmon has not seen that it has begun.
    fn slice_so_far(&self, now: Instant) -> Duration {
        if self.slice.seen.load(Ordering::Relaxed) == self.tick() { now - self.slice.began() } else { Duration::ZERO }
    }
}

impl<Plat: Platform> Machine<Plat> {
    /// Chooses who gets the P when `me`, the G of this M, is preempted. Locks `me` to this M, unless it is locked already.
    /// Returns `None` if there is nobody; then `me` continues. Requests an M if one is lacking.
    fn secure_to_preempt(
        &'static self,
        me: &'static Goroutine<Plat>,
        reason: PreemptReason,
        limit: u32,
    ) -> Option<Successor<Plat>> {
        let scheduler = self.scheduler();
        let mut shared = scheduler.shared.lock();
        // The world has to stop even at the limit, so there may be one more preempted G for each P.
        let is_allowed = |shared: &Shared<Plat>| shared.preempted < limit || reason == PreemptReason::WorldStop;
        // A locked G has secured an M when it was locked.
        let has_machine = me.is_locked() || is_allowed(&shared) && shared.has_surplus();
        // When the scheduler is shut down, its idle Ms end.
        let successor = if has_machine && !scheduler.is_shut_down() {
            Some(Successor::IdleMachine)
        } else if reason == PreemptReason::Slice {
            scheduler.take_preempted(&mut shared).map(Successor::Preempted)
        } else {
            None
        };
        if successor.is_some() && !me.is_locked() {
            shared.blocked_machines += 1;
            shared.preempted += 1;
            shared.update_surplus(Instant::NEVER);
            me.set_locked_machine(Some(self));
            self.locked.goroutine.store(Some(me), Ordering::Relaxed);
            self.locked.is_preempted.store(true, Ordering::Relaxed);
            self.note_lock(EventKind::LockThread, me);
        }
        if is_allowed(&shared) && !shared.has_surplus() {
            // For `me`, if it has to continue now, or else for the next G that has to give way.
            Plat::request_machine(scheduler);
        }
        successor
    }

    /// Puts `me`, the G of this M, on the list of locked Gs, and hands `processor` to `successor`.
    fn give_up(
        &'static self,
        me: &'static Goroutine<Plat>,
        processor: &'static Processor<Plat>,
        reason: PreemptReason,
        successor: Successor<Plat>,
    ) {
        let scheduler = self.scheduler();
        self.note_leave(me, None, Leave::GiveWay(reason));
        if reason == PreemptReason::Slice {
            processor.counters.preemptions.add(1);
            if scheduler.policy().is_none() {
                processor.pass_slice_on(scheduler, me.is_urgent(Plat::now()));
            }
        } else {
            if reason == PreemptReason::Urgent {
                processor.counters.displacements.add(1);
            }
            // The G continues after the urgent one and those that this one readies, in the rest of its slice.
            let used = u64::try_from(processor.slice_so_far(Plat::now()).as_nanos()).unwrap_or(u64::MAX);
            self.locked.used.store(used.max(1), Ordering::Relaxed);
            put_next_last(scheduler, processor);
            processor.request_global_check();
        }
        {
            let mut shared = scheduler.shared.lock();
            self.set_current(None);
            self.set_processor(None);
            me.set_status(Status::Runnable);
            processor.tracer.note::<Plat>(EventKind::GlobalPut, Some(me.id()), 0);
            if reason == PreemptReason::Slice {
                shared.locked.push_back(me);
            } else {
                shared.locked.push_front(me);
            }
            scheduler.publish_global_length(&shared);
            self.begin_to_wait(&mut shared);
            if let Successor::Preempted(next) = successor {
                next.assign_to_locked(&mut shared, processor);
            }
        }
        match successor {
            Successor::IdleMachine => scheduler.hand_off(processor),
            Successor::Preempted(next) => Plat::unpark_thread(next),
        }
        // Another P may be idle, even if the P went to a preempted G: for a moment neither G was on the list, so another M
        // may have found no work.
        scheduler.submitted();
    }

    /// Called when `me` continues. Unlocks it, unless it was locked before it was preempted.
    fn end_preemption(&'static self, me: &'static Goroutine<Plat>) {
        if self.locked.is_preempted.swap(false, Ordering::Relaxed) {
            me.set_locked_machine(None);
            self.locked.goroutine.store(None, Ordering::Relaxed);
            self.note_lock(EventKind::UnlockThread, me);
            let mut shared = self.scheduler().shared.lock();
            shared.blocked_machines -= 1;
            shared.preempted -= 1;
        }
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Takes the first G that was preempted in place, if there is one, off the list of locked Gs. Returns its M.
    fn take_preempted(&self, shared: &mut Shared<Plat>) -> Option<&'static Machine<Plat>> {
        let is_preempted = |machine: &&'static Machine<Plat>| machine.locked.is_preempted.load(Ordering::Relaxed);
        let found = shared.locked.take_first(|goroutine| goroutine.locked_machine().filter(is_preempted).is_some());
        self.publish_global_length(shared);
        found?.locked_machine()
    }
}

/// Whether a G of `scheduler` is preempted in place. Takes a lock; not callable from interrupts.
pub(crate) fn has_preempted<Plat: Platform>(scheduler: &Scheduler<Plat>) -> bool {
    let _pinned = Pinned::<Plat>::of_scheduler();
    scheduler.shared.lock().preempted != 0
}

/// Makes an M for `scheduler`, unless there are more Ms than needed. Called by the thread of the platform that
/// [`Platform::request_machine`] has asked.
pub(crate) fn make_spare_machine<Plat: Platform>(scheduler: &'static Scheduler<Plat>) {
    let pinned = Pinned::<Plat>::of_scheduler();
    let has_surplus = scheduler.shared.lock().has_surplus();
    drop(pinned);
    if !has_surplus {
        // If there is no memory, the request is repeated when a G has to give way.
        let _ = scheduler.add_machine();
    }
}
