//! The handlers of interrupts: of the CPU's timer, of requests from other CPUs, and of devices.

use gmp_sched::time::Instant;

use crate::arch::x86_64::interrupts::{ERROR, RESCHEDULE, SPURIOUS, TIMER};
use crate::arch::x86_64::timer::{self, Expired};
use crate::arch::x86_64::trap::{TrapFrame, Vector};
use crate::arch::x86_64::{apic, interrupts};
use crate::diagnostics::backtrace::Backtrace;
use crate::diagnostics::{inspection, watchdog};
use crate::drivers::{console, disk};
use crate::mm::tlb;
use crate::sched::{activity, cpu_trace, kthread, preemption};

/// Handles an interrupt, and records it if a trace is taken. `frame` is the state of the interrupted code. Called on
/// the interrupt stack, with interrupts off.
pub(super) fn handle(vector: Vector, frame: &TrapFrame) {
    if vector == TIMER {
        timer::align();
    }
    if cpu_trace::is_on() {
        return serve_traced(vector, frame);
    }
    serve(vector);
}

#[cold]
#[inline(never)]
fn serve_traced(vector: Vector, frame: &TrapFrame) {
    cpu_trace::interrupt(interrupts::name(vector));
    if vector == TIMER && cpu_trace::records_call_stacks() {
        let addresses: heapless::Vec<u64, SAMPLE_FRAMES> = Backtrace::of_sample(frame).take(SAMPLE_FRAMES).collect();
        cpu_trace::call_stack(&addresses);
    }
    serve(vector);
    cpu_trace::interrupt_end();
}

/// The largest number of frames in the call stack that a timer interrupt records in a profile.
const SAMPLE_FRAMES: usize = 64;

#[inline(always)]
fn serve(vector: Vector) {
    tlb::pass();
    match vector {
        TIMER => timer(),
        RESCHEDULE => reschedule(),
        ERROR => apic::report_error(),
        // The local APIC expects no end-of-interrupt for a spurious interrupt.
        SPURIOUS => return interrupts::count_unexpected(),
        device => interrupts::serve_device(device),
    }
    apic::end_of_interrupt();
}

/// Handles the interrupt of this CPU's timer. Writes a report if one was requested. If the timer's deadline has passed,
/// does what is due in the scheduler, the watchdog, the console and the disks in memory. Then arms the timer for the
/// next time at which one of these has something due.
fn timer() {
    inspection::answer();
    let Some(Expired { deadline, now }) = timer::expire() else { return };
    activity::note_lateness(deadline, now);
    // Before kernel threads are set up, there is nothing else to do.
    if !kthread::is_up() {
        return;
    }
    let time = Instant::from_nanos(now);
    // SAFETY: every interrupt handler runs with interrupts off.
    let mut next = unsafe { kthread::all().timer_interrupt(time) };
    if kthread::all().current().is_some() {
        next = next.min(preemption::tick(time));
    }
    next = next.min(Instant::from_nanos(watchdog::tick(now)));
    next = next.min(Instant::from_nanos(console::tick(now)));
    next = next.min(Instant::from_nanos(disk::tick(now)));
    if next != Instant::NEVER {
        kthread::arm(next);
    }
}

/// Handles an interrupt that another CPU has sent. The CPU may have to do three things: run a thread that has become
/// ready, preempt the current G, and go on watchdog duty, which means that it checks whether other CPUs are stuck.
fn reschedule() {
    if !kthread::is_up() {
        return;
    }
    // SAFETY: every interrupt handler runs with interrupts off.
    unsafe { kthread::all().reschedule_interrupt() };
    preemption::interrupt();
    let check = Instant::from_nanos(watchdog::is_called());
    if check != Instant::NEVER {
        kthread::arm(check);
    }
}
