//! Lock methods whose wait ends at a deadline or when a context is done. The types of `lock_api` do not have such
//! methods.

#![expect(unsafe_code, reason = "makes the guards of locks that it has taken")]

use lock_api::GuardSend;

use super::condvar::Condvar;
use super::mutex::{Mutex, MutexGuard};
use super::rwlock::RawRwLock;
use super::rwlock::readers::Readers;
use crate::entities::goroutine::WaitReason;
use crate::library::limit::{ContextError, Limit};
use crate::platform::Platform;

/// Adds to [`Mutex`] a lock method with a limit. See [`lock_until`](Self::lock_until) for an example.
pub trait LimitedMutex<T: ?Sized, Plat: Platform> {
    /// Locks the mutex, waiting no longer than `limit`, which is a deadline, a context or both. Blocks the G; not
    /// callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::cancel::ContextError;
    /// use gmp_sched::native::{self, Context, Mutex};
    /// use gmp_sched::sync::LimitedMutex;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let mutex = Mutex::new(1);
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     let held = mutex.lock_until(&context).unwrap();
    ///     cancel.cancel();
    ///     assert_eq!(mutex.lock_until(&context).map(|value| *value), Err(ContextError::Canceled));
    ///     drop(held);
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The mutex was not free within the limit.
    ///
    /// # Panics
    ///
    /// In the same cases as [`Mutex`].
    #[track_caller]
    fn lock_until<'l>(&self, limit: impl Into<Limit<'l, Plat>>) -> Result<MutexGuard<'_, T, Plat>, ContextError>;
}

impl<T: ?Sized, Plat: Platform> LimitedMutex<T, Plat> for Mutex<T, Plat> {
    #[track_caller]
    fn lock_until<'l>(&self, limit: impl Into<Limit<'l, Plat>>) -> Result<MutexGuard<'_, T, Plat>, ContextError> {
        let limit = limit.into();
        // SAFETY: the raw mutex is used only to lock it, never to unlock it. The guard made below unlocks it.
        if !unsafe { self.raw() }.acquire(WaitReason::MutexLock, Some(&limit)) {
            return Err(limit.ended());
        }
        // SAFETY: the mutex has just been locked, and no other guard will unlock it.
        Ok(unsafe { self.make_guard_unchecked(GuardSend::new()) })
    }
}

/// Adds to [`RwLock`](super::RwLock) and `ReadMostlyRwLock` lock methods with a limit. See
/// [`read_until`](Self::read_until) for an example.
pub trait LimitedRwLock<T: ?Sized, Plat: Platform, R: Readers> {
    /// Locks for reading, waiting no longer than `limit`. Blocks the G; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::cancel::ContextError;
    /// use gmp_sched::native::{self, RwLock};
    /// use gmp_sched::sync::LimitedRwLock;
    /// use std::time::Duration;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let lock = RwLock::new(1);
    ///     assert_eq!(*lock.read_until(native::now() + Duration::from_millis(1)).unwrap(), 1);
    ///     let held = lock.write();
    ///     let error = lock.read_until(native::now() + Duration::from_millis(1)).map(|value| *value);
    ///     assert_eq!(error, Err(ContextError::DeadlineExceeded));
    ///     drop(held);
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// A writer held the lock or waited for it until the limit was over.
    ///
    /// # Panics
    ///
    /// In the same cases as [`RwLock`](super::RwLock).
    #[track_caller]
    fn read_until<'l>(
        &self,
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<lock_api::RwLockReadGuard<'_, RawRwLock<Plat, R>, T>, ContextError>;

    /// Locks for writing, waiting no longer than `limit`. Blocks the G; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::{self, Context, RwLock};
    /// use gmp_sched::sync::LimitedRwLock;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let lock = RwLock::new(1);
    ///     *lock.write_until(&Context::background()).unwrap() += 1;
    ///     assert_eq!(*lock.read(), 2);
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// There were readers or another writer until the limit was over.
    ///
    /// # Panics
    ///
    /// In the same cases as [`RwLock`](super::RwLock).
    #[track_caller]
    fn write_until<'l>(
        &self,
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<lock_api::RwLockWriteGuard<'_, RawRwLock<Plat, R>, T>, ContextError>;
}

