//! The context switch for x86-64 (System V ABI).
//!
//! ```text
//!   lower addresses
//!   a saved context                       a prepared context, which resumes at `start`
//!   stack pointer → rbx                   stack pointer → (two unused words)
//!                   rbp                                   (control words, unused word)
//!                   (control words)                       top of stack (16-byte aligned)
//!                   … frames of the caller
//!   higher addresses
//! ```
//!
//! What is in parentheses exists only with the feature `control-words` (see below). Without it, the stack pointer of a
//! prepared context is the top of the stack.
//!
//! Only `rbx` and `rbp` are pushed, because inline assembly cannot declare them as clobbered. All other registers are
//! declared as clobbered, and the compiler saves those that hold live values. The switch reaches the resume address by
//! an indirect `jmp`, which takes about 1 ns. A `ret` would take about 7 ns, because the CPU always mispredicts a `ret`
//! after a change of stacks: its return stack buffer predicts a return to the caller on the old stack.
//!
//! # Floating-point control words
//!
//! The ABI requires functions to preserve the control bits of MXCSR and the x87 control word. Rust code cannot change
//! these, so by default they are not saved. Code in other languages can change them (`fesetround`). For programs with
//! such code there is the feature `control-words`. With this feature, each switch saves the current control words,
//! compares them with those of the resumed context, and loads those of the resumed context if they differ
//! ([`switch_with_control_words`]). This takes 11 instructions, or about 1 ns, per switch.

#[cfg(all(test, target_feature = "sse"))]
mod tests;

use core::arch::{asm, naked_asm};

use super::{SavedContext, Start, Transfer, Visit};

/// The assembly of a switch. `save_more` pushes additional state before `rbp`. `load_more` loads the additional state
/// of the resumed context or, in `switch_with_clear_registers`, clears registers. `drop_more` removes the additional
/// state from the stack of the resumed context.
macro_rules! switch {
    ($save:ident, $to:ident, $transfer:ident,
     save_more: [$($save_more:literal),* $(,)?], load_more: [$($load_more:literal),* $(,)?], drop_more: [$($drop_more:literal),*]) => {{
        let (function, subject, argument);
        // The caller guarantees that `save` and `to` are valid. Every register of the ABI is either saved here or
        // declared as clobbered or as an output, so the compiler assumes nothing about them afterwards. When this
        // context is resumed, its stack is as it was.
        asm!(
            $($save_more,)*
            // ANCHOR: switch
            "push rbp",
            "push rbx",
            "lea r8, [rip + 2f]",
            "mov [{save}], rsp",
            "mov [{save} + 8], r8",
            "mov rsp, [rcx]",
            $($load_more,)*
            "jmp [rcx + 8]",
            "2:",
            "pop rbx",
            "pop rbp",
            // ANCHOR_END: switch
            $($drop_more,)*
            save = in(reg) $save,
            // The registers of the first three arguments in the System V ABI contain the transfer. The far side, or
            // [`Start::arrive`] of a fresh context, is called with them. A fresh context also needs its own address,
            // which is in RCX.
            inout("rcx") $to => _,
            inout("rdi") $transfer.subject => subject,
            inout("rsi") $transfer.argument => argument,
            inout("rdx") $transfer.function => function,
            // R8 is written before `save` is used for the last time. So R8 must not be a late output, because a late
            // output could share a register with `save`.
            out("r8") _,
            out("r10") _,
            out("r11") _,
            lateout("r12") _,
            lateout("r13") _,
            lateout("r14") _,
            lateout("r15") _,
            clobber_abi("sysv64"),
        );
        Transfer { function, subject, argument }
    }};
}

/// The part of a [`switch!`] that resumes a context. The current context is not saved. `drop_more` is not used.
macro_rules! resume {
    ($to:ident, $transfer:ident,
     save_more: [$($save_more:literal),* $(,)?], load_more: [$($load_more:literal),* $(,)?], drop_more: [$($drop_more:literal),*]) => {
        // The caller guarantees that `to` is valid.
        asm!(
            $($save_more,)*
            "mov rsp, [rcx]",
            $($load_more,)*
            "jmp [rcx + 8]",
            in("rcx") $to,
            in("rdi") $transfer.subject,
            in("rsi") $transfer.argument,
            in("rdx") $transfer.function,
            options(noreturn),
        )
    };
}

