//! The entry at which interrupted code continues after an interrupt handler has diverted it. The entry saves all
//! registers of the interrupted code on the stack of that code, calls a function, and returns to the interrupted
//! instruction. `interrupt_return` decides what is diverted.
//!
//! The stack of diverted code, with the size of each part in bytes:
//!
//! ```text
//!   higher addresses
//!   ┌──────────────────────────────┐
//!   │ frames of the interrupted    │
//!   │ code                         │
//!   ├──────────────────────────────┤ ◀─ stack pointer when the interrupt came
//!   │ red zone               128   │    not written
//!   ├──────────────────────────────┤
//!   │ SS, RSP, RFLAGS,        40   │    for `iretq`
//!   │ CS, RIP                      │
//!   │ RBP                      8   │ ◀─ RBP: makes a call frame, so that a backtrace continues in the interrupted code
//!   │ RAX to R15, 14 registers 112 │ ◀─ RBX: holds this address during the call
//!   │ alignment          0 to 15   │
//!   │ MXCSR for the entry     16   │
//!   │ x87 and SSE (FXSAVE)   512   │
//!   ├──────────────────────────────┤
//!   │ the called function          │
//!   └──────────────────────────────┘
//! ```

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

/// The size of the System V ABI's red zone: the bytes below the stack pointer that a function may use without moving
/// it.
pub const RED_ZONE: u64 = 128;

/// The maximum number of bytes, including the red zone, that the entry uses below the stack pointer of the interrupted
/// code before it calls a function.
pub const ENTRY_STACK: usize = 831;

const TRAP_FLAG: u64 = 1 << 8;
const INTERRUPT_FLAG: u64 = 1 << 9;
const DIRECTION_FLAG: u64 = 1 << 10;
const NESTED_TASK: u64 = 1 << 14;
const ALIGNMENT_CHECK: u64 = 1 << 18;

/// The flags that interrupted code may have set, but that must be clear when a function is called.
pub const MODES: u64 = TRAP_FLAG | DIRECTION_FLAG | NESTED_TASK | ALIGNMENT_CHECK;

/// The state of interrupted code, which the interrupt handler restores when it returns. Each reference points to the
/// memory from which the handler restores the register. So the interrupted code continues with the value that this
/// memory contains at the end of the handler.
#[derive(Debug)]
pub struct Interrupted<'a> {
    /// The address of the next instruction.
    pub rip: &'a mut u64,
    /// The code segment.
    pub cs: u64,
    /// The flags.
    pub rflags: &'a mut u64,
    /// The stack pointer.
    pub rsp: &'a mut u64,
    /// The stack segment.
    pub ss: u64,
    /// The register RDI.
    pub rdi: &'a mut u64,
}

/// A function that diverted code calls.
pub(crate) type Callee = extern "sysv64" fn();

/// The values that the handler stores for the entry. The entry reads them before it turns interrupts on. One `Slots`
/// for each CPU is enough, because interrupts are off from the stores until the reads are done.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slots {
    rip: AtomicU64,
    cs: AtomicU64,
    rflags: AtomicU64,
    rsp: AtomicU64,
    ss: AtomicU64,
    rdi: AtomicU64,
    /// The function that the entry calls. It is called with the value of the field `argument`.
    function: AtomicU64,
    argument: AtomicU64,
}

impl Slots {
    /// Empty slots.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            rip: AtomicU64::new(0),
            cs: AtomicU64::new(0),
            rflags: AtomicU64::new(0),
            rsp: AtomicU64::new(0),
            ss: AtomicU64::new(0),
            rdi: AtomicU64::new(0),
            function: AtomicU64::new(0),
            argument: AtomicU64::new(0),
        }
    }

    /// Makes the interrupted code continue at [`entry`], with interrupts off and with the stack pointer below the red
    /// zone. The entry calls `function` with `argument` and with interrupts on; `function` returns with interrupts off.
    pub(crate) fn divert(
        &'static self,
        interrupted: Interrupted<'_>,
        red_zone: u64,
        function: extern "sysv64" fn(Callee),
        argument: Callee,
    ) {
        let Interrupted { rip, cs, rflags, rsp, ss, rdi } = interrupted;
        let stored = [
            (&self.rip, *rip),
            (&self.cs, cs),
            (&self.rflags, *rflags),
            (&self.rsp, *rsp),
            (&self.ss, ss),
            (&self.rdi, *rdi),
            (&self.function, function as *const () as u64),
            (&self.argument, argument as *const () as u64),
        ];
        stored.into_iter().for_each(|(slot, value)| slot.store(value, Ordering::Relaxed));
        *rsp -= red_zone;
        *rip = entry as *const () as u64;
        *rflags &= !(MODES | INTERRUPT_FLAG);
        *rdi = core::ptr::from_ref(self).addr() as u64;
    }
}