impl<T: ?Sized, Plat: Platform, R: Readers> LimitedRwLock<T, Plat, R> for lock_api::RwLock<RawRwLock<Plat, R>, T> {
    #[track_caller]
    fn read_until<'l>(
        &self,
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<lock_api::RwLockReadGuard<'_, RawRwLock<Plat, R>, T>, ContextError> {
        let limit = limit.into();
        // SAFETY: the raw lock is used only to lock it, never to unlock it. The guard made below unlocks it.
        let slot = unsafe { self.raw() }.share(Some(&limit)).ok_or_else(|| limit.ended())?;
        // SAFETY: `share` has just locked the lock for reading and has counted this reader in `slot`. No other guard
        // will unlock for this reader.
        Ok(unsafe { self.make_read_guard_unchecked(slot) })
    }

    #[track_caller]
    fn write_until<'l>(
        &self,
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<lock_api::RwLockWriteGuard<'_, RawRwLock<Plat, R>, T>, ContextError> {
        let limit = limit.into();
        // SAFETY: the raw lock is used only to lock it, never to unlock it. The guard made below unlocks it.
        if !unsafe { self.raw() }.exclude(Some(&limit)) {
            return Err(limit.ended());
        }
        // SAFETY: the lock has just been locked for writing, and no other guard will unlock it.
        Ok(unsafe { self.make_write_guard_unchecked(GuardSend::new()) })
    }
}

/// Adds to [`Condvar`] a wait with any limit. See [`wait_limited`](Self::wait_limited) for an example.
pub trait LimitedCondvar<Plat: Platform> {
    /// Unlocks the mutex, waits for a notification, but no longer than `limit` (a deadline, a context or both), and
    /// locks the mutex again. The limit does not apply to locking the mutex again. Blocks the calling G; not callable
    /// from interrupts.
    ///
    /// ```
    /// use gmp_sched::cancel::ContextError;
    /// use gmp_sched::native::{self, Condvar, Context, Mutex};
    /// use gmp_sched::sync::LimitedCondvar;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (items, changed) = (Mutex::new(Vec::<u32>::new()), Condvar::new());
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     native::go(move || cancel.cancel()).detach();
    ///     let mut items = items.lock();
    ///     while items.is_empty() {
    ///         if let Err(error) = changed.wait_limited(&mut items, &context) {
    ///             assert_eq!(error, ContextError::Canceled);
    ///             break;
    ///         }
    ///     }
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// There was no notification within the limit.
    ///
    /// # Panics
    ///
    /// In the same cases as [`Condvar`].
    #[track_caller]
    fn wait_limited<'l, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T, Plat>,
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<(), ContextError>;

    /// Waits like [`wait_limited`](Self::wait_limited), for a notification from a G that serves a device. For drivers.
    /// The wait reason is `IO wait`. A G of a [bubble](crate#features) does not wait durably, because the device is
    /// outside of the bubble: the clock of the bubble does not advance meanwhile, and a G outside of the bubble may
    /// end the wait.
    ///
    /// # Errors
    ///
    /// There was no notification within the limit.
    ///
    /// # Panics
    ///
    /// In the same cases as a [`Condvar`]'s wait.
    #[track_caller]
    fn wait_for_device<'l, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T, Plat>,
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<(), ContextError>;
}

impl<Plat: Platform> LimitedCondvar<Plat> for Condvar<Plat> {
    #[track_caller]
    fn wait_limited<'l, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T, Plat>,
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<(), ContextError> {
        let limit = limit.into();
        let notified = self.wait_with(guard, Some(&limit), WaitReason::CondvarWait);
        if notified { Ok(()) } else { Err(limit.ended()) }
    }

    #[track_caller]
    fn wait_for_device<'l, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T, Plat>,
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<(), ContextError> {
        let limit = limit.into();
        let notified = self.wait_with(guard, Some(&limit), WaitReason::IoWait);
        if notified { Ok(()) } else { Err(limit.ended()) }
    }
}
