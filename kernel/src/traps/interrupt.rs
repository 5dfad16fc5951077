//! What each interrupt does: the CPU's timer, a request of another CPU, and the interrupts of devices.

use gmp_sched::time::Instant;

use crate::arch::x86_64::interrupts::{ERROR, RESCHEDULE, SPURIOUS, TIMER};
use crate::arch::x86_64::timer::{self, Expired};
use crate::arch::x86_64::trap::Vector;
use crate::arch::x86_64::{apic, interrupts};
use crate::diagnostics::{inspection, watchdog};
use crate::drivers::console;
use crate::mm::tlb;
use crate::sched::{activity, kthread, preemption};

/// Serves an interrupt. Called on the interrupt stack, with interrupts off.
pub(super) fn handle(vector: Vector) {
    tlb::pass();
    match vector {
        TIMER => timer(),
        RESCHEDULE => reschedule(),
        ERROR => apic::report_error(),
        // It takes no end-of-interrupt.
        SPURIOUS => return interrupts::count_unexpected(),
        device => interrupts::serve_device(device),
    }
    apic::end_of_interrupt();
}

/// The timer of this CPU has fired: does what is due, and arms it for what is due next.
fn timer() {
    inspection::answer();
    let Some(Expired { deadline, now }) = timer::expire() else { return };
    activity::note_lateness(deadline, now);
    // The timer may fire before the scheduler is up.
    if !kthread::is_up() {
        return;
    }
    let time = Instant::from_nanos(now);
    // SAFETY: on the interrupt stack, with interrupts off.
    let mut next = unsafe { kthread::all().timer_interrupt(time) };
    if kthread::all().current().is_some() {
        next = next.min(preemption::tick(time));
    }
    next = next.min(Instant::from_nanos(watchdog::tick(now)));
    next = next.min(Instant::from_nanos(console::tick(now)));
    if next != Instant::NEVER {
        kthread::arm(next);
    }
}

/// Another CPU asks this one to run a thread that is ready, to preempt its G, or to check it for the watchdog.
fn reschedule() {
    if !kthread::is_up() {
        return;
    }
    // SAFETY: on the interrupt stack, with interrupts off.
    unsafe { kthread::all().reschedule_interrupt() };
    preemption::interrupt();
    let check = Instant::from_nanos(watchdog::is_called(timer::now()));
    if check != Instant::NEVER {
        kthread::arm(check);
    }
}
