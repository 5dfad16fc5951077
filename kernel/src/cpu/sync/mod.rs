//! Locks for the kernel's own data: short critical sections, never held across a switch.
//!
//! The table in [the crate's documentation](crate) says what a holder may do, and where each lock may be taken. A holder of
//! either lock that blocks, yields or ends panics.
//!
//! Both are test-and-test-and-set locks, by [`spin::mutex::SpinMutex`]. FIFO locks (ticket, MCS) collapse when virtual CPUs
//! share host cores: the next waiter may not be running.
//!
//! A lock records its holder and where it was taken. So a CPU that waits for a lock which it holds itself panics with both
//! locations instead of waiting for ever. For the watchdog the CPU records which lock has turned interrupts off. Each record is
//! one store to memory that is already in the CPU's cache.

mod holder;
mod interrupts_off;

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::panic::Location;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use x86_64::instructions::interrupts;

use self::holder::Holder;
use crate::cpu::contexts;
use crate::cpu::percpu::{CpuId, PreemptGuard};

/// A lock that interrupt handlers may take. Interrupts are off on this CPU from the first such lock taken to the last
/// released, in any order of release.
///
/// Critical sections are tens of instructions. A holder may take other `InterruptMutex`es, print, and wake threads; it
/// panics if it takes a [`PreemptMutex`], allocates, frees, spawns, blocks, yields or ends.
pub struct InterruptMutex<T> {
    holder: Holder,
    mutex: SpinMutex<T>,
}

impl<T> InterruptMutex<T> {
    /// An unlocked lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { holder: Holder::nobody(), mutex: SpinMutex::new(value) }
    }

    /// Takes the lock and turns interrupts off. While the caller spins, interrupts are on if they were on before. Callable from
    /// everywhere except handlers of non-maskable interrupts.
    ///
    /// # Panics
    /// If this CPU holds the lock, or is in a handler of a non-maskable interrupt.
    #[track_caller]
    pub fn lock(&self) -> InterruptMutexGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            self.holder.check(Location::caller());
            while self.mutex.is_locked() {
                core::hint::spin_loop();
            }
        }
    }

    /// Whether `cpu` holds the lock. Only meaningful if that CPU is known to be stuck.
    pub(crate) fn is_held_by(&self, cpu: CpuId) -> bool {
        self.holder.is(cpu)
    }

    /// Takes the lock if it is free. Callable where [`lock`](Self::lock) is.
    ///
    /// # Panics
    /// In a handler of a non-maskable interrupt.
    #[track_caller]
    pub fn try_lock(&self) -> Option<InterruptMutexGuard<'_, T>> {
        let were_on = interrupts::are_enabled();
        interrupts::disable();
        let Some(guard) = self.mutex.try_lock() else {
            if were_on {
                interrupts::enable();
            }
            return None;
        };
        interrupts_off::enter(were_on, Location::caller());
        self.holder.set(Location::caller());
        Some(InterruptMutexGuard { guard: ManuallyDrop::new(guard), holder: &self.holder, not_send: PhantomData })
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

/// Access to the data of an [`InterruptMutex`].
#[derive(Debug)]
pub struct InterruptMutexGuard<'a, T> {
    guard: ManuallyDrop<SpinMutexGuard<'a, T>>,
    holder: &'a Holder,
    /// Interrupts must come back on on the CPU that took the lock.
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
        self.holder.clear();
        // SAFETY: dropped here only, and not used afterwards. The lock must be released before interrupts are turned on.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
        interrupts_off::leave();
    }
}

/// A lock for data that no interrupt handler uses. Preemption is off while it is held, interrupts stay on.
pub struct PreemptMutex<T> {
    holder: Holder,
    mutex: SpinMutex<T>,
}

impl<T> PreemptMutex<T> {
    /// An unlocked lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { holder: Holder::nobody(), mutex: SpinMutex::new(value) }
    }

    /// Takes the lock and turns preemption off. Not callable from interrupt handlers, nor with an [`InterruptMutex`] held.
    ///
    /// # Panics
    /// If this CPU holds the lock, is in a handler, or holds an [`InterruptMutex`].
    #[track_caller]
    pub fn lock(&self) -> PreemptMutexGuard<'_, T> {
        contexts::assert_may_take_preempt_mutex();
        let preempt = PreemptGuard::new();
        let guard = loop {
            if let Some(guard) = self.mutex.try_lock() {
                break guard;
            }
            self.holder.check(Location::caller());
            while self.mutex.is_locked() {
                core::hint::spin_loop();
            }
        };
        self.holder.set(Location::caller());
        PreemptMutexGuard { _clear: ClearOnDrop(&self.holder), guard, _preempt: preempt }
    }
}

impl<T: fmt::Debug> fmt::Debug for PreemptMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mutex.fmt(f)
    }
}

/// Access to the data of a [`PreemptMutex`].
#[derive(Debug)]
pub struct PreemptMutexGuard<'a, T> {
    // Fields are dropped in this order: the lock is released before preemption is turned on.
    _clear: ClearOnDrop<'a>,
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

/// Clears the holder just before the lock is released.
#[derive(Debug)]
struct ClearOnDrop<'a>(&'a Holder);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}
