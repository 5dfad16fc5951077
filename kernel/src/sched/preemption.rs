//! Decides when the G or the thread that runs on a CPU has to give way to another. The module `traps::divert` carries
//! this decision out.

use gmp_sched::platform::{Pinned, Platform as _};
use gmp_sched::preempt::{self, NextTick};
use gmp_sched::time::Instant;

use crate::cpu::percpu;
use crate::sched::platform::Kernel;
use crate::sched::{kthread, storm, sysmon};

/// Makes a switch pending if the current G or thread has to give way. Returns the time at which the timer must fire
/// again. Called in the timer interrupt of a CPU that runs a thread.
pub(crate) fn tick(now: Instant) -> Instant {
    sysmon::unpark_if_needed();
    let machine = Kernel::current_machine();
    let mut next = preempt::tick(machine);
    if let Some(wait) = storm::strike(machine) {
        next = NextTick { at: next.at.min(now + wait), gives_way: machine.is_some_and(preempt::must_give_way) };
    }
    // If another thread is ready on this CPU, it preempts the running thread at the end of a slice.
    if next.gives_way | kthread::all().preempt_after(now, Kernel::slice()) {
        percpu::set_pending();
    }
    next.at
}

/// Returns the time at which this CPU's timer must first fire for the thread that begins to run on the CPU. The caller
/// is pinned.
pub(crate) fn first_tick(now: Instant) -> Instant {
    preempt::first_tick(Kernel::current_machine(), now)
}

/// Makes a switch pending if the current G is to be preempted. Called in an interrupt that another CPU has sent,
/// perhaps to request the preemption.
pub(crate) fn interrupt() {
    if Kernel::current_machine().is_some_and(preempt::must_give_way) {
        percpu::set_pending();
    }
}

/// Makes the calling G give way to a ready thread, to due timers, or to the next G, as was requested. Returns the pin
/// when the G runs again, perhaps on another CPU.
pub(crate) fn give_way(pinned: Pinned<Kernel>) -> Pinned<Kernel> {
    // SAFETY: the caller is a G in user code, on its own stack. It has pinned itself exactly once, for this call.
    unsafe { kthread::all().displace() };
    preempt::give_way(pinned)
}
