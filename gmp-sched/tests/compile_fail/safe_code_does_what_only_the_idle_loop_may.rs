//! Safe code can name the `Cpu` type of a thread by inference, so the functions that change what a CPU runs, halt it or
//! enable its interrupts must not be safe.

use gmp_sched::kthread::{Cpu, Thread};
use gmp_sched::time::Instant;

fn take_over<C: Cpu>(thread: &'static Thread<C>, now: Instant) {
    C::switching_to(thread, now);
    C::switching_to_idle();
    C::halt();
    C::set_interrupts(true);
}

fn main() {}
