//! The switch for x86-64 (System V ABI).
//!
//! ```text
//!   a saved context                       a prepared context
//!   stack pointer → resume address        stack pointer → `start`
//!                   rbx                                   entry
//!                   rbp
//!                   … frames of the caller                two unused words, top of stack (16-byte aligned)
//! ```
//!
//! Only `rbx` and `rbp` are pushed, because inline assembly cannot name them as clobbered; the compiler keeps whatever
//! else is live across the switch, and only that. The resume address is taken with an indirect `jmp`: a `ret` into
//! another stack is always mispredicted by the return stack buffer, which costs about 7 ns where the jump costs 1.
//! The floating-point control words are not switched: Rust code cannot change them, and what a G must not change
//! needs no saving.

use core::arch::{asm, naked_asm};

use super::{Entry, Transfer};

/// Saves this context in `*save`, resumes the one whose stack pointer is `to`, and hands `transfer` to it. Returns
/// when something switches back here, with what that one handed over.
///
/// # Safety
///
/// - `to` is the stack pointer of a context saved by this function or made by [`prepare`], and nobody else resumes it.
/// - `save` may be written; nobody resumes the value written there before the far side has this call's transfer.
/// - What the caller holds (locks, pins, references to per-CPU data) is good for the flow of control that goes on.
#[inline(always)]
pub unsafe fn switch(save: *mut usize, to: usize, transfer: Transfer) -> Transfer {
    let (function, subject, argument);
    // SAFETY: the caller vouches for `save` and `to`. Every register of the ABI is saved here, declared as clobbered or
    // an output, so that the compiler assumes nothing about them afterwards; the stack is as it was when we resume.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea r8, [rip + 2f]",
            "push r8",
            "mov [r9], rsp",
            "mov rsp, rcx",
            "pop r8",
            "jmp r8",
            "2:",
            "pop rbx",
            "pop rbp",
            inout("r9") save => _,
            inout("rcx") to => _,
            // The transfer travels where its function, and a fresh context's entry, expect their arguments.
            inout("rdi") transfer.subject => subject,
            inout("rsi") transfer.argument => argument,
            inout("rdx") transfer.function => function,
            lateout("r12") _,
            lateout("r13") _,
            lateout("r14") _,
            lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    Transfer { function, subject, argument }
}

/// Lays a fresh context on the stack that ends at `top`; resuming the returned stack pointer calls `entry` with the
/// transfer of that switch.
///
/// # Safety
///
/// The 64 bytes below `top`, which is a multiple of 16, may be written, and no one else uses that stack.
#[inline]
pub unsafe fn prepare(top: usize, entry: Entry) -> usize {
    debug_assert!(top.is_multiple_of(16), "the stack would not be aligned");
    let top = top as *mut usize;
    // SAFETY: within the 64 bytes that the caller gives us.
    let frame = unsafe { top.sub(4) };
    // SAFETY: as above; word aligned because `top` is.
    unsafe { frame.write(start as *const () as usize) };
    // SAFETY: as above.
    let second = unsafe { frame.add(1) };
    // SAFETY: as above.
    unsafe { second.write(entry as *const () as usize) };
    frame as usize
}

/// First instructions of a fresh context. It has no caller: a frame pointer of zero and an undefined return address end
/// every walk of the stack here, by frame pointers or by unwind tables.
#[unsafe(naked)]
extern "sysv64" fn start() {
    naked_asm!(".cfi_startproc", ".cfi_undefined rip", "pop rax", "xor ebp, ebp", "call rax", "ud2", ".cfi_endproc",)
}
