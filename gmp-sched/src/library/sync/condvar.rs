//! Condition variables. Go: `sync.Cond` (sync/cond.go, go1.27).

#![expect(unsafe_code, reason = "unlocks the mutex of a guard that it is lent")]

use core::fmt;
use core::time::Duration;

use super::blocking::{Blocking, WakeList, my_waiter, ready};
use super::mutex::MutexGuard;
use crate::base::instant::Instant;
use crate::base::spin_lock::Lock;
use crate::base::under_loom::const_fn;
use crate::engine::hooks::Window;
use crate::entities::goroutine::WaitReason;
use crate::entities::waiter::Waiter;
use crate::entities::window::At;
use crate::library::limit::Limit;
use crate::library::time::now;
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

/// A condition variable, used with a [`Mutex`](super::Mutex). Go: `sync.Cond`.
///
/// [`wait`](Self::wait) unlocks the mutex, waits for a notification, and locks the mutex again. Waiters are served in
/// FIFO order. There are no spurious wakeups: a wait ends only by a notification or its limit. `notify_one` returns
/// whether it has woken a waiter, and `notify_all` returns the number of waiters that it has woken. When the mutex is
/// locked again, the condition may have become false, because another G may have locked the mutex first. So use
/// [`wait_while`](Self::wait_while). The notifier need not hold the mutex. All Gs that wait at the same time must use
/// the same mutex. (In Go the mutex is a field of the condition variable.) A condition variable takes 32 bytes and can
/// be a `static`.
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
/// - A wait panics if the caller is pinned or is not a G with a P, or if other Gs wait with another mutex.
/// - A notification panics if a woken G is in a [bubble](crate#features) and the caller is outside of it.
#[doc(alias = "Cond")]
pub struct Condvar<Plat: Platform> {
    state: Lock<State<Plat>, Plat>,
}

/// The result of a wait with a deadline or a timeout: whether the wait [timed out](Self::timed_out). `std` has a type
/// of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the deadline ended the wait. After a wait with a condition, true only if the condition still held after
    /// the deadline. See [`Condvar::wait_timeout`] for an example.
    #[must_use]
    pub const fn timed_out(self) -> bool {
        self.0
    }
}

struct State<Plat: Platform> {
    queue: WaitQueue<Plat>,
    /// The address of the waiters' mutex. Not used while no G waits.
    mutex: usize,
}

/// A value of this type is dropped on the far side of a wait. The drop first releases the queue's lock, which until
/// then keeps notifiers from finding the G. The drop then readies the next waiter for the mutex, if there is one.
struct Leaving<G, Plat: Platform> {
    state: Option<G>,
    /// A G that waits for the mutex may be woken when the mutex is unlocked. This is the waiter of that G, if any.
    next: Option<&'static Waiter<Plat>>,
}

impl<G, Plat: Platform> Drop for Leaving<G, Plat> {
    fn drop(&mut self) {
        // Releases the lock first, because no G is readied while a lock is held.
        self.state = None;
        if let Some(next) = self.next {
            ready(next, &Pinned::of_scheduler());
        }
    }
}

impl<Plat: Platform> Condvar<Plat> {
    const_fn! {
        /// Makes a condition variable without waiters.
        ///
        /// ```
        /// use gmp_sched::native::Condvar;
        ///
        /// static CHANGED: Condvar = Condvar::new();
        /// ```
        #[must_use]
        pub fn new() -> Self {
            Self { state: Lock::new(State { queue: WaitQueue::new(), mutex: 0 }) }
        }
    }

