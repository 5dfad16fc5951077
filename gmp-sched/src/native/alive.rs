//! The running schedulers of this process, and whether threads that are not Ms are expected to wake Gs. A G of one
//! scheduler may be woken by a G of another, so a deadlock is reported only if the Gs of all schedulers wait.

use alloc::vec::Vec;
use std::sync::Mutex;

use super::{Native, lock};
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

struct Alive {
    schedulers: Vec<&'static Scheduler<Native>>,
    /// Number of [`ExpectedWakes`] in existence.
    expected: usize,
}

static ALIVE: Mutex<Alive> = Mutex::new(Alive { schedulers: Vec::new(), expected: 0 });

impl Alive {
    /// Unparks all Ms, so that the idle ones repeat the deadlock check. Called when a scheduler has left or an
    /// [`ExpectedWakes`] was dropped, because from then on the check may find a deadlock that it could not report
    /// before.
    fn recheck_deadlock(&self) {
        for machine in self.schedulers.iter().flat_map(|scheduler| scheduler.machines()) {
            Native::unpark_thread(machine);
        }
    }
}

/// Registers a scheduler that begins to run Gs.
pub(super) fn enter(scheduler: &'static Scheduler<Native>) {
    lock(&ALIVE).schedulers.push(scheduler);
}

/// Unregisters a scheduler that is about to shut down.
pub(super) fn leave(scheduler: &'static Scheduler<Native>) {
    let mut alive = lock(&ALIVE);
    alive.schedulers.retain(|other| !core::ptr::eq(*other, scheduler));
    alive.recheck_deadlock();
}

/// Whether nothing runs in any registered scheduler, and nothing can run again. Returns `false` if an [`ExpectedWakes`]
/// exists, or if `asks`, the caller's scheduler, is not registered.
pub(super) fn are_all_dead(asks: &'static Scheduler<Native>) -> bool {
    let alive = lock(&ALIVE);
    // The memory is allocated before the first lock of a scheduler is taken. A preempted G may hold the allocator's lock,
    // and it does not continue while the lock of its scheduler is held.
    let mut held = Vec::with_capacity(alive.schedulers.len());
    // The locks of all schedulers stay held until the last check is done, so that all checks describe the same moment.
    // A scheduler that was found dead stays dead until then. All its Ms are idle, and an M of another scheduler cannot
    // wake one of its Gs, because enqueuing the G needs the lock. An M that waits for the lock is not idle, so its own
    // scheduler is not found dead.
    //
    // Taking all locks cannot deadlock. `ALIVE` is locked, so only one thread at a time takes all of them. No other
    // code holds more than one of them, or waits for `ALIVE` while it holds one.
    alive.expected == 0
        && alive.schedulers.iter().any(|scheduler| core::ptr::eq(*scheduler, asks))
        && alive.schedulers.iter().all(|scheduler| {
            let shared = scheduler.shared.lock();
            let is_dead = scheduler.is_dead(&shared).is_some();
            held.push(shared);
            is_dead
        })
}

/// While a value of this type exists, no deadlock is reported. See [`expect_wakes`].
#[derive(Debug)]
#[must_use = "wakes are expected until this is dropped"]
pub struct ExpectedWakes {
    _private: (),
}

/// Declares, until the returned value is dropped, that a thread that is not an M will wake Gs. The thread may do this
/// through a channel, a lock or another handle, or from another scheduler that it is about to
/// [run](super::Threads::run).
///
/// The schedulers of the process do not know about such threads, so without this declaration they report a deadlock
/// when all Gs wait. (A G that waits for a thread in [`blocking`](super::blocking) or for a future never counts as a
/// deadlock.)
///
/// ```
/// use gmp_sched::native;
///
/// let expected = native::expect_wakes();
/// let (sender, receiver) = native::channel(0);
/// let thread = std::thread::spawn(move || {
///     std::thread::sleep(std::time::Duration::from_millis(10));
///     while sender.try_send(7).is_err() {}
///     drop(expected);
/// });
/// assert_eq!(unsafe { native::enter() }.run(1, move || receiver.recv()), Ok(7));
/// thread.join().unwrap();
/// ```
pub fn expect_wakes() -> ExpectedWakes {
    lock(&ALIVE).expected += 1;
    ExpectedWakes { _private: () }
}

impl Drop for ExpectedWakes {
    fn drop(&mut self) {
        let mut alive = lock(&ALIVE);
        alive.expected -= 1;
        alive.recheck_deadlock();
    }
}
