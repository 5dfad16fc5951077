//! When the G or the thread that runs on a CPU has to give way to another one. How it is made to do so is in `traps::preempt`.

use gmp_sched::platform::{Pinned, Platform as _};
use gmp_sched::preempt::{self, NextTick};
use gmp_sched::time::Instant;

use crate::cpu::percpu;
use crate::sched::platform::Kernel;
use crate::sched::{kthread, storm, sysmon};

/// The timer of a CPU that runs a thread has fired. Returns when it is to fire again. In an interrupt.
pub(crate) fn tick(now: Instant) -> Instant {
    sysmon::unpark_if_needed();
    let machine = Kernel::current_machine();
    let mut next = preempt::tick(machine);
    if let Some(wait) = storm::strike(machine) {
        next = NextTick { at: next.at.min(now + wait), gives_way: machine.is_some_and(preempt::is_wanted) };
    }
    // A thread that is ready on this CPU preempts the running one at the end of a slice.
    if next.gives_way | kthread::all().preempt_after(now, Kernel::slice()) {
        percpu::set_pending();
    }
    next.at
}

/// When the timer of this CPU is to fire first for the thread that begins to run on it. The caller is pinned.
pub(crate) fn first_tick(now: Instant) -> Instant {
    preempt::first_tick(Kernel::current_machine(), now)
}

/// Called when another CPU requests a preemption on this one. In an interrupt.
pub(crate) fn interrupt() {
    if Kernel::current_machine().is_some_and(preempt::is_wanted) {
        percpu::set_pending();
    }
}

/// Makes the G of this CPU give way as far as that was requested: to a ready thread, to due timers, to the next G. Returns the
/// pin, perhaps on another CPU.
pub(crate) fn give_way(pinned: Pinned<Kernel>) -> Pinned<Kernel> {
    // SAFETY: the caller has pinned a G in user code, once, for this; it is on the G's stack.
    unsafe { kthread::all().displace() };
    preempt::give_way(pinned)
}
