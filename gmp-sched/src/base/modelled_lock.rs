//! The mutex that replaces [`spin::mutex::SpinMutex`] in the models. It is either `spin`'s algorithm over loom's
//! atomics ([`Spinning`]) or loom's own mutex.
//!
//! `spin`'s own code cannot run under loom. [`Spinning`] repeats the code of version 0.12.3 step by step, with the same
//! orderings (`tests/models.rs` fails if another version is in use). The models that use [`Spinning`] show the two
//! properties that users of the lock rely on: the lock has one holder at a time, and each holder sees what the previous
//! holder did.
//!
//! loom explores each failed attempt to take a [`Spinning`] lock as a step of its own, and there may be many such
//! attempts. So only small models use [`Spinning`] locks ([`with_spinning_locks`]). All other models use loom's mutex,
//! which blocks a waiting thread instead.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use loom::cell::{MutPtr, UnsafeCell};
use loom::sync::{Mutex, MutexGuard};
use spin::RelaxStrategy;

use super::atomic::{AtomicBool, Ordering};

std::thread_local! {
    /// Whether new locks are [`Spinning`]. Each thread of the host has its own copy of this variable. All loom threads
    /// of a run share one thread of the host, and so one copy.
    static ARE_SPINNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `explore`, which checks models. All locks in these models are [`Spinning`].
pub(crate) fn with_spinning_locks(explore: impl FnOnce()) {
    ARE_SPINNING.set(true);
    explore();
    ARE_SPINNING.set(false);
}

/// A mutex with the interface of `spin`'s.
#[derive(Debug)]
pub(crate) enum SpinMutex<T, R> {
    Blocking(Mutex<T>),
    Spinning(Spinning<T, R>),
}

/// The guard of a held mutex. Dropping the guard releases the mutex.
pub(crate) enum SpinMutexGuard<'a, T, R> {
    Blocking(MutexGuard<'a, T>),
    Spinning(SpinningGuard<'a, T, R>),
}

impl<T, R: RelaxStrategy> SpinMutex<T, R> {
    pub(crate) fn new(value: T) -> Self {
        if ARE_SPINNING.get() { Self::Spinning(Spinning::new(value)) } else { Self::Blocking(Mutex::new(value)) }
    }

    pub(crate) fn lock(&self) -> SpinMutexGuard<'_, T, R> {
        match self {
            Self::Blocking(mutex) => SpinMutexGuard::Blocking(mutex.lock().expect("nothing panics under it")),
            Self::Spinning(mutex) => SpinMutexGuard::Spinning(mutex.lock()),
        }
    }

    pub(crate) fn try_lock(&self) -> Option<SpinMutexGuard<'_, T, R>> {
        match self {
            Self::Blocking(mutex) => mutex.try_lock().ok().map(SpinMutexGuard::Blocking),
            Self::Spinning(mutex) => mutex.try_lock().map(SpinMutexGuard::Spinning),
        }
    }
}

impl<T, R> Deref for SpinMutexGuard<'_, T, R> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Blocking(guard) => guard,
            Self::Spinning(guard) => guard,
        }
    }
}

impl<T, R> DerefMut for SpinMutexGuard<'_, T, R> {
    fn deref_mut(&mut self) -> &mut T {
        match self {
            Self::Blocking(guard) => guard,
            Self::Spinning(guard) => guard,
        }
    }
}

/// A copy of `spin::mutex::SpinMutex` over loom's atomics.
#[derive(Debug)]
pub(crate) struct Spinning<T, R> {
    lock: AtomicBool,
    data: UnsafeCell<T>,
    _relax: PhantomData<fn() -> R>,
}

// SAFETY: only the holder of the lock accesses the value, and the lock has one holder at a time. So sharing the lock
// only passes the value from thread to thread, for which `T: Send` is enough.
unsafe impl<T: Send, R> Sync for Spinning<T, R> {}

impl<T, R: RelaxStrategy> Spinning<T, R> {
    fn new(data: T) -> Self {
        Self { lock: AtomicBool::new(false), data: UnsafeCell::new(data), _relax: PhantomData }
    }

    fn lock(&self) -> SpinningGuard<'_, T, R> {
        loop {
            if let Some(guard) = self.try_lock_weak() {
                break guard;
            }
            while self.is_locked() {
                R::relax();
            }
        }
    }

    fn is_locked(&self) -> bool {
        self.lock.load(Ordering::Relaxed)
    }

    fn try_lock(&self) -> Option<SpinningGuard<'_, T, R>> {
        let taken = self.lock.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        taken.then(|| SpinningGuard::new(self))
    }

    fn try_lock_weak(&self) -> Option<SpinningGuard<'_, T, R>> {
        let taken = self.lock.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        taken.then(|| SpinningGuard::new(self))
    }
}

/// A copy of `spin::mutex::SpinMutexGuard`.
pub(crate) struct SpinningGuard<'a, T, R> {
    inner: &'a Spinning<T, R>,
    /// loom's pointer to the value. loom uses it to detect two accesses at the same time, and an access that does not
    /// see the previous one. `None` while the guard is being dropped.
    data: Option<MutPtr<T>>,
}

impl<'a, T, R> SpinningGuard<'a, T, R> {
    fn new(inner: &'a Spinning<T, R>) -> Self {
        Self { inner, data: Some(inner.data.get_mut()) }
    }

    fn pointer(&self) -> &MutPtr<T> {
        self.data.as_ref().expect("the guard has not been dropped")
    }
}

impl<T, R> Deref for SpinningGuard<'_, T, R> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock, so no other thread accesses the value; loom checks that.
        unsafe { self.pointer().deref() }
    }
}

impl<T, R> DerefMut for SpinningGuard<'_, T, R> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, so no other thread accesses the value, and `&mut self` excludes all other
        // references that are made through this guard.
        unsafe { self.pointer().deref() }
    }
}

impl<T, R> Drop for SpinningGuard<'_, T, R> {
    fn drop(&mut self) {
        self.data = None;
        self.inner.lock.store(false, Ordering::Release);
    }
}
