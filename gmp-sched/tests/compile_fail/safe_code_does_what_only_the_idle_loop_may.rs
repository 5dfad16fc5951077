//! Whoever has a thread can name its CPU by inference: what changes the current M there, halts or lets interrupts in must not
//! be callable by that.

use gmp_sched::kthread::{Cpu, Thread};
use gmp_sched::time::Instant;

fn take_over<C: Cpu>(thread: &'static Thread<C>, now: Instant) {
    C::switching_to(thread, now);
    C::switching_to_idle();
    C::halt();
    C::set_interrupts(true);
}

fn main() {}
