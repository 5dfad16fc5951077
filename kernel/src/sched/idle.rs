//! What an idle CPU does: it halts. The last CPU to become idle may poll for a while first.
//!
//! With the kernel option `halt_poll_us=N` (0 by default), the last CPU to become idle polls for N microseconds before
//! it halts. It takes interrupts meanwhile. (Linux polls, with its `haltpoll` governor, to save the time that leaving a
//! halt takes.) Here polling makes runs reproducible when QEMU counts instructions (`boot --icount`). The clock is then
//! the number of instructions that all CPUs have executed. As long as one CPU executes instructions, only the number of
//! these instructions decides the order of events.
//!
//! If QEMU counts instructions, it has one thread that executes all CPUs, and a main loop in another thread. When all
//! CPUs halt, the main loop advances the clock to the next timer and wakes the CPUs' thread. The main loop also runs
//! for a moment after each timer. If all CPUs halt in that moment, the main loop advances the clock before the CPUs'
//! thread has finished. The clock then misses the last instructions of a CPU, or another CPU continues first. In a test
//! with a hundred rounds of twenty short sleeps on four CPUs, hardly any two runs were equal without polling.
//!
//! With polling, the main loop does not advance the clock too early. If the next timer fires while the last CPU still
//! polls, that CPU does not halt, so the main loop does not advance the clock at all. If the next timer fires later,
//! the last CPU halts after it has polled for N microseconds. By then the main loop has finished its work for the
//! previous timer, and sleeps.

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
