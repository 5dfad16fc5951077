//! Locks that spin, for short critical sections in which nothing waits. On the host they only exclude other threads,
//! because there are no interrupts and no preemption to turn off.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use spin::mutex::{SpinMutex, SpinMutexGuard};

use super::platform;

/// A lock that interrupt handlers may take on the machine. Its holder must not wait. On the machine, waiting while
/// holding the lock panics.
pub struct InterruptMutex<T> {
    /// The address of the G that holds the lock; [`NOBODY`] if the lock is free or its holder is not a G.
    holder: AtomicUsize,
    mutex: SpinMutex<T>,
}

/// The value of `holder` if the lock is free, or if a thread that runs no G holds it.
const NOBODY: usize = 0;

impl<T> InterruptMutex<T> {
    /// Makes a lock that guards `value` and is free.
    pub const fn new(value: T) -> Self {
        Self { holder: AtomicUsize::new(NOBODY), mutex: SpinMutex::new(value) }
    }

    /// Takes the lock. Callable from everywhere.
    ///
    /// # Panics
    /// If the calling G holds the lock.
    #[track_caller]
    pub fn lock(&self) -> InterruptMutexGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            let me = own_address();
            // Ordering: Relaxed is enough. Only this G stores its own address, so the load returns this address only if
            // this G holds the lock.
            if me != NOBODY && self.holder.load(Ordering::Relaxed) == me {
                panic!("a G waits for itself: at {} for a lock that it holds", Location::caller());
            }
            // The operating system may have preempted the thread that holds the lock, so this thread gives its CPU up.
            thread::yield_now();
        }
    }

    /// Takes the lock if it is free; otherwise returns `None`. Callable from everywhere.
    pub fn try_lock(&self) -> Option<InterruptMutexGuard<'_, T>> {
        let guard = self.mutex.try_lock()?;
        self.holder.store(own_address(), Ordering::Relaxed);
        Some(InterruptMutexGuard { _clear: ClearOnDrop(&self.holder), guard, not_send: PhantomData })
    }
}

/// The address of the calling G; [`NOBODY`] if the caller is not a G.
fn own_address() -> usize {
    platform::goroutine().map_or(NOBODY, |goroutine| ptr::from_ref(goroutine).addr())
}

impl<T: fmt::Debug> fmt::Debug for InterruptMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_tuple("InterruptMutex").field(&*guard).finish(),
            None => f.write_str("InterruptMutex(<locked>)"),
        }
    }
}

/// Access to the data that an [`InterruptMutex`] guards. Dropping it releases the lock.
#[derive(Debug)]
pub struct InterruptMutexGuard<'a, T> {
    // Fields are dropped in the order of their declaration. So `holder` is cleared while the lock is still held.
    _clear: ClearOnDrop<'a>,
    guard: SpinMutexGuard<'a, T>,
    /// This field makes the guard not `Send`, because the guard is not `Send` on the machine either.
    not_send: PhantomData<*mut ()>,
}

#[derive(Debug)]
struct ClearOnDrop<'a>(&'a AtomicUsize);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(NOBODY, Ordering::Relaxed);
    }
}

impl<T> Deref for InterruptMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for InterruptMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A lock for data that interrupt handlers of the machine do not use. On the host it is the same type as
/// [`InterruptMutex`].
pub type PreemptMutex<T> = InterruptMutex<T>;

/// Access to the data that a [`PreemptMutex`] guards. Dropping it releases the lock.
pub type PreemptMutexGuard<'a, T> = InterruptMutexGuard<'a, T>;
