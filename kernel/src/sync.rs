//! Locks for the kernel's own data: short critical sections, never held across a switch.
//!
//! Both are test-and-test-and-set on [`spin::mutex::SpinMutex`]. FIFO locks (ticket, MCS) collapse where virtual CPUs
//! share host cores: the next in line may not be running.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

use spin::mutex::{SpinMutex, SpinMutexGuard};
use x86_64::instructions::interrupts;

use crate::percpu::{self, PreemptGuard};

/// A lock that interrupt handlers may take: interrupts are off on this CPU while it is held, and as before afterwards.
///
/// Critical sections are tens of instructions. A holder may take other `InterruptMutex`es, never a [`PreemptMutex`].
pub struct InterruptMutex<T>(SpinMutex<T>);

impl<T> InterruptMutex<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(SpinMutex::new(value))
    }

    /// Takes the lock, with interrupts off. Spins with interrupts as they were. Callable from everywhere.
    pub fn lock(&self) -> InterruptMutexGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            while self.0.is_locked() {
                core::hint::spin_loop();
            }
        }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<InterruptMutexGuard<'_, T>> {
        let enable_after = interrupts::are_enabled();
        interrupts::disable();
        let guard = self.0.try_lock();
        if guard.is_none() && enable_after {
            interrupts::enable();
        }
        guard.map(|guard| InterruptMutexGuard { guard: ManuallyDrop::new(guard), enable_after, not_send: PhantomData })
    }
}

impl<T: fmt::Debug> fmt::Debug for InterruptMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_tuple("InterruptMutex").field(&*guard).finish(),
            None => f.write_str("InterruptMutex(<locked>)"),
        }
    }
}

/// The right to the data of an [`InterruptMutex`].
#[derive(Debug)]
pub struct InterruptMutexGuard<'a, T> {
    guard: ManuallyDrop<SpinMutexGuard<'a, T>>,
    enable_after: bool,
    /// Interrupts are off on the CPU that took the lock.
    not_send: PhantomData<*mut ()>,
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

impl<T> Drop for InterruptMutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: dropped here only, and not used afterwards. The lock must be free before interrupts come back on.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
        if self.enable_after {
            interrupts::enable();
        }
    }
}

/// A lock for data that no interrupt handler touches: preemption is off while it is held, interrupts stay on.
pub struct PreemptMutex<T>(SpinMutex<T>);

impl<T> PreemptMutex<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(SpinMutex::new(value))
    }

    /// Takes the lock, with preemption off. Not callable from interrupt handlers.
    pub fn lock(&self) -> PreemptMutexGuard<'_, T> {
        debug_assert!(!percpu::in_trap(), "an interrupt handler takes a lock that is held with interrupts on");
        let preempt = PreemptGuard::new();
        PreemptMutexGuard { guard: self.0.lock(), _preempt: preempt }
    }
}

impl<T: fmt::Debug> fmt::Debug for PreemptMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to the data of a [`PreemptMutex`].
#[derive(Debug)]
pub struct PreemptMutexGuard<'a, T> {
    // Fields are dropped in this order: the lock is free before preemption comes back on.
    guard: SpinMutexGuard<'a, T>,
    _preempt: PreemptGuard,
}

impl<T> Deref for PreemptMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for PreemptMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
