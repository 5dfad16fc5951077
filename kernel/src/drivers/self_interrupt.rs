//! An interrupt that a CPU sends to itself, in place of the interrupt of a device. With it a program can measure how
//! long a G takes to run after the interrupt that readies it.

use gmp_sched::device_signals::Signal;
use spin::Once;

use crate::arch::x86_64::apic;
use crate::arch::x86_64::interrupts::{self, Vector};
use crate::cpu::percpu::PreemptGuard;
use crate::cpu::{contexts, percpu};
use crate::sched::platform::Kernel;

static SIGNAL: Signal<Kernel> = Signal::new();
/// The vector of the interrupt, allocated by the first call of [`interrupt`]. `None` if no vector was left.
static VECTOR: Once<Option<Vector>> = Once::new();

/// Interrupts the calling CPU. The handler of the interrupt readies the G that waits in [`wait_for_interrupt`]. If
/// there is no vector for the interrupt, readies the G without an interrupt.
///
/// Preemption may be on. If the caller then migrates during the call, the interrupt may go to a CPU that the caller has
/// left.
///
/// Callable from everywhere except handlers of non-maskable interrupts. But the first call must have returned before an
/// interrupt handler calls this function. The reason is that the first call allocates the vector. If a handler
/// interrupted it, the handler would wait for ever for the vector.
pub fn interrupt() {
    let vector = {
        // If a G were preempted in `call_once`, another one that has preemption off would wait for ever on its CPU.
        let _preempt = PreemptGuard::new();
        VECTOR.call_once(|| interrupts::allocate("self-interrupt", raise, 0).ok())
    };
    match vector {
        Some(vector) => apic::send(percpu::current(), *vector),
        None => raise(0),
    }
}

/// Waits until [`interrupt`] is called. Returns at once if [`interrupt`] has been called since the last wait ended.
/// Blocks the calling G, not its M. Not callable from interrupt handlers.
///
/// # Panics
///
/// If the caller is not a G, or must not block. If another G waits.
#[track_caller]
pub fn wait_for_interrupt() {
    contexts::assert_may_block();
    SIGNAL.wait();
}

/// The handler of the interrupt that [`interrupt`] sends. Readies the G that waits in [`wait_for_interrupt`].
fn raise(_: usize) {
    SIGNAL.raise();
}
