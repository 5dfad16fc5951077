//! How a CPU waits that has nothing to run: it halts; the last one of all may poll for a while before it does.
//!
//! With the kernel option `halt_poll_us=N`, 0 by default, a machine on which nothing runs has one CPU that goes on executing
//! instructions for that long before it halts too. Whatever comes meanwhile comes by interrupt all the same. Linux has this
//! as its `haltpoll` governor, to save the way out of a halt. Here it makes runs equal where instructions are counted (`boot
//! --icount`): the clock is then what all CPUs have executed, and while one executes nothing else decides what happens when.
//!
//! When all halt, another thread of QEMU, its main loop, moves the clock to the next timer and kicks the thread that runs the
//! CPUs. For a moment after each timer the main loop is about anyhow. If it finds all CPUs halted just then, it does that
//! while the thread of the CPUs is still going round: the clock misses what the last CPU has executed, or another CPU is
//! the first to go on. Without polling two runs of a hundred times twenty short sleeps, on four CPUs, were hardly ever
//! equal. Waits that are shorter than the polling do not come to that at all; before longer ones the main loop has had the
//! time to fall asleep.

use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use x86_64::instructions::interrupts;

use crate::arch::x86_64::cpu;
use crate::mm::tlb;
use crate::program::args;
use crate::sched::kthread;

/// For how long the last CPU polls, in nanoseconds.
static POLL_NS: AtomicU64 = AtomicU64::new(0);

/// The longest time that can be asked for: ten seconds.
const LONGEST_POLL_US: u64 = 10_000_000;

/// How often the polling CPU looks before it lets others go on where all CPUs take turns on one thread: about a thousand
/// instructions. QEMU takes the pause instruction for the end of a turn; without it this turn would last until the polling
/// ends, and another CPU's timer would have to wait. With it in every look, the turns would take most of the host's time.
const LOOKS_IN_A_ROW: u64 = 32;

/// Reads the kernel option. Called by the boot CPU before kernel threads are set up.
pub(crate) fn init() {
    let wanted = args::number("halt_poll_us", 0..=LONGEST_POLL_US).unwrap_or(0);
    POLL_NS.store(wanted * 1_000, Ordering::Relaxed);
}

/// Waits for an interrupt and handles it; may also return without one. Called and returns with interrupts off, in the idle
/// loop.
pub(crate) fn wait_for_interrupt() {
    tlb::halt(|| {
        let wanted = POLL_NS.load(Ordering::Relaxed);
        if wanted != 0 {
            poll(Duration::from_nanos(wanted));
            // An interrupt that came while they were on has been handled, and may have been all that is to come.
            if !tlb::is_halted() {
                return;
            }
        }
        cpu::wait_for_interrupt();
    });
}

/// Lets interrupts in until there was one, another CPU has something to run, or `limit` is over.
fn poll(limit: Duration) {
    interrupts::enable();
    let end = kthread::now().after(limit);
    let mut looks = 0u64;
    while tlb::is_halted() && kthread::all().are_all_idle() && kthread::now() < end {
        looks += 1;
        if looks.is_multiple_of(LOOKS_IN_A_ROW) {
            hint::spin_loop();
        }
    }
    interrupts::disable();
}
