//! What an idle CPU does: it halts. The last CPU to become idle may poll for a while first.
//!
//! With the kernel option `halt_poll_us=N`, 0 by default, the last CPU to become idle polls for that long before it halts.
//! Events still arrive by interrupt. (Linux has the `haltpoll` governor, which saves the time to leave a halt.) Here polling
//! makes runs reproducible when instructions are counted (`boot --icount`): the clock is then the number of instructions
//! executed by all CPUs, and as long as one CPU executes instructions, nothing else decides the order of events.
//!
//! When all CPUs halt, another thread of QEMU, its main loop, advances the clock to the next timer and wakes the thread that
//! runs the CPUs. The main loop also runs for a moment after each timer. If all CPUs are halted then, it advances the clock
//! while the CPUs' thread is still in its loop, so the clock misses the last instructions of a CPU, or another CPU continues
//! first. Without polling, two runs of a hundred times twenty short sleeps on four CPUs were hardly ever equal. Polling avoids
//! this if the wait is shorter than the polling; if it is longer, the main loop is asleep again by then.

use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use x86_64::instructions::interrupts;

use crate::arch::x86_64::cpu;
use crate::mm::tlb;
use crate::sched::kthread;

/// How long the last CPU polls, in nanoseconds.
static POLL_NS: AtomicU64 = AtomicU64::new(0);

/// Polls between two pause instructions: about a thousand instructions. If all CPUs share one thread of the host, QEMU switches
/// to another CPU at a pause. Without a pause the timers of the other CPUs would have to wait until the polling ends. With a
/// pause in every poll, switching would take most of the host's time.
const POLLS_BETWEEN_PAUSES: u64 = 32;

/// Sets how long the last CPU polls. Called by the boot CPU before kernel threads are set up.
pub(crate) fn set_polling(duration: Duration) {
    POLL_NS.store(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Waits for an interrupt and handles it; may also return without one. Called, and returns, with interrupts off, in the idle
/// loop.
pub(crate) fn wait_for_interrupt() {
    tlb::halt(|| {
        let wanted = POLL_NS.load(Ordering::Relaxed);
        if wanted != 0 {
            poll(Duration::from_nanos(wanted));
            // An interrupt has been handled during the poll, and it may be the only one.
            if !tlb::is_halted() {
                return;
            }
        }
        cpu::wait_for_interrupt();
    });
}

/// Enables interrupts until one has been handled, another CPU has something to run, or `limit` has passed.
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
