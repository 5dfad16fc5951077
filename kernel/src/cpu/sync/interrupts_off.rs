//! Interrupts are off on a CPU from the first `InterruptMutex` that it takes to the last that it releases, in any order of release.

use core::panic::Location;

use x86_64::instructions::interrupts;

use crate::cpu::contexts;
use crate::cpu::percpu::{self, LOCK, LOCKS};

/// The top bit of the count of `InterruptMutex`es: set only if guards were leaked.
const TOO_MANY_LOCKS: u32 = 0x80 * LOCK;

/// Records that the caller, which has turned interrupts off, takes an `InterruptMutex` at `location`. `were_on` says whether
/// interrupts were on before.
///
/// # Panics
/// In a handler of a non-maskable interrupt; or if 128 are held already.
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

/// Records that the caller has released an `InterruptMutex`. After the last one interrupts come back on if they were on before
/// the first, and a switch that has become pending in between is made.
#[inline(always)]
pub(super) fn leave() {
    // Read before the count falls: a handler that takes a lock after that overwrites it.
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
    // A switch that becomes pending after the load of the word is made when the interrupt that requested it returns.
    if word == 0 {
        percpu::honour_pending();
    }
}
