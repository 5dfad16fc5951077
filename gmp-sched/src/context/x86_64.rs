//! The switch for x86-64 (System V ABI).
//!
//! ```text
//!   a saved context                       a prepared context, which goes on at `start`
//!   stack pointer → rbx                   stack pointer → (two unused words)
//!                   rbp                                   (control words, unused word)
//!                   (control words)                       top of stack (16-byte aligned)
//!                   … frames of the caller
//! ```
//!
//! Only `rbx` and `rbp` are pushed, because inline assembly cannot name them as clobbered; the compiler keeps whatever
//! else is live across the switch, and only that. The address to go on at is taken with an indirect `jmp`: a `ret` into
//! another stack is always mispredicted by the return stack buffer, which costs about 7 ns where the jump costs 1.
//!
//! # Floating-point control words
//!
//! The ABI has functions keep the control bits of MXCSR and the x87 control word. Rust code cannot change them, and what
//! cannot be changed needs no saving. For programs with code of other languages that does (`fesetround`), the feature
//! `control-words` has each switch compare them with those of the context that resumes, and load them where they differ:
//! [`switch_with_control_words`], 11 instructions or about 1 ns a switch.

use core::arch::{asm, naked_asm};

use super::{Entry, SavedContext, Transfer, Visit};

/// The switch; what is saved more lies above `rbp`.
macro_rules! switch {
    ($save:ident, $to:ident, $transfer:ident,
     save_more: [$($save_more:literal),* $(,)?], load_more: [$($load_more:literal),* $(,)?], drop_more: [$($drop_more:literal),*]) => {{
        let (function, subject, argument);
        // The caller vouches for `save` and `to`. Every register of the ABI is saved here, declared as clobbered or an
        // output, so that the compiler assumes nothing about them afterwards; the stack is as it was when we resume.
        asm!(
            $($save_more,)*
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
            $($drop_more,)*
            save = in(reg) $save,
            // The transfer travels where its function, and a fresh context's entry, expect their arguments; so does the
            // context that is resumed.
            inout("rcx") $to => _,
            inout("rdi") $transfer.subject => subject,
            inout("rsi") $transfer.argument => argument,
            inout("rdx") $transfer.function => function,
            // Written before `save` is used for the last time.
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

/// The end of a [`switch!`], without its beginning.
macro_rules! resume {
    ($to:ident, $transfer:ident,
     save_more: [$($save_more:literal),* $(,)?], load_more: [$($load_more:literal),* $(,)?], drop_more: [$($drop_more:literal),*]) => {
        // The caller vouches for `to`.
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

/// Saves this context in `*save`, resumes `*to`, and hands `transfer` to it. Returns when something switches back here,
/// with what that one handed over.
///
/// # Safety
///
/// - `*to` is a context saved by this function or made by [`prepare`], and nobody else resumes it.
/// - `*save` may be written; nobody resumes what is written there before the far side has this call's transfer.
/// - What the caller holds (locks, pins, references to per-CPU data) is good for the flow of control that goes on.
#[inline(always)]
pub unsafe fn switch_without_control_words(
    save: *const SavedContext,
    to: *const SavedContext,
    transfer: Transfer,
) -> Transfer {
    // SAFETY: by the caller.
    unsafe { switch!(save, to, transfer, save_more: [], load_more: [], drop_more: []) }
}

/// Resumes `*to`, hands `transfer` to it, and leaves this context for good: it is not saved.
///
/// # Safety
///
/// As for [`switch_without_control_words`].
#[inline(always)]
pub unsafe fn resume_without_control_words(to: *const SavedContext, transfer: Transfer) -> ! {
    // SAFETY: by the caller.
    unsafe { resume!(to, transfer, save_more: [], load_more: [], drop_more: []) }
}

/// [`switch_without_control_words`] that clears the registers which functions save for their callers. A context has saved its
/// own, so what they have when it is resumed means nothing; but fresh frames save it, and the stacks of two runs that are alike
/// would differ there.
///
/// # Safety
///
/// As for [`switch_without_control_words`].
#[cfg(all(feature = "std", not(gmp_loom)))]
#[inline(never)]
pub(crate) unsafe fn switch_with_clear_registers(
    save: *const SavedContext,
    to: *const SavedContext,
    transfer: Transfer,
) -> Transfer {
    // SAFETY: by the caller.
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

/// Adds what keeps the control words to a [`switch!`] or a [`resume!`].
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
                // Below are rbx and rbp. Of MXCSR the lower six bits are flags, which nobody keeps.
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

/// [`switch_without_control_words`] that keeps those as well.
///
/// # Safety
///
/// As for [`switch_without_control_words`]; `*to` was saved by this function or made by [`prepare`].
#[cfg(target_feature = "sse")]
#[inline(always)]
pub unsafe fn switch_with_control_words(
    save: *const SavedContext,
    to: *const SavedContext,
    transfer: Transfer,
) -> Transfer {
    // SAFETY: by the caller.
    unsafe { keeping_control_words!(switch!(save, to, transfer)) }
}

/// [`resume_without_control_words`] that loads those as well.
///
/// # Safety
///
/// As for [`switch_with_control_words`].
#[cfg(target_feature = "sse")]
#[inline(always)]
pub unsafe fn resume_with_control_words(to: *const SavedContext, transfer: Transfer) -> ! {
    // SAFETY: by the caller.
    unsafe { keeping_control_words!(resume!(to, transfer)) }
}

/// What a context begins with, as functions of the ABI may expect: all exceptions masked, to the nearest, in full
/// precision; MXCSR, and above it the control word of the x87.
const CONTROL_WORDS: usize = 0x037f << 32 | 0x1f80;

/// Makes `context` a fresh one, on the stack that ends at `top`; resuming it calls `entry` with the transfer of that switch.
/// The stack is not touched before, or only for the control words.
///
/// # Safety
///
/// The 64 bytes below `top` may be written, and no one else uses that stack. `top` is a multiple of 16. Nobody uses `context`.
#[inline(always)]
pub unsafe fn prepare(context: &SavedContext, top: usize, entry: Entry) {
    // SAFETY: by the caller.
    unsafe { prepare_with::<KEEPS_CONTROL_WORDS>(context, top, entry) }
}

/// Whether the switch keeps them.
const KEEPS_CONTROL_WORDS: bool = cfg!(all(feature = "control-words", target_feature = "sse"));

/// [`prepare`], with control words or without.
///
/// # Safety
///
/// As for [`prepare`].
#[inline(always)]
unsafe fn prepare_with<const CONTROL_WORDS_TOO: bool>(context: &SavedContext, top: usize, entry: Entry) {
    debug_assert!(top.is_multiple_of(16), "a stack that ends at {top:#x}");
    // SAFETY: by the caller.
    unsafe { lay::<CONTROL_WORDS_TOO>(context, top) };
    context.set_start(start as *const () as usize, entry);
}

/// Whether `context` is a fresh one that was prepared on the stack which ends at `top`, so that nothing is on that stack.
/// Not of a context that runs.
#[inline(always)]
pub(crate) fn is_fresh(context: &SavedContext, top: usize) -> bool {
    // The call of `entry` pushes: nothing that has run is saved as high as this.
    context.stack_pointer() == top - first_frame(KEEPS_CONTROL_WORDS)
}

/// Moves a [fresh](is_fresh) context to another stack, which ends at `top`.
///
/// # Safety
///
/// As for [`prepare`]; what is on that stack is not used any more when the context is resumed.
#[inline(always)]
pub(crate) unsafe fn relocate(context: &SavedContext, top: usize) {
    // SAFETY: by the caller.
    unsafe { lay::<KEEPS_CONTROL_WORDS>(context, top) }
}

/// Bytes of the stack that a fresh context has in use.
const fn first_frame(has_control_words: bool) -> usize {
    if has_control_words { 32 } else { 0 }
}

/// Has a fresh context begin below `top`.
///
/// # Safety
///
/// As for [`prepare`].
#[inline(always)]
unsafe fn lay<const CONTROL_WORDS_TOO: bool>(context: &SavedContext, top: usize) {
    let frame = top - first_frame(CONTROL_WORDS_TOO);
    if CONTROL_WORDS_TOO {
        // SAFETY: within the 64 bytes that the caller gives us, and aligned.
        unsafe { (frame as *mut usize).wrapping_add(2).write(CONTROL_WORDS) };
    }
    context.set_stack_pointer(frame);
}

/// First instructions of a fresh context, whose address is in RCX. It has no caller: a frame pointer of zero and an undefined
/// return address end every walk of the stack here, by frame pointers or by unwind tables.
#[unsafe(naked)]
extern "sysv64" fn start() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "xor ebp, ebp",
        "call [rcx + {entry}]",
        "ud2",
        ".cfi_endproc",
        entry = const SavedContext::ENTRY,
    )
}

/// Where a context goes on that makes a detour. It keeps the registers in which it finds what was handed over. RBX and RBP are
/// free: their values lie on the stack still. No frame pointer, for that of the one who left is none of this stack.
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

#[cfg(all(test, target_feature = "sse"))]
mod tests {
    use core::arch::asm;
    use core::ptr;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::{Transfer, Visit, prepare_with, switch_with_control_words, switch_without_control_words};
    use crate::context::SavedContext;

    const NOTHING: Transfer = Transfer { function: 0, subject: 0, argument: 0 };
    /// Toward zero, in both.
    const OTHERS: (u32, u16) = (0x7f80, 0x0f7f);
    const DEFAULTS: (u32, u16) = (0x1f80, 0x037f);

    type Switch = unsafe fn(*const SavedContext, *const SavedContext, Transfer) -> Transfer;

    fn control_words() -> (u32, u16) {
        let (mut mxcsr, mut x87) = (0, 0);
        // SAFETY: stores two registers.
        unsafe { asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut mxcsr, in(reg) &raw mut x87) };
        // Without the flags of what has been computed.
        (mxcsr & !0x3f, x87)
    }

    fn set_control_words((mxcsr, x87): (u32, u16)) {
        // SAFETY: nothing is computed in floating point before they are set back.
        unsafe { asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const mxcsr, in(reg) &raw const x87) };
    }

    /// What the test and the context that it switches to know of each other.
    struct Pair {
        test: SavedContext,
        other: SavedContext,
        switch: Switch,
        seen: (u32, u16),
    }

    /// Notes what it finds, changes it, and goes back, twice.
    extern "sysv64" fn other(pair: usize, _: usize, _: usize, _: usize) -> ! {
        let pair = ptr::with_exposed_provenance_mut::<Pair>(pair);
        loop {
            // SAFETY: the test lends it, and does not run meanwhile.
            let pair = unsafe { &mut *pair };
            pair.seen = control_words();
            set_control_words(OTHERS);
            // SAFETY: the test has been saved.
            unsafe { (pair.switch)(&raw const pair.other, &raw const pair.test, NOTHING) };
        }
    }

    /// What the other context finds first and again, and what is found after coming back from it.
    fn words_seen(switch: Switch) -> [(u32, u16); 3] {
        let mut stack = alloc::vec![0_usize; 8192];
        let mut pair = Pair { test: SavedContext::new(), other: SavedContext::new(), switch, seen: DEFAULTS };
        let top = stack.as_mut_ptr_range().end as usize & !15;
        // SAFETY: ours alone, and large enough.
        unsafe { prepare_with::<true>(&pair.other, top, other) };
        let mut seen = [DEFAULTS; 3];
        for seen in &mut seen[..2] {
            let subject = (&raw mut pair).expose_provenance();
            // SAFETY: it has been prepared, then saved by itself.
            unsafe { switch(&raw const pair.test, &raw const pair.other, Transfer { subject, ..NOTHING }) };
            *seen = pair.seen;
        }
        seen[2] = control_words();
        set_control_words(DEFAULTS);
        seen
    }

    #[test]
    fn each_context_has_control_words_of_its_own_where_they_are_switched() {
        assert_eq!(words_seen(switch_with_control_words), [DEFAULTS, OTHERS, DEFAULTS]);
    }

    /// Counts those of `Pair::other`.
    struct Visits;

    static VISITS: AtomicUsize = AtomicUsize::new(0);

    impl Visit for Visits {
        extern "sysv64" fn visit(context: usize) {
            VISITS.fetch_add(context, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_context_makes_a_detour_once_and_then_goes_on_with_what_was_handed_over() {
        let mut stack = alloc::vec![0_usize; 8192];
        let switch = switch_without_control_words;
        let mut pair = Pair { test: SavedContext::new(), other: SavedContext::new(), switch, seen: DEFAULTS };
        let top = stack.as_mut_ptr_range().end as usize & !15;
        // SAFETY: ours alone, and large enough.
        unsafe { prepare_with::<false>(&pair.other, top, other) };
        let address = (&raw const pair.other).addr();
        // Fresh, saved, and not diverted any more.
        for (is_diverted, visits) in [(true, 1), (true, 2), (false, 2)] {
            if is_diverted {
                pair.other.divert::<Visits>();
                pair.other.divert::<Visits>();
            }
            pair.seen = (0, 0);
            let subject = (&raw mut pair).expose_provenance();
            // SAFETY: it has been prepared, then saved by itself.
            unsafe { switch(&raw const pair.test, &raw const pair.other, Transfer { subject, ..NOTHING }) };
            assert_eq!(VISITS.load(Ordering::Relaxed), visits * address);
            assert_ne!(pair.seen, (0, 0));
        }
        set_control_words(DEFAULTS);
    }

    /// What that is for.
    #[test]
    fn all_contexts_share_the_control_words_where_they_are_not_switched() {
        assert_eq!(words_seen(switch_without_control_words), [DEFAULTS, OTHERS, OTHERS]);
    }
}
