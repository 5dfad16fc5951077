//! Waiting for a lock that another CPU holds.
//!
//! A CPU that waits with interrupts off takes no timer interrupts, so it does not make the watchdog's checks there.
//! Perhaps this CPU is the one on watchdog duty, or no other CPU is awake. Then no CPU would find out that the lock's
//! holder is stuck, and the machine would hang without a report. So a CPU that waits with interrupts off makes the
//! checks while it waits.

use core::hint;

use spin::Once;
use x86_64::instructions::interrupts;

use crate::cpu::contexts::REFUSING_INTERRUPT_MUTEX;
use crate::cpu::percpu::{self, LOCKS};

/// How many times a waiting CPU polls the lock before it calls the check.
const POLLS_PER_CHECK: u32 = 4096;

static CHECK: Once<fn()> = Once::new();

/// Sets the function that a CPU calls again and again while it waits with interrupts off. `check` may take
/// `InterruptMutex`es and print.
pub(crate) fn set_check(check: fn()) {
    CHECK.call_once(|| check);
}

/// Spins while `must_wait` returns `true`.
#[inline]
pub(crate) fn wait_while(must_wait: impl Fn() -> bool) {
    let mut polls = 0;
    while must_wait() {
        hint::spin_loop();
        polls += 1;
        if polls == POLLS_PER_CHECK {
            polls = 0;
            check();
        }
    }
}

/// Calls the check if interrupts are off. A CPU that holds another lock does not call it, because the check may need
/// that lock.
#[cold]
fn check() {
    let refuses = percpu::preempt_word() & (REFUSING_INTERRUPT_MUTEX | LOCKS) != 0;
    if let Some(check) = CHECK.get().filter(|_| !refuses && !interrupts::are_enabled()) {
        check();
    }
}
