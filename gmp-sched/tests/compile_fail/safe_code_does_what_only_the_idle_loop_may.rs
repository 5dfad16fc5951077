//! Safe code can name the `Cpu` type of a thread by inference. So the functions that change what a CPU runs, halt a
//! CPU, or turn its interrupts on or off must not be safe. With interrupts off, safe code could switch to another G,
//! which could not be preempted.

use gmp_sched::kthread::{Cpu, Thread};
use gmp_sched::time::Instant;

fn take_over<C: Cpu>(thread: &'static Thread<C>, now: Instant) {
    C::switching_to(thread, now);
    C::switching_to_idle();
    C::halt();
    C::set_interrupts(true);
    C::without_interrupts(|| ());
}

fn main() {}
