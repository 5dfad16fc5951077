//! Waiting for a lock that another CPU holds.
//!
//! A CPU that waits with interrupts off takes no timer interrupts, in which it would make the watchdog's checks.
//! Perhaps this CPU is the one on watchdog duty, or no other CPU is awake. Then no CPU would find out that the lock's
//! holder is stuck, and the machine would hang without a report. So a CPU that waits with interrupts off makes the
//! checks while it waits.
//!
//! When a CPU ends the kernel, it stops all others first. A lock that a stopped CPU holds is never released. The report
//! of the kernel's end needs no such lock, but it calls the program's `Display` implementations, which may take any
//! lock. So the CPU that ends the kernel panics instead of waiting.

use core::hint;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use spin::Once;
use x86_64::instructions::interrupts;

use crate::cpu::contexts::REFUSING_INTERRUPT_MUTEX;
use crate::cpu::percpu::{self, LOCKS};

/// How many times a waiting CPU polls the lock before it calls the check.
const POLLS_PER_CHECK: u32 = 4096;

/// How often the CPU that ends the kernel may [`relax`]. Several waits of the scheduler poll a limited number of times
/// and then do something else, so a few thousand polls are no reason to panic.
const MOST_POLLS_AT_END: u32 = 100_000;

static CHECK: Once<fn()> = Once::new();

/// Whether all CPUs except the one that ends the kernel have stopped.
static HAVE_OTHERS_STOPPED: AtomicBool = AtomicBool::new(false);

/// Records that all CPUs except the calling one have stopped for ever. From now on, the calling CPU panics if it waits
/// for another one.
pub(crate) fn others_have_stopped() {
    HAVE_OTHERS_STOPPED.store(true, Ordering::Relaxed);
}

/// Called in each iteration of a loop of the scheduler that waits for another CPU.
///
/// # Panics
/// If this CPU ends the kernel and has waited for a long time.
#[inline]
pub(crate) fn relax() {
    hint::spin_loop();
    if HAVE_OTHERS_STOPPED.load(Ordering::Relaxed) {
        relax_at_end();
    }
}

#[cold]
fn relax_at_end() {
    static POLLS: AtomicU32 = AtomicU32::new(0);
    if POLLS.fetch_add(1, Ordering::Relaxed) >= MOST_POLLS_AT_END {
        refuse_to_wait();
    }
}

/// # Panics
/// Always, because this CPU waits for another one, and all others have stopped.
fn refuse_to_wait() -> ! {
    panic!("a CPU waits for another one, which has stopped for ever")
}

/// Sets the function that a CPU calls again and again while it waits with interrupts off. `check` may take
/// `InterruptMutex`es and print.
pub(crate) fn set_check(check: fn()) {
    CHECK.call_once(|| check);
}

/// Spins while `must_wait` returns `true`.
///
/// # Panics
/// If this CPU ends the kernel, so that no other CPU can end the wait.
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
///
/// # Panics
/// If this CPU ends the kernel.
#[cold]
fn check() {
    if HAVE_OTHERS_STOPPED.load(Ordering::Relaxed) {
        refuse_to_wait();
    }
    let refuses = percpu::preempt_word() & (REFUSING_INTERRUPT_MUTEX | LOCKS) != 0;
    if let Some(check) = CHECK.get().filter(|_| !refuses && !interrupts::are_enabled()) {
        check();
    }
}
