//! Spin locks for the kernel's own data. Critical sections are short, and a lock is never held across a context switch.
//!
//! There are two types of lock. Handlers of interrupts may take an [`InterruptMutex`], but not a [`PreemptMutex`]. The
//! table in [the crate's documentation](crate) says in which context each type may be taken, and what its holder may
//! do. A holder panics if it blocks, yields or ends.
//!
//! Both types are test-and-test-and-set locks ([`spin::mutex::SpinMutex`]). They are not FIFO locks (ticket, MCS),
//! because the throughput of FIFO locks collapses when virtual CPUs share host cores. All waiters would then wait for
//! the next one in line, even while the host does not run that waiter's virtual CPU.
//!
//! A lock records which CPU holds it, and where in the source that CPU has taken it. So if a CPU tries to take a lock
//! that it holds already, the CPU panics instead of waiting for ever. The panic names both locations. For the watchdog,
//! each CPU also records which lock has turned interrupts off. These records cost a few stores to memory that is
//! already in the CPU's cache.

mod holder;
mod interrupts_off;
mod locks;
mod waiting;

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::panic::Location;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use x86_64::instructions::interrupts;

use self::holder::Holder;
use self::locks::lock_traits;
use crate::cpu::contexts;
use crate::cpu::percpu::{CpuId, PreemptGuard};

pub(crate) use self::interrupts_off::{is_in_closure, with_interrupts_off};
pub(crate) use self::waiting::{others_have_stopped, relax, set_check, wait_while};

/// A lock that interrupt handlers may take. While a CPU holds one or more such locks, its interrupts are off. The locks
/// may be released in any order.
///
/// A critical section should have tens of instructions. The holder may take other `InterruptMutex`es, print, and unpark
/// threads. The holder panics if it takes a [`PreemptMutex`], allocates, frees, spawns, blocks, yields or ends.
pub struct InterruptMutex<T> {
    holder: Holder,
    mutex: SpinMutex<T>,
}

impl<T> InterruptMutex<T> {
    /// Makes an unlocked lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { holder: Holder::nobody(), mutex: SpinMutex::new(value) }
    }

    /// Takes the lock and turns interrupts off. While the caller spins, interrupts stay as they were. Callable from
    /// everywhere except handlers of non-maskable interrupts.
    ///
    /// # Panics
    /// If this CPU holds the lock, holds 128 other `InterruptMutex`es, or is in a handler of a non-maskable interrupt.
    #[track_caller]
    pub fn lock(&self) -> InterruptMutexGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            self.holder.check(Location::caller());
            wait_while(|| self.mutex.is_locked());
        }
    }

    /// Whether `cpu` holds the lock. The result is meaningful only if the caller knows that `cpu` is stuck.
    pub(crate) fn is_held_by(&self, cpu: CpuId) -> bool {
        self.holder.is(cpu)
    }

    /// Takes the lock and turns interrupts off, if the lock is free. Callable from everywhere except handlers of
    /// non-maskable interrupts.
    ///
    /// # Panics
    /// If the lock is free, and this CPU holds 128 other `InterruptMutex`es or is in a handler of a non-maskable
    /// interrupt.
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

/// Access to the data of an [`InterruptMutex`].
#[derive(Debug)]
pub struct InterruptMutexGuard<'a, T> {
    guard: ManuallyDrop<SpinMutexGuard<'a, T>>,
    holder: &'a Holder,
    /// Interrupts must be turned on by the CPU that took the lock, so the guard must not be sent to another thread.
    not_send: PhantomData<*mut ()>,
}

lock_traits!(InterruptMutex, InterruptMutexGuard);

impl<T> Drop for InterruptMutexGuard<'_, T> {
    fn drop(&mut self) {
        self.holder.clear();
        // The lock is released before interrupts are turned on, because a handler could otherwise spin on it for ever.
        // SAFETY: this is the only place that drops `guard`, and nothing uses `guard` afterwards.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
        interrupts_off::leave();
    }
}

/// A lock for data that no interrupt handler uses. While it is held, preemption is off, but interrupts stay on.
pub struct PreemptMutex<T> {
    holder: Holder,
    mutex: SpinMutex<T>,
}

impl<T> PreemptMutex<T> {
    /// Makes an unlocked lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { holder: Holder::nobody(), mutex: SpinMutex::new(value) }
    }

    /// Takes the lock and turns preemption off. Not callable from handlers, or while this CPU holds an
    /// [`InterruptMutex`].
    ///
    /// # Panics
    /// If this CPU holds the lock, is in a handler, holds an [`InterruptMutex`], or holds 32,768 pins.
    #[track_caller]
    pub fn lock(&self) -> PreemptMutexGuard<'_, T> {
        contexts::assert_may_take_preempt_mutex();
        let preempt = PreemptGuard::new();
        let guard = loop {
            if let Some(guard) = self.mutex.try_lock() {
                break guard;
            }
            self.holder.check(Location::caller());
            wait_while(|| self.mutex.is_locked());
        };
        self.holder.set(Location::caller());
        PreemptMutexGuard { _clear: ClearOnDrop(&self.holder), guard, _preempt: preempt }
    }
}

/// Access to the data of a [`PreemptMutex`].
#[derive(Debug)]
pub struct PreemptMutexGuard<'a, T> {
    // The order of the fields matters, since Rust drops them in this order: first the holder is cleared, then the lock
    // is released, then preemption is turned on.
    _clear: ClearOnDrop<'a>,
    guard: SpinMutexGuard<'a, T>,
    _preempt: PreemptGuard,
}

lock_traits!(PreemptMutex, PreemptMutexGuard);

/// Clears the holder just before the lock is released.
#[derive(Debug)]
struct ClearOnDrop<'a>(&'a Holder);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}
