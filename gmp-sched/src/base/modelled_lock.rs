//! The replacement of [`spin::mutex::SpinMutex`] in the models: its algorithm over loom's atomics, or loom's mutex.
//!
//! `spin`'s own code cannot run under loom. [`Spinning`] repeats it step by step, with the same orderings, from version 0.12.3
//! (`tests/models.rs` fails if another version is in use). Models of that lock show what its users rely on: one holder at a
//! time, which sees what the previous one did. As each failed attempt is a step, and there may be many, only small models
//! use it ([`with_spinning_locks`]). The others use loom's mutex, where a thread that waits is blocked.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use loom::cell::{MutPtr, UnsafeCell};
use loom::sync::{Mutex, MutexGuard};
use spin::RelaxStrategy;

use super::atomic::{AtomicBool, Ordering};

std::thread_local! {
    /// All loom threads of a run share one thread of the host.
    static ARE_SPINNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `explore`, in whose models all locks are [`Spinning`].
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

/// The mutex, held. Released when dropped.
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

/// `spin::mutex::SpinMutex`.
#[derive(Debug)]
pub(crate) struct Spinning<T, R> {
    lock: AtomicBool,
    data: UnsafeCell<T>,
    _relax: PhantomData<fn() -> R>,
}

// SAFETY: as for `spin`'s: a guard moves the value's owner from thread to thread.
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

/// `spin::mutex::SpinMutexGuard`.
pub(crate) struct SpinningGuard<'a, T, R> {
    inner: &'a Spinning<T, R>,
    /// Tells loom about each access: it reports two at the same time, and one that does not see the last. `None` while the guard
    /// is dropped.
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
        // SAFETY: loom checks that no other thread has a pointer to it.
        unsafe { self.pointer().deref() }
    }
}

impl<T, R> DerefMut for SpinningGuard<'_, T, R> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.pointer().deref() }
    }
}

impl<T, R> Drop for SpinningGuard<'_, T, R> {
    fn drop(&mut self) {
        self.data = None;
        self.inner.lock.store(false, Ordering::Release);
    }
}
