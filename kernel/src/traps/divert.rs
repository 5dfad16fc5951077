//! Asynchronous preemption: takes the CPU from a G at any instruction of user code. A handler *diverts* the interrupted
//! G, which then saves its registers and calls the scheduler on its own stack. The mechanism is in
//! [`gmp_sched::interrupt_return`], and this file connects it with the CPUs of this computer.
//!
//! These are the steps from a timer interrupt to the switch:
//!
//! | step | where |
//! |---|---|
//! | The timer interrupts the CPU | `timer` in `traps::interrupt` |
//! | The scheduler decides that the running G has to give way, so a preemption becomes pending | `tick` in `sched::preemption`, which calls [`gmp_sched::preempt::tick`] |
//! | When the interrupt returns, the G is diverted | [`on_interrupt_return`] |
//! | The G saves its registers on its stack | `context/diverted.rs` of `gmp-sched` |
//! | The G calls the scheduler, which switches to the next G | [`give_way`](preemption::give_way), which calls [`gmp_sched::preempt::give_way`] |
//!
//! Only *user code* is diverted: code that runs with preemption on and whose stack pointer is inside the stack of the
//! current G. A request that comes while preemption is off stays pending until preemption is on again
//! ([`honour_pending`]).
//!
//! Every G's stack has room below it for the saved registers and for the scheduler: `mm::stack::RESERVE`.
//!
//! Two other kinds of G are diverted in the same way: a G that needs a page for its stack when there is no memory (see
//! `page_fault`), and a G that ends because it has raised an exception (see `exception`).

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use gmp_sched::interrupt_return::{self, InterruptReturn, Interrupted, RED_ZONE, Slots};
use gmp_sched::platform::Pinned;
use x86_64::instructions::interrupts;

use crate::arch::x86_64::trap::TrapFrame;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu;
use crate::sched::platform::Kernel;
use crate::sched::{activity, preemption};

cpu_local! {
    /// The state of the G that is being diverted on this CPU.
    static DIVERTED: Slots = Slots::new();
}

/// The address range of the code whose red zone is not protected. The range is empty except in the test that calls
/// [`leave_red_zone_unprotected_in`].
static UNSKIPPED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Makes preemptions inside `code` overwrite the red zone of the interrupted code. Used only by a test, which shows
/// that the other tests would detect this error.
pub(crate) fn leave_red_zone_unprotected_in(code: Range<u64>) {
    UNSKIPPED[0].store(code.start, Ordering::Relaxed);
    UNSKIPPED[1].store(code.end, Ordering::Relaxed);
}

// SAFETY: `slots` returns per-CPU data. The preempt word counts the pins and the `InterruptMutex`es that the CPU holds.
// The red zone is protected everywhere except in the code of one test. That code keeps in its red zone only words that
// the test compares, so overwriting them violates no memory safety.
unsafe impl InterruptReturn for Kernel {
    #[inline(always)]
    fn slots() -> &'static Slots {
        DIVERTED.here()
    }

    #[inline(always)]
    fn is_pinned() -> bool {
        percpu::is_preemption_off()
    }

    #[inline(always)]
    fn is_requested() -> bool {
        percpu::is_pending()
    }

    #[inline(always)]
    fn withdraw_request() {
        percpu::clear_pending();
    }

    #[inline(always)]
    unsafe fn lower_pin_quietly() {
        percpu::preempt_enable_quietly();
    }

    #[inline(always)]
    fn red_zone(rip: u64) -> u64 {
        let unskipped = UNSKIPPED[0].load(Ordering::Relaxed)..UNSKIPPED[1].load(Ordering::Relaxed);
        if unskipped.contains(&rip) { 0 } else { RED_ZONE }
    }

    #[inline(always)]
    unsafe fn give_way(pinned: Pinned<Self>) -> Pinned<Self> {
        preemption::give_way(pinned)
    }
}

/// Returns the part of the interrupted code's state that a diversion reads or changes.
fn interrupted(frame: &mut TrapFrame) -> Interrupted<'_> {
    let TrapFrame { rip, cs, rflags, rsp, ss, rdi, .. } = frame;
    Interrupted { rip, cs: *cs, rflags, rsp, ss: *ss, rdi }
}

/// If a preemption is pending and the interrupted G can be preempted now, makes this G give way. Called at the end of
/// every interrupt handler, after the end of the interrupt was signalled to the APIC (if the APIC expects that). The
/// call is made on the interrupt stack, with interrupts off.
pub(crate) fn on_interrupt_return(frame: &mut TrapFrame) {
    // SAFETY: `traps::entry` calls this last in the handler of each maskable interrupt, and then restores the registers
    // from the frame. Handlers run on stacks of their own, with interrupts off. The room below each G's stack
    // (`mm::stack::RESERVE`) is large enough for a diversion.
    unsafe { interrupt_return::on_interrupt_return::<Kernel>(interrupted(frame)) };
}

/// Diverts the interrupted G if it is in user code and its stack has room. The G then calls `function`, and gives way
/// as long as a preemption is pending. Returns whether the G is diverted. `function` is called with interrupts on and
/// pinned once, and must return pinned once, perhaps on another CPU. Called at the end of a handler, with interrupts
/// off.
pub(super) fn divert(frame: &mut TrapFrame, function: extern "sysv64" fn()) -> bool {
    // SAFETY: the callers are the handlers of page faults and of other exceptions. They run on stacks of their own,
    // with interrupts off, and call this only if the interrupted code had interrupts on. If the G is diverted, they do
    // nothing more, and `traps::entry` restores the registers from the frame. The room below each G's stack
    // (`mm::stack::RESERVE`) is large enough for a diversion.
    unsafe { interrupt_return::divert::<Kernel>(interrupted(frame), function) }
}

/// Makes the calling G give way, if it is in user code. Called when preemption is turned on again and a preemption is
/// pending. The callers are [`preempt_enable`](percpu::preempt_enable) and the release of the last `InterruptMutex`
/// that the CPU holds.
#[cold]
#[unsafe(export_name = "gmp_honour_pending")]
fn honour_pending() {
    // With interrupts off the CPU must not switch, so the preemption stays pending. The caller is not a handler: in a
    // handler the preempt word is not zero, so this function is not called. A request that comes during a handler is
    // honoured by `on_interrupt_return`.
    if !interrupts::are_enabled() {
        return;
    }
    percpu::preempt_disable();
    activity::note_unpin();
    percpu::preempt_enable_quietly();
    interrupt_return::honour_requests::<Kernel>();
}