/// Saves the current context in `*save`, resumes `*to`, and passes `transfer` to it. Returns when another switch
/// resumes the saved context, with the transfer of that switch.
///
/// # Safety
///
/// - `*to` is a context saved by this function or made by [`prepare`], and no other flow of control resumes it.
/// - `*save` may be written. No other flow of control resumes it before the far side has received this transfer.
/// - What the caller holds (locks, pins, references to per-CPU data) stays valid for the flow of control that runs
///   next.
#[inline(always)]
pub unsafe fn switch_without_control_words(
    save: *const SavedContext,
    to: *const SavedContext,
    transfer: Transfer,
) -> Transfer {
    // SAFETY: the caller guarantees what the assembly needs, see `# Safety`.
    unsafe { switch!(save, to, transfer, save_more: [], load_more: [], drop_more: []) }
}

/// Resumes `*to` and passes `transfer` to it. The current context is not saved, so it is never resumed.
///
/// # Safety
///
/// The requirements of [`switch_without_control_words`] apply.
#[inline(always)]
pub unsafe fn resume_without_control_words(to: *const SavedContext, transfer: Transfer) -> ! {
    // SAFETY: the caller guarantees what the assembly needs, see `# Safety`.
    unsafe { resume!(to, transfer, save_more: [], load_more: [], drop_more: []) }
}

/// Like [`switch_without_control_words`], but clears the callee-saved registers. A resumed context restores its own
/// values. A fresh context, however, saves the values that it finds to the stack, in its first frames. If the registers
/// were not cleared, two simulated runs in the same state would differ in these words of the stack.
///
/// # Safety
///
/// The requirements of [`switch_without_control_words`] apply.
#[cfg(feature = "std")]
#[inline(never)]
pub(crate) unsafe fn switch_with_clear_registers(
    save: *const SavedContext,
    to: *const SavedContext,
    transfer: Transfer,
) -> Transfer {
    // SAFETY: the caller guarantees what the assembly needs, see `switch_without_control_words`.
    unsafe {
        switch!(save, to, transfer,
            save_more: [],
            load_more: [
                "xor ebx, ebx",
                "xor ebp, ebp",
                "xor r12d, r12d",
                "xor r13d, r13d",
                "xor r14d, r14d",
                "xor r15d, r15d",
            ],
            drop_more: [])
    }
}

/// Extends a [`switch!`] or a [`resume!`] so that it preserves the control words.
#[cfg(target_feature = "sse")]
macro_rules! keeping_control_words {
    ($what:ident!($($arguments:tt)*)) => {
        $what!($($arguments)*,
            save_more: [
                "sub rsp, 8",
                "stmxcsr [rsp]",
                "fnstcw [rsp + 4]",
                "mov r10d, [rsp]",
                "movzx r11d, word ptr [rsp + 4]",
            ],
            load_more: [
                // RBX and RBP are on the stack below the control words. The lower six bits of MXCSR are exception
                // flags, which are not preserved.
                "xor r10d, [rsp + 16]",
                "test r10d, 0xffc0",
                "jne 3f",
                "cmp [rsp + 20], r11w",
                "je 4f",
                "3:",
                "ldmxcsr [rsp + 16]",
                "fldcw [rsp + 20]",
                "4:",
            ],
            drop_more: ["add rsp, 8"]
        )
    };
}

/// Like [`switch_without_control_words`], but also preserves the control words.
///
/// # Safety
///
/// The requirements of [`switch_without_control_words`] apply. In addition, `*to` was saved by this function or made by
/// [`prepare`].
#[cfg(target_feature = "sse")]
#[inline(always)]
pub unsafe fn switch_with_control_words(
    save: *const SavedContext,
    to: *const SavedContext,
    transfer: Transfer,
) -> Transfer {
    // SAFETY: the caller guarantees what the assembly needs, see `# Safety`.
    unsafe { keeping_control_words!(switch!(save, to, transfer)) }
}

/// Like [`resume_without_control_words`], but also loads the control words of `*to`.
///
/// # Safety
///
/// The requirements of [`switch_with_control_words`] apply.
#[cfg(target_feature = "sse")]
#[inline(always)]
pub unsafe fn resume_with_control_words(to: *const SavedContext, transfer: Transfer) -> ! {
    // SAFETY: the caller guarantees what the assembly needs, see `# Safety`.
    unsafe { keeping_control_words!(resume!(to, transfer)) }
}

/// The control words of a fresh context, as the ABI specifies: all exceptions masked, rounding to nearest, full
/// precision. The lower half is MXCSR, the upper half is the x87 control word.
const CONTROL_WORDS: usize = 0x037f << 32 | 0x1f80;

/// Makes `context` a fresh context on the stack that ends at `top`. The first switch to `context` passes its transfer
/// to `S::arrive`. Until then the stack stays untouched, except for the control words.
///
/// # Safety
///
/// The 64 bytes below `top` are valid for writes, and nothing else uses that stack. `top` is a multiple of 16. No other
/// flow of control uses `context`.
#[inline(always)]
pub unsafe fn prepare<S: Start>(context: &SavedContext, top: usize) {
    // SAFETY: the called function has the same contract as this function.
    unsafe { prepare_with::<S, KEEPS_CONTROL_WORDS>(context, top) }
}

