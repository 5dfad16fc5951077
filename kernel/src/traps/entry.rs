//! Entry and exit of interrupts and exceptions.
//!
//! Each of the 256 vectors has a stub of 16 bytes. If the processor pushes no error code for the vector, the stub first
//! pushes a zero in its place. Then the stub pushes the vector's number. So all handlers get a [`TrapFrame`] of the
//! same layout. The frame contains all registers that Rust code may change, SSE included. It is on a stack of the
//! interrupt stack table (IST), never on the stack of the interrupted code (SDM 6.14.5). The handlers run with
//! interrupts off.

use core::arch::naked_asm;
use core::mem::offset_of;

use super::{divert, exception, interrupt, page_fault};
use crate::arch::x86_64::cpu;
use crate::arch::x86_64::trap::{TrapFrame, Vector};
use crate::cpu::percpu;
use crate::diagnostics::panic;
use crate::sched::activity;

/// The exceptions for which the processor pushes an error code. Bit n is for vector n. Some of them belong to features
/// that the kernel does not use (control-flow enforcement, encrypted guests), and do not occur.
const WITH_ERROR_CODE: u32 = 1 << Vector::DOUBLE_FAULT.0
    | 1 << Vector::INVALID_TSS.0
    | 1 << Vector::SEGMENT_NOT_PRESENT.0
    | 1 << Vector::STACK_SEGMENT.0
    | 1 << Vector::GENERAL_PROTECTION.0
    | 1 << Vector::PAGE_FAULT.0
    | 1 << Vector::ALIGNMENT_CHECK.0
    | 1 << Vector::CONTROL_PROTECTION.0
    | 1 << Vector::VMM_COMMUNICATION.0
    | 1 << Vector::SECURITY.0;

/// The size of each stub, in bytes.
const STUB_BYTES: u64 = 16;

/// Returns the address of a vector's stub.
pub(super) fn stub(vector: Vector) -> u64 {
    stubs as *const () as u64 + u64::from(vector.0) * STUB_BYTES
}

/// The stubs of all vectors, in the order of their numbers.
#[unsafe(naked)]
extern "C" fn stubs() {
    naked_asm!(
        ".set .Lvector, 0",
        ".rept 256",
        ".balign {stub_bytes}",
        ".if .Lvector >= 32 || (({with_error_code} >> .Lvector) & 1) == 0",
        "push 0",
        ".endif",
        // This is `push .Lvector`, encoded by hand because the assembler would take the symbol for a memory operand.
        ".byte 0x68",
        ".long .Lvector",
        "jmp {enter}",
        ".set .Lvector, .Lvector + 1",
        ".endr",
        stub_bytes = const STUB_BYTES,
        with_error_code = const WITH_ERROR_CODE,
        enter = sym enter,
    )
}

/// The common part of all stubs: saves the registers, calls [`dispatch`], restores the registers, and returns to the
/// interrupted code.
#[unsafe(naked)]
extern "C" fn enter() {
    naked_asm!(
        "push rax", "push rcx", "push rdx", "push rbx", "push rbp", "push rsi", "push rdi",
        "push r8", "push r9", "push r10", "push r11", "push r12", "push r13", "push r14", "push r15",
        "sub rsp, {xmm_bytes}",
        "movups [rsp], xmm0", "movups [rsp + 0x10], xmm1", "movups [rsp + 0x20], xmm2", "movups [rsp + 0x30], xmm3",
        "movups [rsp + 0x40], xmm4", "movups [rsp + 0x50], xmm5",
        "movups [rsp + 0x60], xmm6", "movups [rsp + 0x70], xmm7",
        "movups [rsp + 0x80], xmm8", "movups [rsp + 0x90], xmm9",
        "movups [rsp + 0xa0], xmm10", "movups [rsp + 0xb0], xmm11",
        "movups [rsp + 0xc0], xmm12", "movups [rsp + 0xd0], xmm13",
        "movups [rsp + 0xe0], xmm14", "movups [rsp + 0xf0], xmm15",
        "cld",
        "mov rdi, rsp",
        // Build a call frame whose return address is in the interrupted code, so that a backtrace continues there. A
        // backtrace subtracts 1 from each return address, to get an address inside the call instruction. So this code
        // adds 1.
        "mov rax, [rsp + {rip}]", "inc rax", "push rax", "push rbp", "mov rbp, rsp",
        "call {dispatch}",
        "add rsp, 16",
        "movups xmm0, [rsp]", "movups xmm1, [rsp + 0x10]", "movups xmm2, [rsp + 0x20]", "movups xmm3, [rsp + 0x30]",
        "movups xmm4, [rsp + 0x40]", "movups xmm5, [rsp + 0x50]",
        "movups xmm6, [rsp + 0x60]", "movups xmm7, [rsp + 0x70]",
        "movups xmm8, [rsp + 0x80]", "movups xmm9, [rsp + 0x90]",
        "movups xmm10, [rsp + 0xa0]", "movups xmm11, [rsp + 0xb0]",
        "movups xmm12, [rsp + 0xc0]", "movups xmm13, [rsp + 0xd0]",
        "movups xmm14, [rsp + 0xe0]", "movups xmm15, [rsp + 0xf0]",
        "add rsp, {xmm_bytes}",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop r11", "pop r10", "pop r9", "pop r8",
        "pop rdi", "pop rsi", "pop rbp", "pop rbx", "pop rdx", "pop rcx", "pop rax",
        // Remove the vector and the error code.
        "add rsp, 16",
        "iretq",
        xmm_bytes = const offset_of!(TrapFrame, r15),
        rip = const offset_of!(TrapFrame, rip),
        dispatch = sym dispatch,
    )
}

/// Handles an interrupt or exception. At the end of an interrupt, the interrupted G is preempted if a preemption is
/// pending and the G can be preempted now. At the end of an exception, a pending preemption stays pending.
extern "sysv64" fn dispatch(frame: &mut TrapFrame) {
    let vector = frame.vector();
    let is_nmi = vector == Vector::NON_MASKABLE;
    percpu::enter_trap(is_nmi);
    let is_interrupt = vector.0 >= Vector::FIRST_INTERRUPT;
    if is_interrupt {
        activity::note_interrupt();
        interrupt::handle(vector, frame);
    } else if is_nmi {
        panic::non_maskable(frame);
        cpu::skip_halt(frame);
    } else {
        handle_exception(frame);
    }
    percpu::leave_trap(is_nmi);
    if is_interrupt {
        divert::on_interrupt_return(frame);
    }
}

/// Handles an exception. Only a page fault can be resolved. Any other exception is reported, and stops the kernel or
/// ends the G that has raised the exception.
fn handle_exception(frame: &mut TrapFrame) {
    match frame.vector() {
        Vector::PAGE_FAULT => page_fault::handle(frame),
        _ => exception::handle(frame),
    }
}
