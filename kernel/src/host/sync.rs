//! Locks that spin, for short critical sections in which the holder does not wait. On the host the locks exclude other
//! threads. There are no interrupts to turn off. As on the machine, a holder is not preempted, and panics if it blocks,
//! yields or ends. Unlike on the machine, the holder of an [`InterruptMutex`] may allocate, spawn and take a
//! [`PreemptMutex`].

use core::ops::{Deref, DerefMut};
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gmp_sched::native::{WaitsForbidden, forbid_waits};
use spin::mutex::{SpinMutex, SpinMutexGuard};

use self::locks::lock_traits;
use super::percpu::PREEMPTION_OFF;
use super::platform;

#[path = "../cpu/sync/locks.rs"]
mod locks;

/// The value of `holder` if the lock is free, or if a thread that runs no G holds it.
const NOBODY: usize = 0;

/// Returns the address of the calling G, or [`NOBODY`] if the caller is not a G.
fn own_address() -> usize {
    platform::goroutine().map_or(NOBODY, |goroutine| ptr::from_ref(goroutine).addr())
}

#[derive(Debug)]
struct ClearOnDrop<'a>(&'a AtomicUsize);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(NOBODY, Ordering::Relaxed);
    }
}

/// What both types of lock have in common.
struct Spinning<T> {
    /// The address of the G that holds the lock; [`NOBODY`] if the lock is free or its holder is not a G.
    holder: AtomicUsize,
    mutex: SpinMutex<T>,
}

impl<T> Spinning<T> {
    const fn new(value: T) -> Self {
        Self { holder: AtomicUsize::new(NOBODY), mutex: SpinMutex::new(value) }
    }

    /// Waits until the lock is free, and takes it. If the calling G blocks, yields or ends while it holds the lock, it
    /// panics with a message that contains `context`. The machine uses the same words.
    #[track_caller]
    fn lock(&self, context: &'static str) -> Held<'_, T> {
        loop {
            if let Some(held) = self.try_lock(context) {
                return held;
            }
            let me = own_address();
            // Ordering: Relaxed is enough. Only a G itself stores its address, and it clears the address before it
            // releases the lock. So the load returns this G's address only if this G holds the lock.
            if me != NOBODY && self.holder.load(Ordering::Relaxed) == me {
                panic!("a G waits for itself: at {} for a lock that it holds", Location::caller());
            }
            // The operating system may have preempted the thread that holds the lock, so this thread lets other threads
            // use its CPU.
            thread::yield_now();
        }
    }

    #[track_caller]
    fn try_lock(&self, context: &'static str) -> Option<Held<'_, T>> {
        // The section begins first, so that a G that holds the lock is never preempted.
        let section = forbid_waits(context);
        let guard = self.mutex.try_lock()?;
        self.holder.store(own_address(), Ordering::Relaxed);
        Some(Held { _clear: ClearOnDrop(&self.holder), guard, _section: section })
    }
}

/// What both types of guard have in common.
#[derive(Debug)]
struct Held<'a, T> {
    // Fields are dropped in the order of their declaration. So first `holder` is cleared, then the lock is released,
    // and then the G may wait again.
    _clear: ClearOnDrop<'a>,
    guard: SpinMutexGuard<'a, T>,
    _section: WaitsForbidden,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A lock that interrupt handlers may take on the machine. Its holder panics if it blocks, yields or ends.
pub struct InterruptMutex<T>(Spinning<T>);

impl<T> InterruptMutex<T> {
    const CONTEXT: &str = "with an `InterruptMutex` held";

    /// Makes a lock that guards `value` and is free.
    pub const fn new(value: T) -> Self {
        Self(Spinning::new(value))
    }

    /// Takes the lock. Callable from everywhere.
    ///
    /// # Panics
    /// If the calling G holds the lock.
    #[track_caller]
    pub fn lock(&self) -> InterruptMutexGuard<'_, T> {
        InterruptMutexGuard { guard: self.0.lock(Self::CONTEXT) }
    }

    /// Takes the lock if it is free; otherwise returns `None`. Callable from everywhere.
    #[track_caller]
    pub fn try_lock(&self) -> Option<InterruptMutexGuard<'_, T>> {
        self.0.try_lock(Self::CONTEXT).map(|guard| InterruptMutexGuard { guard })
    }
}

/// Access to the data that an [`InterruptMutex`] guards. Dropping this value releases the lock.
#[derive(Debug)]
pub struct InterruptMutexGuard<'a, T> {
    guard: Held<'a, T>,
}

lock_traits!(InterruptMutex, InterruptMutexGuard);

/// A lock for data that interrupt handlers of the machine do not use. Its holder panics if it blocks, yields or ends.
pub struct PreemptMutex<T>(Spinning<T>);

impl<T> PreemptMutex<T> {
    /// Makes a lock that guards `value` and is free.
    pub const fn new(value: T) -> Self {
        Self(Spinning::new(value))
    }

    /// Takes the lock. Callable from everywhere.
    ///
    /// # Panics
    /// If the calling G holds the lock.
    #[track_caller]
    pub fn lock(&self) -> PreemptMutexGuard<'_, T> {
        PreemptMutexGuard { guard: self.0.lock(PREEMPTION_OFF) }
    }
}

/// Access to the data that a [`PreemptMutex`] guards. Dropping this value releases the lock.
#[derive(Debug)]
pub struct PreemptMutexGuard<'a, T> {
    guard: Held<'a, T>,
}

lock_traits!(PreemptMutex, PreemptMutexGuard);