/// The size of [`entry`] in bytes, with padding.
const ENTRY_BYTES: u64 = 192;

/// Where diverted code continues: on its own stack, below the red zone, with interrupts off. RDI is the address of the
/// [`Slots`]. All registers except RDI, RIP, RSP and RFLAGS have the values of the interrupted code.
#[unsafe(naked)]
extern "C" fn entry() {
    naked_asm!(
        "2:",
        // Push the frame for `iretq`. This frame need not be aligned.
        "push qword ptr [rdi + {ss}]",
        "push qword ptr [rdi + {rsp}]",
        "push qword ptr [rdi + {rflags}]",
        "push qword ptr [rdi + {cs}]",
        "push qword ptr [rdi + {rip}]",
        "push rbp",
        // The last two words pushed, RIP and RBP, are what a called function has at the beginning of its frame. RBP is
        // set to their address. So a backtrace continues in the interrupted code, as if it had called this function.
        "mov rbp, rsp",
        "push rax", "push rcx", "push rdx", "push rbx", "push rsi",
        "push qword ptr [rdi + {rdi}]",
        "push r8", "push r9", "push r10", "push r11", "push r12", "push r13", "push r14", "push r15",
        // RBX holds the unaligned stack pointer, because the called function preserves RBX.
        "mov rbx, rsp",
        "sub rsp, 528",
        "and rsp, -16",
        // Save all x87 and SSE registers. The ABI requires an empty x87 stack and the default control words when a
        // function is called.
        #[cfg(target_feature = "sse")]
        "fxsave64 [rsp]",
        #[cfg(target_feature = "sse")]
        "fninit",
        #[cfg(target_feature = "sse")]
        "mov dword ptr [rsp + 512], 0x1f80",
        #[cfg(target_feature = "sse")]
        "ldmxcsr [rsp + 512]",
        "mov rax, [rdi + {function}]",
        "mov rdi, [rdi + {argument}]",
        // The slots have been read, so the next interrupt may overwrite them.
        "sti",
        "call rax",
        // From here to `iretq` interrupts are off.
        #[cfg(target_feature = "sse")]
        "fxrstor64 [rsp]",
        "mov rsp, rbx",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop r11", "pop r10", "pop r9", "pop r8",
        "pop rdi", "pop rsi", "pop rbx", "pop rdx", "pop rcx", "pop rax",
        "pop rbp",
        "iretq",
        // The assembler rejects this line if the code above is longer than `entry_bytes`.
        ".org 2b + {entry_bytes}, 0xcc",
        entry_bytes = const ENTRY_BYTES,
        rip = const offset_of!(Slots, rip),
        cs = const offset_of!(Slots, cs),
        rflags = const offset_of!(Slots, rflags),
        rsp = const offset_of!(Slots, rsp),
        ss = const offset_of!(Slots, ss),
        rdi = const offset_of!(Slots, rdi),
        function = const offset_of!(Slots, function),
        argument = const offset_of!(Slots, argument),
    )
}

/// Whether `rip` is in [`entry`].
#[inline]
pub(crate) fn is_in_entry(rip: u64) -> bool {
    let begin = entry as *const () as u64;
    (begin..begin + ENTRY_BYTES).contains(&rip)
}

/// Whether the calling CPU takes interrupts.
pub(crate) fn are_interrupts_on() -> bool {
    let flags: u64;
    // SAFETY: the two instructions only copy the flags into a register, by way of the stack.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(nomem, preserves_flags)) };
    flags & INTERRUPT_FLAG != 0
}

/// Turns interrupts on.
///
/// # Safety
///
/// The caller is in ring 0, and may be interrupted.
pub(crate) unsafe fn enable_interrupts() {
    // SAFETY: the caller guarantees that it is in ring 0 and may be interrupted.
    unsafe { asm!("sti", options(nostack)) };
}

/// Turns interrupts off.
///
/// # Safety
///
/// The caller is in ring 0.
pub(crate) unsafe fn disable_interrupts() {
    // SAFETY: the caller guarantees that it is in ring 0.
    unsafe { asm!("cli", options(nostack)) };
}
