//! Condition variables. Go: `sync.Cond` (sync/cond.go, go1.27).

#![expect(unsafe_code, reason = "unlocks the mutex of a guard that it is lent")]

use core::fmt;
use core::time::Duration;

use lock_api::GuardSend;

use super::blocking::{Blocking, WakeList, my_waiter, ready};
use super::mutex::RawMutex;
use crate::base::instant::Instant;
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::WaitReason;
use crate::entities::waiter::Waiter;
use crate::library::cancel::Limit;
use crate::library::time::now;
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

/// A condition variable, used with a [`Mutex`](super::Mutex). Go: `sync.Cond`.
///
/// [`wait`](lock_api::Condvar::wait) unlocks the mutex, waits for a notification, and locks the mutex again. Waiters
/// are served in FIFO order. There are no spurious wakeups: a wait ends by a notification or its deadline, and
/// `notify_one` and `notify_all` return the exact number of woken waiters. When the mutex is locked again, the
/// condition may have become false, because another G may have locked the mutex first. So use
/// [`wait_while`](lock_api::Condvar::wait_while). The notifier need not hold the mutex. All Gs that wait at the same
/// time must use the same mutex. (In Go the mutex is a field of the condition variable.) 32 bytes; can be a `static`.
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
/// A wait panics if the caller is not a G or has preemption turned off, or if other Gs wait with another mutex. A
/// notification panics if a woken G is in a [bubble](crate#features) and the caller is outside of it.
#[doc(alias = "Cond")]
pub type Condvar<P> = lock_api::Condvar<RawCondvar<P>>;

/// The condition variable without the `lock_api` wrapper.
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
    /// The address of the waiters' mutex.
    mutex: usize,
}

/// Dropped on the far side of a wait. First releases the queue's lock, which until then keeps notifiers from finding
/// the G; then readies the next waiter for the mutex.
struct Leaving<G, P: Platform> {
    state: Option<G>,
    /// The waiter for the mutex that the unlock of the mutex has chosen to wake, if any.
    next: Option<&'static Waiter<P>>,
}

impl<G, P: Platform> Drop for Leaving<G, P> {
    fn drop(&mut self) {
        // Releases the lock first, because no G is readied while a lock is held.
        self.state = None;
        if let Some(next) = self.next {
            ready(next, &Pinned::new());
        }
    }
}

impl<P: Platform> RawCondvar<P> {
    /// A condition variable without waiters.
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

    /// Unlocks `mutex`, which the caller holds, waits for a notification until `limit` at most, and locks `mutex`
    /// again. Returns whether there was a notification.
    #[track_caller]
    pub(super) fn wait_with(&self, mutex: &RawMutex<P>, limit: Option<&Limit<'_, P>>) -> bool {
        let blocking = Blocking::<P>::new(WaitReason::CondvarWait, limit);
        let mut state = self.state.lock();
        let address = core::ptr::from_ref(mutex).addr();
        if state.queue.is_empty() {
            state.mutex = address;
        }
        if state.mutex != address {
            // The program has misused the condition variable. Unlock and unpin before the panic.
            drop((state, blocking));
            panic!("sync: Gs wait for one Condvar with two mutexes");
        }
        let leaving = Leaving { state: Some(state), next: None };
        // The G is queued before it unlocks the mutex. A G that then locks the mutex and notifies has to wait for the
        // queue's lock until the far side releases it, and finds this G in the queue.
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

// SAFETY: the mutex is unlocked after the waiter was queued, under the queue's lock. That lock is held until the far
// side, so no notification is missed. `wait_with` locks the mutex again before it returns; it panics only before it
// unlocks the mutex.
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
        let mut to_wake = WakeList::none();
        if let Some(first) = self.state.lock().queue.pop() {
            to_wake.push(first);
        }
        to_wake.ready_durable(pinned) != 0
    }

    #[doc(alias = "Broadcast")]
    #[track_caller]
    fn notify_all(&self) -> usize {
        let pinned = Pinned::<P>::new();
        let to_wake = WakeList::all_of(&self.state.lock().queue);
        to_wake.ready_durable(pinned)
    }
}

// SAFETY: as for `RawCondvar` above.
unsafe impl<P: Platform> lock_api::RawCondvarTimed for RawCondvar<P> {
    fn checked_duration_to_instant(timeout: &Duration) -> Option<Instant> {
        Some(now::<P>() + *timeout)
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
