//! The schedulers of this process that run, and whether anybody else is going to wake their Gs. A G of one may be woken by a G
//! of another, so it takes all of them to say that nothing will ever run again.

use alloc::vec::Vec;
use std::sync::Mutex;

use super::{Native, lock};
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

struct Alive {
    schedulers: Vec<&'static Scheduler<Native>>,
    /// [`ExpectedWakes`] in existence.
    expected: usize,
}

static ALIVE: Mutex<Alive> = Mutex::new(Alive { schedulers: Vec::new(), expected: 0 });

impl Alive {
    /// Has all idle Ms look again whether they wait for nothing: what has kept them from a deadlock may be gone.
    fn look_again(&self) {
        for machine in self.schedulers.iter().flat_map(|scheduler| scheduler.machines()) {
            Native::unpark_thread(machine);
        }
    }
}

/// `scheduler` begins to run Gs.
pub(super) fn enter(scheduler: &'static Scheduler<Native>) {
    lock(&ALIVE).schedulers.push(scheduler);
}

/// `scheduler` is about to be shut down.
pub(super) fn leave(scheduler: &'static Scheduler<Native>) {
    let mut alive = lock(&ALIVE);
    alive.schedulers.retain(|other| !core::ptr::eq(*other, scheduler));
    alive.look_again();
}

/// Whether nothing runs in any scheduler, `asks` among them, and nothing will by itself. `false` if `asks` has left meanwhile.
pub(super) fn are_all_dead(asks: &'static Scheduler<Native>) -> bool {
    let alive = lock(&ALIVE);
    let mut held = Vec::new();
    // All locks are held in the end: a wake from one scheduler to another is made by an M that is not idle. Nobody else holds
    // more than one of them.
    alive.expected == 0
        && alive.schedulers.iter().any(|scheduler| core::ptr::eq(*scheduler, asks))
        && alive.schedulers.iter().all(|scheduler| {
            let shared = scheduler.shared.lock();
            let is_dead = scheduler.is_dead(&shared).is_some();
            held.push(shared);
            is_dead
        })
}

/// While this exists no deadlock is reported. See [`expect_wakes`].
#[derive(Debug)]
#[must_use = "wakes are expected until this is dropped"]
pub struct ExpectedWakes {
    _private: (),
}

/// Says that a thread that is no M is going to wake Gs until this is dropped: by a channel, a lock or any other handle that it
/// has, or by another scheduler that it is about to [run](super::Threads::run).
///
/// What such threads will do is not known to the schedulers of the process: when all their Gs wait they report a deadlock. (A G
/// that waits for a thread in [`blocking`](super::blocking) or for a [future](super::block_on) is no deadlock in any case.)
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
        alive.look_again();
    }
}
