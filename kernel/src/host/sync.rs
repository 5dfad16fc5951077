//! Locks that spin, for short critical sections that do not wait. On the host they only exclude other threads: there are no
//! interrupts and no preemption to turn off.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use spin::mutex::{SpinMutex, SpinMutexGuard};

use super::platform;

/// A lock that interrupt handlers may take on the machine. Its holder must not wait; on the machine, waiting with the lock
/// held panics.
pub struct InterruptMutex<T> {
    /// The address of the G that holds the lock; [`NOBODY`] if the lock is free or its holder is not a G.
    holder: AtomicUsize,
    mutex: SpinMutex<T>,
}

/// In place of the address of a G: no holder, or a thread that runs no G.
const NOBODY: usize = 0;

impl<T> InterruptMutex<T> {
    /// An unlocked lock around `value`.
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
            // Relaxed suffices: only this G stores its own address, so it reads that address only if it holds the lock.
            if me != NOBODY && self.holder.load(Ordering::Relaxed) == me {
                panic!("a G waits for itself: at {} for a lock that it holds", Location::caller());
            }
            // The operating system may not be running the thread that holds the lock.
            thread::yield_now();
        }
    }

    /// Takes the lock if it is free. Callable from everywhere.
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

/// Access to the data of an [`InterruptMutex`].
#[derive(Debug)]
pub struct InterruptMutexGuard<'a, T> {
    // Fields are dropped in the order of their declaration: the holder is cleared while the lock is still held.
    _clear: ClearOnDrop<'a>,
    guard: SpinMutexGuard<'a, T>,
    /// Not `Send`, as on the machine.
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

/// A lock for data that no interrupt handler uses on the machine. On the host it is the same lock as [`InterruptMutex`].
pub type PreemptMutex<T> = InterruptMutex<T>;

/// Access to the data of a [`PreemptMutex`].
pub type PreemptMutexGuard<'a, T> = InterruptMutexGuard<'a, T>;
