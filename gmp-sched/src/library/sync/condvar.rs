//! Waiting, with a mutex, for something to become true. Go: `sync.Cond` (sync/cond.go, go1.27).

#![expect(unsafe_code, reason = "unlocks the mutex of a guard that it is lent")]

use core::fmt;
use core::time::Duration;

use lock_api::GuardSend;

use super::blocking::{Blocking, Roused, my_waiter, ready};
use super::mutex::RawMutex;
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::WaitReason;
use crate::library::cancel::Limit;
use crate::library::time::{Instant, now};
use crate::library::waiter::{WaitQueue, Waiter};
use crate::platform::{Pinned, Platform};

/// Waiting for something that a [`Mutex`](super::Mutex) guards to become true. Go: `sync.Cond`.
///
/// [`wait`](lock_api::Condvar::wait) unlocks the mutex, waits to be notified, and locks it again. First in, first out; a
/// wait ends by a notification or its deadline and never without reason, and the numbers that `notify_one` and
/// `notify_all` give are exact. Still the condition may be false again when the mutex is locked, since others may have
/// come first: [`wait_while`](lock_api::Condvar::wait_while) looks again. The notifier need not hold the mutex. 32 bytes;
/// can be a `static`. As in Go the mutex is one and the same for all that wait at one time; in Go it is a field.
///
/// ```
/// use std::sync::Arc;
/// use gmp_sched::native::{self, Condvar, Mutex};
///
/// unsafe { native::enter() }.run(2, || {
///     let queue = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
///     let consumer = {
///         let queue = queue.clone();
///         native::go(move || {
///             let mut items = queue.0.lock();
///             queue.1.wait_while(&mut items, |items| items.is_empty());
///             items.pop().unwrap()
///         })
///     };
///     queue.0.lock().push(7);
///     queue.1.notify_one();
///     assert_eq!(consumer.join().unwrap(), 7);
/// });
/// ```
///
/// # Panics
///
/// Waiting: the caller is not a G, or has preemption turned off; Gs wait with another mutex. Notifying: who was woken is in a
/// [bubble](crate::synctest) in which the caller is not.
#[doc(alias = "Cond")]
pub type Condvar<P> = lock_api::Condvar<RawCondvar<P>>;

/// The condition variable, for [`lock_api`].
///
/// ```
/// use gmp_sched::native::Native;
/// use gmp_sched::sync::RawCondvar;
/// static CHANGED: lock_api::Condvar<RawCondvar<Native>> = lock_api::Condvar::new();
/// ```
pub struct RawCondvar<P: Platform> {
    state: Lock<State<P>, P>,
}

struct State<P: Platform> {
    queue: WaitQueue<P>,
    /// The address of the mutex of those in the queue.
    mutex: usize,
}

/// What keeps a G from being woken while it is on its way out: dropped when it has been left.
struct Leaving<G, P: Platform> {
    state: Option<G>,
    /// Who waited for the mutex.
    next: Option<&'static Waiter<P>>,
}

impl<G, P: Platform> Drop for Leaving<G, P> {
    fn drop(&mut self) {
        // The lock first: nobody is readied under one.
        self.state = None;
        if let Some(next) = self.next {
            ready(next, &Pinned::new());
        }
    }
}

impl<P: Platform> RawCondvar<P> {
    /// One for which nobody waits.
    ///
    /// ```
    /// use gmp_sched::native::Native;
    /// use gmp_sched::sync::RawCondvar;
    ///
    /// static RAW: RawCondvar<Native> = RawCondvar::new();
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { state: Lock::new(State { queue: WaitQueue::new(), mutex: 0 }) }
    }

    /// Unlocks `mutex`, which the caller holds, waits to be notified for as long as `limit` says, and locks it again. Tells
    /// whether it was notified.
    #[track_caller]
    pub(super) fn wait_with(&self, mutex: &RawMutex<P>, limit: Option<&Limit<'_, P>>) -> bool {
        let blocking = Blocking::<P>::new(WaitReason::CondvarWait, limit);
        let mut state = self.state.lock();
        let address = core::ptr::from_ref(mutex).addr();
        if state.queue.is_empty() {
            state.mutex = address;
        }
        if state.mutex != address {
            // A misuse by the program: it panics with neither the pin nor the lock.
            drop((state, blocking));
            panic!("sync: Gs wait for one Condvar with two mutexes");
        }
        let leaving = Leaving { state: Some(state), next: None };
        // Queued first: whoever gets the mutex now and notifies finds the G in the queue, and waits for the lock of the
        // queue until the G has been left.
        let notified = blocking.wait(leaving, 0, |leaving, waiter| {
            leaving.state.as_mut().expect("until it is dropped").queue.push_back(waiter);
            leaving.next = mutex.release_for();
        });
        if notified.is_none() {
            let pinned = Pinned::<P>::new();
            self.state.lock().queue.remove(my_waiter(&pinned));
        }
        mutex.acquire();
        notified.is_some()
    }
}

// SAFETY: the mutex is unlocked when the waiter stands in the queue, whose lock is held until the G has been left: no
// notification comes in between. It is locked again before `wait_with` returns; what can panic comes before it is unlocked.
unsafe impl<P: Platform> lock_api::RawCondvar for RawCondvar<P> {
    const INIT: Self = Self::new();

    type RawMutex = RawMutex<P>;

    #[track_caller]
    unsafe fn wait(&self, mutex: &RawMutex<P>, _: &mut GuardSend) {
        self.wait_with(mutex, None);
    }

    #[doc(alias = "Signal")]
    #[track_caller]
    fn notify_one(&self) -> bool {
        let pinned = Pinned::<P>::new();
        let mut roused = Roused::none();
        if let Some(first) = self.state.lock().queue.pop() {
            roused.push(first);
        }
        roused.ready_durable(pinned) != 0
    }

    #[doc(alias = "Broadcast")]
    #[track_caller]
    fn notify_all(&self) -> usize {
        let pinned = Pinned::<P>::new();
        let roused = Roused::all_of(&self.state.lock().queue);
        roused.ready_durable(pinned)
    }
}

// SAFETY: as above.
unsafe impl<P: Platform> lock_api::RawCondvarTimed for RawCondvar<P> {
    fn checked_duration_to_instant(timeout: &Duration) -> Option<Instant> {
        Some(now::<P>().after(*timeout))
    }

    #[track_caller]
    unsafe fn wait_until(&self, mutex: &RawMutex<P>, _: &mut GuardSend, deadline: &Instant) -> bool {
        !self.wait_with(mutex, Some(&(*deadline).into()))
    }
}

impl<P: Platform> Default for RawCondvar<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> fmt::Debug for RawCondvar<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawCondvar").finish_non_exhaustive()
    }
}
