//! What the tests inside the machine see of the kernel and do to it. No part of the interface and not for programs: it
//! changes without notice. What can break something is `unsafe`, so that a program in safe Rust cannot do so by this
//! either. It is a hidden module, not a feature of the crate: the kernel that is tested is the one that programs get.

use core::fmt;
use core::ops::Range;

use x86_64::instructions::interrupts::without_interrupts;

use crate::arch::x86_64::{apic, cpu, interrupts, preempt};
use crate::cpu::percpu;
use crate::diagnostics::snapshot;
use crate::drivers::console;
use crate::mm::{OutOfMemory, frame, tlb};

pub use crate::arch::x86_64::interrupts::{NoVectorLeft, Vector};
pub use crate::cpu::percpu::CpuId;
pub use crate::drivers::console::output::Stalled;
pub use crate::mm::stack::{Slot, Stack};
pub use crate::sched::storm::Storm;
pub use x86_64::structures::paging::PhysFrame;

/// Bytes in a page and in a frame.
pub const PAGE_SIZE: usize = crate::mm::PAGE_SIZE;

/// Bytes below a stack that are left to preemption.
pub const RESERVE: usize = crate::mm::stack::RESERVE;

/// Takes an interrupt vector for good: `handler` is called with `argument` on whichever CPU gets the interrupt.
///
/// # Errors
/// All are taken.
///
/// # Safety
/// `handler` keeps to what a handler may do (see `contexts`).
pub unsafe fn allocate_vector(handler: fn(usize), argument: usize) -> Result<Vector, NoVectorLeft> {
    interrupts::allocate(handler, argument)
}

/// Interrupts a CPU. Nothing happens if it is not up.
///
/// # Safety
/// The vector is one of [`allocate_vector`], or one that nobody serves from 32 on.
pub unsafe fn send(to: CpuId, vector: Vector) {
    apic::send(to, vector);
}

/// Interrupts all CPUs but the calling one.
///
/// # Safety
/// As for [`send`].
pub unsafe fn send_to_others(vector: Vector) {
    apic::send_to_others(vector);
}

/// How many interrupts came that nobody had asked for.
pub fn unexpected_interrupts() -> usize {
    interrupts::unexpected_count()
}

/// Calls `body` in the context of a handler of a non-maskable interrupt, as far as the kernel can tell: more is refused
/// there than anywhere else.
pub fn as_if_in_nmi<R>(body: impl FnOnce() -> R) -> R {
    without_interrupts(|| {
        percpu::enter_trap(true);
        let result = body();
        percpu::leave_trap(true);
        result
    })
}

/// Has preemptions inside of `code` overwrite the red zone of what they interrupt.
///
/// # Safety
/// `code` does not rely on its red zone, or is there to show that it is lost.
pub unsafe fn leave_red_zone_unprotected_in(code: Range<u64>) {
    preempt::leave_red_zone_unprotected_in(code);
}

/// How often preemption is off on this CPU.
pub fn preempt_count() -> u32 {
    percpu::preempt_count()
}

/// Calls `body` while nobody can print and what was printed stays in the ring.
pub fn with_console_locked<R>(body: impl FnOnce() -> R) -> R {
    console::with_all_locked(body)
}

/// Takes a frame, even if it is the last.
///
/// # Errors
/// There is none left.
pub fn allocate_frame() -> Result<PhysFrame, OutOfMemory> {
    frame::allocate()
}

/// Returns a frame to the allocator.
///
/// # Safety
/// It is from [`allocate_frame`], and nothing uses it any more.
pub unsafe fn free_frame(frame: PhysFrame) {
    // SAFETY: the caller's promise.
    unsafe { frame::free(frame) };
}

/// Asks a CPU by a non-maskable interrupt where it is. Does not wait.
pub fn ask(cpu: CpuId) {
    snapshot::ask(cpu);
}

/// The number of the last question that a CPU has answered; 0 if it is not up.
pub fn answers(cpu: CpuId) -> u32 {
    snapshot::answers(cpu)
}

/// Writes where every CPU is.
///
/// # Errors
/// Those of `out`.
pub fn write_all_cpus(out: &mut impl fmt::Write) -> fmt::Result {
    snapshot::write_all(out)
}

/// Puts the control registers of this CPU into the state that the kernel wants.
pub fn init_cpu() {
    cpu::init();
}

/// Whether this CPU is in a halt for which no epoch waits. The caller is pinned.
pub fn is_halted() -> bool {
    tlb::is_halted()
}

/// The address of the instruction at which a CPU halts that has nothing to run.
pub fn halt_address() -> u64 {
    cpu::halt_address()
}
