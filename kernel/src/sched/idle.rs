//! What an idle CPU does: it halts. The last CPU to become idle may poll for a while first.
//!
//! With the kernel option `halt_poll_us=N` (0 by default), the last CPU to become idle polls for N microseconds before
//! it halts. It takes interrupts meanwhile. (Linux polls, with its `haltpoll` governor, to save the time that leaving a
//! halt takes.)
//!
//! # Equal runs
//!
//! Polling helps to make runs equal if QEMU counts instructions (`boot --icount`). The clock is then the number of
//! instructions that all CPUs have executed. As long as one CPU executes instructions, only the number of these
//! instructions decides the order of events. But QEMU has one thread that executes all CPUs, and a main loop in another
//! thread. When all CPUs halt, the main loop advances the clock to the next timer and wakes the CPUs' thread.
//!
//! The main loop also runs for a moment after each timer, and on a busy host, this moment may come later. If the last
//! CPU halts in that moment, the main loop may advance the clock before the CPUs' thread has counted the last
//! instructions. They are added afterwards, so the timer fires late by as many nanoseconds. Against this:
//!
//! - The last CPU polls. If the next timer fires while it polls, no CPU needs to advance the clock. If not, the main loop
//!   has probably finished its work for the previous timer, and sleeps.
//! - A CPU reads the clock before it halts, because QEMU then counts the instructions up to there. So only the few
//!   instructions up to the halt can be missing.
//! - The interrupt of a timer waits for a fixed number of instructions after the time at which the timer was to fire
//!   (kernel option `timer_align=on`). So nothing after that depends on those few instructions: see [`timer::align`].
//!
//! With one CPU, all runs are then equal. With more CPUs, QEMU may also choose another CPU to continue if its main loop
//! is awake in such a moment.
//!
//! [`timer::align`]: crate::arch::x86_64::timer::align

use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use x86_64::instructions::interrupts;

use crate::arch::x86_64::cpu;
use crate::mm::tlb;
use crate::sched::kthread;

/// How long the last CPU to become idle polls, in nanoseconds.
static POLL_NS: AtomicU64 = AtomicU64::new(0);

/// The number of polls between two pause instructions. This number of polls takes about a thousand instructions. If all
/// CPUs share one thread of the host, QEMU switches to another CPU at a pause. Without a pause the timers of the other
/// CPUs would have to wait until the polling ends. With a pause in every poll, switching would take most of the host's
/// time.
const POLLS_BETWEEN_PAUSES: u64 = 32;

/// Sets how long the last CPU to become idle polls. Called by the boot CPU before kernel threads are set up.
pub(crate) fn set_polling(duration: Duration) {
    POLL_NS.store(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Waits for an interrupt and handles it. May also return without an interrupt. Called by the idle loop with interrupts
/// off, and returns with interrupts off.
pub(crate) fn wait_for_interrupt() {
    tlb::halt(|| {
        let wanted = POLL_NS.load(Ordering::Relaxed);
        if wanted != 0 {
            poll(Duration::from_nanos(wanted));
            // If an interrupt was handled during the poll, this CPU must not halt now, because perhaps no other
            // interrupt would come to end the halt.
            if !tlb::is_halted() {
                return;
            }
        }
        // When the clock is read, QEMU counts the instructions so far.
        kthread::now();
        cpu::wait_for_interrupt();
    });
}

/// Enables interrupts until an interrupt has been handled, another CPU has something to run, or `limit` has passed.
fn poll(limit: Duration) {
    interrupts::enable();
    let end = kthread::now() + limit;
    let mut polls = 0u64;
    while tlb::is_halted() && kthread::all().are_all_idle() && kthread::now() < end {
        polls += 1;
        if polls.is_multiple_of(POLLS_BETWEEN_PAUSES) {
            hint::spin_loop();
        }
    }
    interrupts::disable();
}
