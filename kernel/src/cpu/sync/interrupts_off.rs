//! Turns interrupts on again when a CPU releases its last `InterruptMutex`. The locks may be released in any order, so
//! the CPU counts those that it holds. A closure that is called with interrupts off counts as such a lock.

use core::panic::Location;
use core::sync::atomic::{AtomicU32, Ordering};

use x86_64::instructions::interrupts;

use crate::cpu::contexts;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu::{self, LOCK, LOCKS};

/// Calls `body` with interrupts off. Meanwhile the caller counts as the holder of an `InterruptMutex`. So the checks of
/// [`contexts`] refuse a `body` that would block, yield or end: the next G would run with interrupts off, and could
/// not be preempted.
///
/// # Panics
/// In the same cases as [`enter`], and if `body` does what the holder of an `InterruptMutex` may not do.
#[track_caller]
pub(crate) fn with_interrupts_off<R>(body: impl FnOnce() -> R) -> R {
    let were_on = interrupts::are_enabled();
    interrupts::disable();
    enter(were_on, Location::caller());
    // Interrupts are off, so this CPU is the only one that accesses the count, and no handler runs between the load and
    // the store.
    let closures = CLOSURES.here();
    closures.store(closures.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    let result = body();
    let closures = CLOSURES.here();
    closures.store(closures.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    leave();
    result
}

/// Whether this CPU runs a closure of [`with_interrupts_off`]. For messages.
pub(crate) fn is_in_closure() -> bool {
    CLOSURES.here().load(Ordering::Relaxed) != 0
}

cpu_local! {
    /// How many closures of [`with_interrupts_off`] this CPU runs, one called in the other.
    static CLOSURES: AtomicU32 = AtomicU32::new(0);
}

/// The top bit of the count of `InterruptMutex`es. This bit is set if a CPU holds 128 of them, which happens only if
/// guards were leaked.
const TOO_MANY_LOCKS: u32 = 0x80 * LOCK;

/// Records that the caller takes an `InterruptMutex` at `location`. The caller has turned interrupts off; `were_on`
/// says whether they were on before.
///
/// # Panics
/// In a handler of a non-maskable interrupt, or if this CPU already holds 128 such locks.
#[inline(always)]
#[track_caller]
pub(super) fn enter(were_on: bool, location: &'static Location<'static>) {
    let word = percpu::preempt_word();
    if word & (contexts::REFUSING_INTERRUPT_MUTEX | TOO_MANY_LOCKS) != 0 {
        contexts::refuse_interrupt_mutex();
    }
    percpu::raise_lock_count();
    if word & LOCKS == 0 {
        percpu::set_interrupts_off_at(were_on.then_some(location));
    }
}

/// Records that the caller has released an `InterruptMutex`. If this was the last lock that the CPU held, and
/// interrupts were on before the CPU took its first lock, turns interrupts on again. Then, if a switch has become
/// pending meanwhile, makes that switch.
#[inline(always)]
pub(super) fn leave() {
    // The record of whether a lock turned interrupts off must be read before the count of locks falls to zero. After
    // that, the handler of an exception may take a lock and overwrite the record.
    let were_on = percpu::has_lock_turned_interrupts_off();
    percpu::lower_lock_count();
    if !were_on {
        return;
    }
    let word = percpu::preempt_word();
    if word & LOCKS != 0 {
        return;
    }
    percpu::set_interrupts_off_at(None);
    interrupts::enable();
    // The preempt word need not be loaded again. If a switch becomes pending after the load of `word`, an interrupt has
    // requested the switch, and the switch is made when that interrupt returns.
    if word == 0 {
        percpu::honour_pending();
    }
}