    /// Unlocks the mutex of `guard`, waits for a notification, and locks the mutex again. Go: `Cond.Wait`.
    #[doc(alias = "Wait")]
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T, Plat>) {
        self.wait_with(guard, None, WaitReason::CondvarWait);
    }

    /// Waits as long as `condition` holds for the value of the mutex. See [`Condvar`] for an example.
    ///
    /// # Panics
    ///
    /// In the cases that [`Condvar`] lists for a wait, or if `condition` panics.
    #[track_caller]
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T, Plat>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits like [`wait`](Self::wait), but the wait for a notification ends at `deadline` at the latest. The result
    /// says whether the deadline ended this wait.
    ///
    /// # Panics
    ///
    /// In the cases that [`Condvar`] lists for a wait.
    #[track_caller]
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T, Plat>, deadline: Instant) -> WaitTimeoutResult {
        WaitTimeoutResult(!self.wait_with(guard, Some(&deadline.into()), WaitReason::CondvarWait))
    }

    /// Waits like [`wait`](Self::wait), but waits for a notification no longer than `timeout`. The result says whether
    /// the timeout ended this wait.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Condvar, Mutex};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let mutex = Mutex::new(());
    ///     let waited = Condvar::new().wait_timeout(&mut mutex.lock(), Duration::from_millis(1));
    ///     assert!(waited.timed_out());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// In the cases that [`Condvar`] lists for a wait.
    #[track_caller]
    pub fn wait_timeout<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T, Plat>, timeout: Duration) -> WaitTimeoutResult {
        self.wait_until(guard, now::<Plat>() + timeout)
    }

    /// Waits like [`wait_while`](Self::wait_while), until `deadline` at most. The result counts as
    /// [timed out](WaitTimeoutResult::timed_out) if the condition still holds at the end.
    ///
    /// # Panics
    ///
    /// In the same cases as [`wait_while`](Self::wait_while).
    #[track_caller]
    pub fn wait_while_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T, Plat>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        let mut result = WaitTimeoutResult(false);
        while condition(guard) {
            if result.timed_out() {
                return result;
            }
            result = self.wait_until(guard, deadline);
        }
        WaitTimeoutResult(false)
    }

    /// Waits like [`wait_while`](Self::wait_while), for `timeout` at most. The result counts as
    /// [timed out](WaitTimeoutResult::timed_out) if the condition still holds at the end.
    ///
    /// # Panics
    ///
    /// In the same cases as [`wait_while`](Self::wait_while).
    #[track_caller]
    pub fn wait_while_timeout<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T, Plat>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_while_until(guard, condition, now::<Plat>() + timeout)
    }

    /// Ends the wait of the G that has waited longest. Returns whether a G waited. Does not block. Go: `Cond.Signal`.
    ///
    /// # Panics
    ///
    /// The woken G is in a [bubble](crate#features), and the caller is outside of it.
    #[doc(alias = "Signal")]
    #[track_caller]
    pub fn notify_one(&self) -> bool {
        let pinned = Pinned::<Plat>::of_scheduler();
        let mut to_wake = WakeList::none();
        if let Some(first) = self.state.lock().queue.pop() {
            to_wake.push(first);
        }
        to_wake.ready_durable(pinned) != 0
    }

    /// Ends the waits of all waiting Gs; returns their number. Does not block. Go: `Cond.Broadcast`.
    ///
    /// # Panics
    ///
    /// In the same cases as [`notify_one`](Self::notify_one).
    #[doc(alias = "Broadcast")]
    #[track_caller]
    pub fn notify_all(&self) -> usize {
        let pinned = Pinned::<Plat>::of_scheduler();
        let to_wake = WakeList::all_of(&self.state.lock().queue);
        to_wake.ready_durable(pinned)
    }

    /// Unlocks the mutex of `guard`, waits for a notification until `limit` at most, and locks the mutex again. Returns
    /// whether there was a notification.
    #[track_caller]
    pub(super) fn wait_with<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T, Plat>,
        limit: Option<&Limit<'_, Plat>>,
        reason: WaitReason,
    ) -> bool {
        // SAFETY: the mutex is unlocked below while this function borrows `guard`, so nothing accesses the value
        // through the guard meanwhile. The mutex is locked again before this function returns. It unwinds only before
        // the unlock: the window `Relock` ends the program if a panic comes later.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        let blocking = Blocking::<Plat>::new(reason, limit);
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
        // This G holds the queue's lock. It queues itself and then unlocks the mutex. Now another G can lock the mutex
        // and notify. But to notify, that G needs the queue's lock, which the far side releases only when this G is
        // queued and parked. So no notification is lost.
        let window = Window::<Plat>::open(At::Relock);
        let notified = blocking.wait(leaving, 0, |leaving, waiter| {
            leaving.state.as_mut().expect("until it is dropped").queue.push_back(waiter);
            leaving.next = mutex.release_for();
        });
        if notified.is_none() {
            let pinned = Pinned::<Plat>::of_scheduler();
            self.state.lock().queue.remove(my_waiter(&pinned));
        }
        mutex.acquire(WaitReason::MutexLock, None);
        window.close();
        notified.is_some()
    }
}

impl<Plat: Platform> Default for Condvar<Plat> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Plat: Platform> fmt::Debug for Condvar<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