/// Whether the switch preserves the control words.
const KEEPS_CONTROL_WORDS: bool = cfg!(all(feature = "control-words", target_feature = "sse"));

/// Like [`prepare`], but for a switch that preserves the control words if and only if `CONTROL_WORDS_TOO` is `true`.
///
/// # Safety
///
/// The requirements of [`prepare`] apply.
#[inline(always)]
unsafe fn prepare_with<S: Start, const CONTROL_WORDS_TOO: bool>(context: &SavedContext, top: usize) {
    debug_assert!(top.is_multiple_of(16), "a stack that ends at {top:#x}");
    // SAFETY: the called function has the same contract as this function.
    unsafe { place_first_frame::<CONTROL_WORDS_TOO>(context, top) };
    context.set_resume(start::<S> as *const () as usize);
}

/// Whether `context` was prepared on the stack that ends at `top` and has not run since, so that this stack is empty.
/// The context must not be running.
#[inline(always)]
pub(crate) fn is_fresh(context: &SavedContext, top: usize) -> bool {
    // `start` pushes a return address, so the saved stack pointer of a context that has run is lower.
    context.stack_pointer() == top - FIRST_FRAME
}

/// Moves a [fresh](is_fresh) context to the stack that ends at `top`.
///
/// # Safety
///
/// The requirements of [`prepare`] apply. In addition, no value on the context's old stack is in use when the context
/// is resumed.
#[inline(always)]
pub(crate) unsafe fn relocate(context: &SavedContext, top: usize) {
    // SAFETY: the called function has the contract of `prepare`, which the contract of this function includes.
    unsafe { place_first_frame::<KEEPS_CONTROL_WORDS>(context, top) }
}

/// Returns the size of the first frame of a fresh context, in bytes.
const fn first_frame(has_control_words: bool) -> usize {
    if has_control_words { 32 } else { 0 }
}

/// The number of bytes below the end of a stack that [`prepare`] may overwrite.
pub(crate) const FIRST_FRAME: usize = first_frame(KEEPS_CONTROL_WORDS);

/// Places the first frame of a fresh context below `top`.
///
/// # Safety
///
/// The requirements of [`prepare`] apply.
#[inline(always)]
unsafe fn place_first_frame<const CONTROL_WORDS_TOO: bool>(context: &SavedContext, top: usize) {
    let frame = top - first_frame(CONTROL_WORDS_TOO);
    if CONTROL_WORDS_TOO {
        // SAFETY: the address is aligned, because `top` is. It is within the 64 bytes below `top`. By the contract of
        // this function, these bytes may be written.
        unsafe { (frame as *mut usize).wrapping_add(2).write(CONTROL_WORDS) };
    }
    context.set_stack_pointer(frame);
}

/// The first instructions of a fresh context. RDI, RSI and RDX contain the transfer, and RCX contains the address of
/// the context. The context has no caller, so every stack walk must end here. A walk by frame pointers ends at the zero
/// in RBP, and a walk by unwind tables ends at the undefined return address.
///
/// `run` is entered by a `jmp`, with a return address on the stack as if it had been called. Because `run` never
/// returns, a `call` would leave an entry in the CPU's return stack buffer when the context ends. The next context
/// would pop this entry at its first `ret`, so the CPU would mispredict this `ret` and those after it. With a `call`,
/// spawning a G and joining it (`spawn_join_handle`) took a quarter to a third longer on threads.
#[unsafe(naked)]
extern "sysv64" fn start<S: Start>() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        // ANCHOR: start
        "xor ebp, ebp",
        // `arrive` preserves RBX.
        "mov rbx, rcx",
        "call {arrive}",
        "mov rdi, rbx",
        "lea rax, [rip + 2f]",
        "push rax",
        "jmp {run}",
        "2:",
        "ud2",
        // ANCHOR_END: start
        ".cfi_endproc",
        arrive = sym S::arrive,
        run = sym S::run,
    )
}

/// The instructions at which a context with a detour resumes. They preserve the registers that hold the transfer. They
/// may use RBX and RBP, because the context's own values are still on its stack. They clear the frame pointer, because
/// it still belongs to the stack that was left.
#[unsafe(naked)]
pub(super) extern "sysv64" fn detour<V: Visit>() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "mov rbx, rsp",
        "xor ebp, ebp",
        "and rsp, -16",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "mov rdi, rcx",
        "call {visit}",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "mov rsp, rbx",
        "jmp [rcx + 16]",
        ".cfi_endproc",
        visit = sym V::visit,
    )
}
