//! The return from a system call: which P the G gets, and where the G goes if there is none.
//!
//! [`take_processor_back`] takes the old P or an idle one. If there is none, the G leaves its M, and a commit on g0
//! makes the G runnable again: [`requeue_without_processor`] or [`requeue_to_displace`].

use crate::base::atomic::{Ordering, fence};
use crate::base::points::Site;
use crate::engine::hooks;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::entities::status::Status;
use crate::platform::{Pinned, Platform};

/// Called when `machine`, the calling M, returns from a system call. Takes the old P back if no other M took it, or
/// else an idle P. Returns `None` if the M got no P, in which case it must not continue `me`. Go: `exitsyscallTryGetP`.
#[inline(always)]
pub(crate) fn take_processor_back<Plat: Platform>(
    pinned: &Pinned<Plat>,
    machine: &'static Machine<Plat>,
    me: &'static Goroutine<Plat>,
) -> Option<&'static Processor<Plat>> {
    let old = machine.old_processor.load(Ordering::Relaxed);
    Plat::point(Site::Syscall);
    // ANCHOR: take_processor_back
    let regained = match old {
        Some(processor) if processor.status.claim_from_syscall() => Some(processor),
        _ => machine.regain_processor(old),
    };
    // ANCHOR_END: take_processor_back
    let processor = regained?;
    machine.end_call(processor, me);
    // A timer interrupt that came during the call found no P on this M, and will not come again.
    processor.check_when_due(pinned);
    Some(processor)
}

/// Whether an M that has just taken a P at the end of a system call must release the P again, because the world is to
/// stop.
#[inline(always)]
pub(crate) fn has_to_stop<Plat: Platform>(scheduler: &Scheduler<Plat>) -> bool {
    // Ordering: the partner of this fence is the fence in `ask_to_stop`, where the reason is explained.
    fence(Ordering::SeqCst);
    scheduler.is_stopping()
}

/// Commit of a G that returns from [`syscall`](crate::engine::syscall::syscall) when [`take_processor_back`] has found
/// no P for it. The G goes to the global queue, because sysmon may have taken the P at the end of the slice of the G.
/// If the G went to a local queue, a G that makes calls in a loop would run before the Gs that wait for a slice.
pub(crate) fn requeue_without_processor<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    requeue(pinned, goroutine, |_| None);
}

/// Like [`requeue_without_processor`], for [`blocking`](crate::engine::syscall::blocking). If timer interrupts preempt
/// Gs, the G displaces another one.
pub(crate) fn requeue_to_displace<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    let displace = |machine| if Plat::TIMER_INTERRUPTS { processor_to_displace(machine, goroutine) } else { None };
    requeue(pinned, goroutine, displace);
}

/// Makes `goroutine` runnable, and puts it into the urgent queue of the P that `displace` returns, or else on the
/// global queue. This M, which had no P, becomes idle unless it gets its old P back. Runs on g0.
pub(crate) fn requeue<Plat: Platform>(
    pinned: &Pinned<Plat>,
    goroutine: &'static Goroutine<Plat>,
    displace: impl FnOnce(&'static Machine<Plat>) -> Option<&'static Processor<Plat>>,
) {
    let machine = pinned.machine();
    let scheduler = machine.scheduler();
    hooks::returned(machine, goroutine);
    goroutine.set_status(Status::Runnable);
    Plat::point_before_lock(Site::Syscall);
    let displaced = {
        // The following steps are one critical section. Otherwise `check_dead` could see this M on the idle list while
        // its G is on no queue, and report a deadlock.
        let mut shared = scheduler.shared.lock();
        settle(machine, &mut shared);
        let displaced = displace(machine);
        match displaced {
            Some(processor) => {
                goroutine.make_urgent(Plat::now());
                processor.put_urgent_from_outside(goroutine);
            }
            None => scheduler.put_global_one(&mut shared, None, goroutine),
        }
        match machine.processor() {
            Some(_) => {}
            None if goroutine.is_locked() => machine.begin_to_wait(&mut shared),
            None => scheduler.put_idle_machine(&mut shared, machine),
        }
        displaced
    };
    Plat::point(Site::Idle);
    scheduler.wake_processor();
    if let Some(holder) = displaced.and_then(|processor| scheduler.holder_of(processor)) {
        Plat::request_preemption(holder);
    }
}

/// Takes the old P if it was only stopped with the world, and otherwise counts this M as no longer blocked.
fn settle<Plat: Platform>(machine: &'static Machine<Plat>, shared: &mut Shared<Plat>) {
    match machine.old_processor.load(Ordering::Relaxed) {
        // When `take_processor_back` checked, the P was stopped with the world. The world has restarted since.
        Some(processor) if processor.status.claim_from_syscall() => machine.take(processor),
        // The world is still stopped, so the P is left stopped.
        Some(processor) if hooks::leave_stopped(processor) => {}
        // The P was handed off, by sysmon or by this M, and this M was counted as blocked.
        _ => unblock(machine, shared),
    }
}

fn unblock<Plat: Platform>(machine: &Machine<Plat>, shared: &mut Shared<Plat>) {
    shared.blocked_machines -= 1;
    hooks::note_surplus(machine.scheduler(), shared);
}

/// Returns the P on which `goroutine` displaces the running G after a blocking call on `machine`: the old P if it is in
/// use, or else another P. Returns `None` if `goroutine` is locked to its M, if the M has got its P back after all, or
/// if no P is in use by an M outside of a system call.
///
/// The caller holds the scheduler lock, so the P does not become idle before the G is in its urgent queue. If the P
/// becomes idle after that, its M sees the G when it checks for work a second time.
pub(crate) fn processor_to_displace<Plat: Platform>(
    machine: &'static Machine<Plat>,
    goroutine: &Goroutine<Plat>,
) -> Option<&'static Processor<Plat>> {
    if goroutine.is_locked() || machine.processor().is_some() {
        return None;
    }
    let old = machine.old_processor.load(Ordering::Relaxed);
    old.into_iter()
        .chain(machine.scheduler().processors())
        .find(|processor| processor.status() == ProcessorStatus::Running)
}

impl<Plat: Platform> Machine<Plat> {
    /// Returns an idle P for this M, whose P was taken during a system call, or `None` if no P is idle. Prefers `old`
    /// if that P is idle.
    fn regain_processor(&'static self, old: Option<&'static Processor<Plat>>) -> Option<&'static Processor<Plat>> {
        Plat::point(Site::Syscall);
        if self.scheduler().idle_processors.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut shared = self.scheduler().shared.lock();
        if old.is_some_and(|processor| processor.status.claim_from_syscall()) {
            // When the caller checked, `old` was stopped with the world. The world has restarted since, and no other M
            // has got `old`.
            return old;
        }
        // ANCHOR: regain_processor
        let processor = self.scheduler().take_idle_processor_preferring(&mut shared, old)?;
        unblock(self, &mut shared);
        processor.set_holder(self);
        Some(processor)
        // ANCHOR_END: regain_processor
    }
}
