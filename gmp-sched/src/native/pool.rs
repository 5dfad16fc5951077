//! The schedulers of this process: which run, on how many threads, and which have ended and can be used again.
//!
//! Nothing of a scheduler is ever freed, because handles and wakers may refer to its Gs without limit. So a
//! [`run`](super::Threads::run) reuses a scheduler that has ended, if there is one; its Gs are all dead, so it is as
//! good as a new one. A scheduler is not reused if Gs are left that wait, or timers that are set: they would continue
//! in the next run.

use alloc::vec::Vec;
use std::sync::{Condvar, Mutex, PoisonError};

use super::{Native, PROCS_LIMIT, lock};
use crate::base::id::GoroutineId;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::platform::{Platform, SLICE};

struct Pool {
    /// The schedulers in use, each with the number of its users: the threads of its Ms, and the call of `run`.
    in_use: Vec<(&'static Scheduler<Native>, usize)>,
    /// Schedulers without a user, to be used again.
    free: Vec<&'static Scheduler<Native>>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { in_use: Vec::new(), free: Vec::new() });

/// Notified when a scheduler has one user fewer.
static GONE: Condvar = Condvar::new();

impl Pool {
    fn entry_of(&self, scheduler: &'static Scheduler<Native>) -> usize {
        let position = self.in_use.iter().position(|(other, _)| core::ptr::eq(*other, scheduler));
        position.expect("a scheduler is in use while it has users")
    }

    /// Removes one user. After the last one, keeps the scheduler for a later run, if it can be used again.
    fn remove_user(&mut self, scheduler: &'static Scheduler<Native>) {
        let position = self.entry_of(scheduler);
        self.in_use[position].1 -= 1;
        if self.in_use[position].1 == 0 {
            self.in_use.swap_remove(position);
            if can_be_renewed(scheduler) {
                self.free.push(scheduler);
            }
        }
        GONE.notify_all();
    }
}

/// Returns a scheduler for a run with that many Ps. The caller is one of its users until it calls [`leave`].
pub(super) fn enter(processors: usize) -> &'static Scheduler<Native> {
    let limit = processors.max(PROCS_LIMIT);
    let mut pool = lock(&POOL);
    let scheduler = match pool.free.iter().position(|free| free.procs_limit() >= limit) {
        Some(position) => {
            let scheduler = pool.free.swap_remove(position);
            scheduler.renew(processors);
            scheduler
        }
        None => Scheduler::with_limit(processors, limit),
    };
    pool.in_use.push((scheduler, 1));
    scheduler
}

/// Ends a run whose scheduler has been shut down. Waits for the threads of its Ms to end, unless Gs are left. Those
/// that wait do so forever, so their threads are not waited for. Those that run may be about to end, so the threads get
/// the time of one slice.
pub(super) fn leave(scheduler: &'static Scheduler<Native>) {
    let deadline = Native::now() + Native::slice().min(SLICE);
    let mut pool = lock(&POOL);
    while pool.in_use[pool.entry_of(scheduler)].1 > 1 {
        pool = match left(scheduler) {
            Left::None => GONE.wait(pool).unwrap_or_else(PoisonError::into_inner),
            Left::Running if Native::now() < deadline => {
                let time = deadline - Native::now();
                GONE.wait_timeout(pool, time).unwrap_or_else(PoisonError::into_inner).0
            }
            Left::Running | Left::Waiting => break,
        };
    }
    pool.remove_user(scheduler);
}

/// Counts the thread that is about to be made for an M of `scheduler`. The caller is a user of the scheduler.
pub(super) fn thread_begins(scheduler: &'static Scheduler<Native>) {
    let mut pool = lock(&POOL);
    let position = pool.entry_of(scheduler);
    pool.in_use[position].1 += 1;
}

/// Removes the thread of an M from the users of `scheduler`: it no longer uses the scheduler, or could not be made.
pub(super) fn thread_ends(scheduler: &'static Scheduler<Native>) {
    lock(&POOL).remove_user(scheduler);
}

/// Which Gs besides the main G are alive.
#[derive(Clone, Copy)]
enum Left {
    None,
    /// Some, and all of them run or are runnable.
    Running,
    /// Some, of which at least one waits or is in a system call.
    Waiting,
}

fn left(scheduler: &'static Scheduler<Native>) -> Left {
    let others = scheduler.goroutines().filter(|goroutine| goroutine.id() != GoroutineId::MAIN);
    others.fold(Left::None, |left, goroutine| match (goroutine.status(), left) {
        (Status::Waiting | Status::Syscall, _) | (_, Left::Waiting) => Left::Waiting,
        (Status::Runnable | Status::Running, _) => Left::Running,
        (Status::Dead | Status::Idle, left) => left,
    })
}

/// Whether nothing of the last run could continue in the next one: all Gs are dead, and no timer is set.
fn can_be_renewed(scheduler: &'static Scheduler<Native>) -> bool {
    scheduler.num_goroutine() == 0
        && scheduler.processors_ever().iter().all(|processor| processor.timers.try_len() == Some(0))
}
