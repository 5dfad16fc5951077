//! What an idle CPU does: it halts. The last CPU to become idle may poll for a while first.
//!
//! With the kernel option `halt_poll_us=N`, 0 by default, the last CPU to become idle executes instructions for that long
//! before it halts, too. Events still arrive by interrupt. (Linux has this as its `haltpoll` governor, to save the time to
//! leave a halt.) Here it makes runs reproducible when instructions are counted (`boot --icount`): the clock is then the
//! number of instructions executed by all CPUs, and while one CPU executes nothing else decides the order of events.
//!
//! When all CPUs halt, another thread of QEMU, its main loop, advances the clock to the next timer and wakes the thread that
//! runs the CPUs. The main loop also runs for a moment after each timer. If it finds all CPUs halted then, it advances the
//! clock while the CPUs' thread is still in its loop: the clock misses the last instructions of a CPU, or another CPU
//! continues first. Without polling two runs of a hundred times twenty short sleeps, on four CPUs, were hardly ever equal.
//! Waits that are shorter than the polling avoid this case; before longer ones the main loop has had time to fall asleep.

use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use x86_64::instructions::interrupts;

use crate::arch::x86_64::cpu;
use crate::mm::tlb;
use crate::sched::kthread;

/// How long the last CPU polls, in nanoseconds.
static POLL_NS: AtomicU64 = AtomicU64::new(0);

/// Number of polls before the CPU lets others run when all CPUs share one thread of the host: about a thousand instructions.
/// A pause instruction ends the CPU's turn in QEMU. Without it the turn would last until the polling ends, and another CPU's
/// timer would have to wait. With one in every poll, changing turns would take most of the host's time.
const LOOKS_IN_A_ROW: u64 = 32;

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
            // An interrupt while they were on has been handled, and may have been the only one.
            if !tlb::is_halted() {
                return;
            }
        }
        cpu::wait_for_interrupt();
    });
}

/// Enables interrupts until there was one, another CPU has something to run, or `limit` is over.
fn poll(limit: Duration) {
    interrupts::enable();
    let end = kthread::now() + limit;
    let mut looks = 0u64;
    while tlb::is_halted() && kthread::all().are_all_idle() && kthread::now() < end {
        looks += 1;
        if looks.is_multiple_of(LOOKS_IN_A_ROW) {
            hint::spin_loop();
        }
    }
    interrupts::disable();
}
