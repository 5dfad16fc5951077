//! The schedulers of this process: which run, on how many threads, and which have ended and can be used again.
//!
//! No part of a scheduler is ever freed, because handles and wakers may refer to its Gs at any later time. So a
//! [`run`](super::Threads::run) reuses a scheduler whose last run has ended. A scheduler with a G that is not dead, or
//! with a timer that is set, is not reused, because that G or timer would continue in the next run.

use alloc::vec::Vec;
use std::sync::{Condvar, Mutex, PoisonError};

use super::{Native, PROCS_LIMIT, bare_thread, lock};
use crate::base::id::GoroutineId;
use crate::entities::goroutine::Goroutine;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;

/// A scheduler in use.
struct InUse {
    scheduler: &'static Scheduler<Native>,
    /// The number of its users: the threads of its Ms, sysmon, and the call of `run`.
    users: usize,
    /// Whether the output of its Gs may be captured. See [`bare_thread::may_capture_output`].
    is_captured: bool,
}

struct Pool {
    in_use: Vec<InUse>,
    /// Schedulers without a user and without a living G. Some may have Gs that were never started, or timers that are
    /// set. Such a scheduler is reused only after the handles of these Gs and timers have been dropped.
    ended: Vec<&'static Scheduler<Native>>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { in_use: Vec::new(), ended: Vec::new() });

/// Notified when a scheduler has one user fewer.
static GONE: Condvar = Condvar::new();

impl Pool {
    fn entry_of(&self, scheduler: &'static Scheduler<Native>) -> usize {
        let position = self.in_use.iter().position(|other| core::ptr::eq(other.scheduler, scheduler));
        position.expect("a scheduler is in use while it has users")
    }

    /// Removes a user. If this was the last user and no G is alive, the scheduler becomes available to later runs. If a
    /// G is still alive, it stays alive for ever, because nothing runs it any more. So its scheduler is never reused.
    fn remove_user(&mut self, scheduler: &'static Scheduler<Native>) {
        let position = self.entry_of(scheduler);
        self.in_use[position].users -= 1;
        if self.in_use[position].users == 0 {
            self.in_use.swap_remove(position);
            if scheduler.num_goroutine() == 0 {
                self.ended.push(scheduler);
            }
        }
        GONE.notify_all();
    }
}

/// Returns a scheduler for a run with `processors` Ps. The caller is one of its users until it calls [`leave`].
#[track_caller]
pub(super) fn enter(processors: usize) -> &'static Scheduler<Native> {
    let limit = processors.max(PROCS_LIMIT);
    let mut pool = lock(&POOL);
    let fits = |ended: &&'static Scheduler<Native>| ended.procs_limit() >= limit && is_over(ended);
    let scheduler = match pool.ended.iter().position(fits) {
        Some(position) => {
            let scheduler = pool.ended.swap_remove(position);
            scheduler.renew(processors);
            scheduler
        }
        None => Scheduler::with_limit(processors, limit),
    };
    pool.in_use.push(InUse { scheduler, users: 1, is_captured: bare_thread::may_capture_output() });
    scheduler
}

/// Called when a run is over or could not start, and its scheduler has been shut down. If all Gs, except perhaps the
/// main G, are dead or were never started, waits until the threads of the scheduler's Ms have ended. Otherwise returns
/// at once, because another G may run or wait for ever. The last thread to end makes the scheduler available to later
/// runs, if no G is alive by then.
pub(super) fn leave(scheduler: &'static Scheduler<Native>) {
    // The main G counts as dead here. It has sent its result, and may still be on its last steps.
    let is_dead = |goroutine: &Goroutine<Native>| matches!(goroutine.status(), Status::Dead | Status::Idle);
    let only_main_is_left = || scheduler.goroutines().all(|other| is_dead(other) || other.id() == GoroutineId::MAIN);
    let mut pool = lock(&POOL);
    while pool.in_use[pool.entry_of(scheduler)].users > 1 && only_main_is_left() {
        pool = GONE.wait(pool).unwrap_or_else(PoisonError::into_inner);
    }
    pool.remove_user(scheduler);
}

/// Counts the thread that is about to be made for an M of `scheduler`. The caller is a user of the scheduler. Returns
/// whether the output of the thread may be captured.
pub(super) fn thread_begins(scheduler: &'static Scheduler<Native>) -> bool {
    let mut pool = lock(&POOL);
    let position = pool.entry_of(scheduler);
    pool.in_use[position].users += 1;
    pool.in_use[position].is_captured
}

/// Removes the thread of an M from the users of `scheduler`, because the thread no longer uses the scheduler or could
/// not be made.
pub(super) fn thread_ends(scheduler: &'static Scheduler<Native>) {
    lock(&POOL).remove_user(scheduler);
}

/// Calls `act` with each scheduler that is in use. The caller is a user of the scheduler meanwhile.
pub(super) fn for_each_in_use(act: impl Fn(&'static Scheduler<Native>)) {
    let mut in_use: Vec<&'static Scheduler<Native>> = Vec::new();
    for entry in &mut lock(&POOL).in_use {
        entry.users += 1;
        in_use.push(entry.scheduler);
    }
    for scheduler in in_use {
        act(scheduler);
        lock(&POOL).remove_user(scheduler);
    }
}

/// Whether nothing of the last run can continue in the next: every slot of a G is dead, and no timer is set.
fn is_over(scheduler: &'static Scheduler<Native>) -> bool {
    scheduler.goroutines().all(|goroutine| goroutine.status() == Status::Dead)
        && scheduler.processors_ever().iter().all(|processor| processor.timers.len() == 0)
}
