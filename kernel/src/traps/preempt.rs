//! Asynchronous preemption: takes the CPU from a G at any instruction of user code.
//!
//! An interrupt handler cannot switch to another G, because it runs on the CPU's interrupt stack, which the next
//! interrupt reuses. Instead it *diverts* the interrupted G. It stores the G's RIP, RFLAGS and RSP in per-CPU slots.
//! Then it returns from the interrupt to the function `entry`, on the G's own stack, with preemption and interrupts
//! off. `entry` saves all registers on that stack and calls the scheduler, which switches as for a yield. When the G is
//! resumed, perhaps on another CPU, `entry` restores the registers and returns to the interrupted instruction with
//! `iretq`.
//!
//! `entry` does not write to the 128 bytes below the interrupted stack pointer (the red zone), because the prebuilt
//! `core` keeps data there. Only *user code* is diverted: code that runs with preemption on and whose stack pointer is
//! inside the stack of the current G. If a preemption is requested while preemption is off, the request stays pending
//! until preemption is on again ([`honour_pending`]).
//!
//! The stack of a diverted G that has called the scheduler, with the size of each part in bytes:
//!
//! ```text
//!   higher addresses
//!   ┌──────────────────────────────┐
//!   │ frames of the interrupted    │
//!   │ code                         │
//!   ├──────────────────────────────┤ ◀─ stack pointer when the interrupt came (slot `rsp`)
//!   │ red zone               128   │    not written
//!   ├──────────────────────────────┤
//!   │ SS, RSP, RFLAGS,        40   │    for `iretq`: SS and CS are the kernel's; RSP, RFLAGS and RIP are from the slots
//!   │ CS, RIP                      │
//!   │ RBP                      8   │ ◀─ RBP: makes a call frame, so that a backtrace continues in the G
//!   │ RAX to R15, 14 registers 112 │ ◀─ RBX: holds this address during the call
//!   │ alignment          0 to 15   │
//!   │ MXCSR for the entry     16   │
//!   │ x87 and SSE (FXSAVE)   512   │
//!   ├──────────────────────────────┤
//!   │ `run_diverted`, scheduler    │
//!   └──────────────────────────────┘
//! ```
//!
//! These parts take at most 831 bytes before `run_diverted` is called. Every G's stack has room below it for these bytes
//! and for the scheduler: `mm::stack::RESERVE`.
//!
//! A G that needs a page for its stack when there is no memory is diverted in the same way: see `page_fault`.

use core::arch::naked_asm;
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use gmp_sched::platform::Pinned;
use x86_64::instructions::interrupts;

use crate::arch::x86_64::cpu::DEFAULT_MXCSR;
use crate::arch::x86_64::gdt;
use crate::arch::x86_64::trap::TrapFrame;
use crate::cpu::local::cpu_local;
use crate::cpu::percpu;
use crate::sched::{activity, goroutines, preemption};

/// The slots with the state of the G that is being diverted. The interrupt handler writes them, and [`entry`] reads them on
/// the same CPU before it turns interrupts on.
#[derive(Debug)]
#[repr(C)]
struct Diverted {
    rip: AtomicU64,
    rflags: AtomicU64,
    rsp: AtomicU64,
    /// The function that the G is to call.
    function: AtomicU64,
}

impl Diverted {
    const fn new() -> Self {
        Self { rip: AtomicU64::new(0), rflags: AtomicU64::new(0), rsp: AtomicU64::new(0), function: AtomicU64::new(0) }
    }
}

cpu_local! {
    static DIVERTED: Diverted = Diverted::new();
}

/// The size of the System V ABI's red zone: the bytes below the stack pointer that a function may use without moving it.
const RED_ZONE: u64 = 128;

/// The address range of the code whose red zone is not protected. The range is empty except in the test that calls
/// [`leave_red_zone_unprotected_in`].
static UNSKIPPED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Makes preemptions inside `code` overwrite the red zone of the interrupted code. Only for a test that shows that the
/// other tests would detect this error.
pub(crate) fn leave_red_zone_unprotected_in(code: Range<u64>) {
    UNSKIPPED[0].store(code.start, Ordering::Relaxed);
    UNSKIPPED[1].store(code.end, Ordering::Relaxed);
}

/// How many bytes below the stack pointer must be preserved if the code at `rip` is interrupted.
fn red_zone(rip: u64) -> u64 {
    let unskipped = UNSKIPPED[0].load(Ordering::Relaxed)..UNSKIPPED[1].load(Ordering::Relaxed);
    if unskipped.contains(&rip) { 0 } else { RED_ZONE }
}

const TRAP_FLAG: u64 = 1 << 8;
pub(super) const INTERRUPT_FLAG: u64 = 1 << 9;
const DIRECTION_FLAG: u64 = 1 << 10;
const NESTED_TASK: u64 = 1 << 14;
const ALIGNMENT_CHECK: u64 = 1 << 18;
/// The flags that the interrupted code may have set, but that must be clear when a function is called.
pub(super) const MODES: u64 = TRAP_FLAG | DIRECTION_FLAG | NESTED_TASK | ALIGNMENT_CHECK;

/// If a preemption is pending and the interrupted G can be preempted now, diverts it to [`give_way`]. Called at the end of
/// every interrupt, after the end-of-interrupt was signalled, on the interrupt stack, with interrupts off.
pub(crate) fn on_interrupt_return(frame: &mut TrapFrame) {
    if percpu::is_pending() {
        divert(frame, give_way);
    }
}

/// Diverts the interrupted G if it is in user code and its stack has room: makes it call `function`, and then give way as
/// long as a preemption is pending. Returns whether the G is diverted. `function` is called with interrupts on and pinned
/// once, and must return pinned once, perhaps on another CPU. Called at the end of a handler, with interrupts off.
pub(super) fn divert(frame: &mut TrapFrame, function: extern "sysv64" fn()) -> bool {
    if percpu::is_preemption_off() {
        return false;
    }
    // A G in `entry` has preemption or interrupts off, so it is not diverted a second time. If it could be, each preemption
    // could save another set of registers below the last one, until the stack overflows.
    assert!(!is_in_entry(frame.rip), "a G is diverted that has not come back from the last time");
    let Some(goroutine) = goroutines::interrupted() else { return false };
    let stack = goroutine.stack();
    // The room below a stack (`mm::stack::RESERVE`) is for `entry` and the functions that it calls. If the interrupted
    // stack pointer is already in that room, the G is about to overflow its stack, so it is not diverted.
    if !(stack.start as u64..=stack.end as u64).contains(&frame.rsp) {
        return false;
    }
    percpu::preempt_disable();
    let slots = DIVERTED.here();
    slots.rip.store(frame.rip, Ordering::Relaxed);
    slots.rflags.store(frame.rflags, Ordering::Relaxed);
    slots.rsp.store(frame.rsp, Ordering::Relaxed);
    slots.function.store(function as *const () as u64, Ordering::Relaxed);
    frame.rsp -= red_zone(frame.rip);
    frame.rip = entry as *const () as u64;
    frame.rflags &= !(MODES | INTERRUPT_FLAG);
    true
}

/// The code at which a diverted G continues: on its own stack, below the red zone, with interrupts off and a preempt count
/// of one. All registers except RIP, RSP and RFLAGS have the values of the interrupted code.
#[unsafe(naked)]
extern "C" fn entry() {
    naked_asm!(
        // Push the frame for `iretq`, which need not be aligned.
        "push {data_selector}",
        "push qword ptr gs:[{diverted} + {rsp}]",
        "push qword ptr gs:[{diverted} + {rflags}]",
        "push {code_selector}",
        "push qword ptr gs:[{diverted} + {rip}]",
        "push rbp",
        // RIP and RBP on the stack form a normal call frame, and RBP points to it. So a backtrace continues in the interrupted
        // code.
        "mov rbp, rsp",
        "push rax", "push rcx", "push rdx", "push rbx", "push rsi", "push rdi",
        "push r8", "push r9", "push r10", "push r11", "push r12", "push r13", "push r14", "push r15",
        // Save all x87 and SSE registers in 512 aligned bytes. RBX holds the unaligned stack pointer, because the called
        // function preserves RBX.
        "mov rbx, rsp",
        "sub rsp, 528",
        "and rsp, -16",
        "fxsave64 [rsp]",
        // The ABI requires an empty x87 stack and the default control words when a function is called.
        "fninit",
        "mov dword ptr [rsp + 512], {default_mxcsr}",
        "ldmxcsr [rsp + 512]",
        "mov rdi, gs:[{diverted} + {function}]",
        // The slots have been read, so the next interrupt may overwrite them.
        "sti",
        "call {run_diverted}",
        // From here to `iretq` interrupts are off and the preempt count is zero.
        "fxrstor64 [rsp]",
        "mov rsp, rbx",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop r11", "pop r10", "pop r9", "pop r8",
        "pop rdi", "pop rsi", "pop rbx", "pop rdx", "pop rcx", "pop rax",
        "pop rbp",
        "iretq",
        ".global preempt_entry_end",
        "preempt_entry_end:",
        data_selector = const gdt::KERNEL_DATA,
        code_selector = const gdt::KERNEL_CODE,
        rsp = const offset_of!(Diverted, rsp),
        rflags = const offset_of!(Diverted, rflags),
        rip = const offset_of!(Diverted, rip),
        diverted = sym DIVERTED,
        default_mxcsr = const DEFAULT_MXCSR,
        function = const offset_of!(Diverted, function),
        run_diverted = sym run_diverted,
    )
}

unsafe extern "C" {
    /// The label at the end of [`entry`].
    static preempt_entry_end: u8;
}

/// Whether `rip` is in [`entry`].
fn is_in_entry(rip: u64) -> bool {
    (entry as *const () as u64..(&raw const preempt_entry_end).addr() as u64).contains(&rip)
}

/// Calls `function`, and then gives way as long as a preemption is pending. Called by [`entry`], pinned once. Returns
/// unpinned, with interrupts off. Interrupts must stay off until `iretq`: a preemption before it would save another set of
/// registers on the stack. If that happened again and again, the stack would overflow.
extern "sysv64" fn run_diverted(function: extern "sysv64" fn()) {
    function();
    interrupts::disable();
    while percpu::is_pending() {
        interrupts::enable();
        give_way();
        interrupts::disable();
    }
    percpu::preempt_enable_quietly();
}

/// Makes the calling G give way once. Called pinned, and returns pinned.
extern "sysv64" fn give_way() {
    percpu::clear_pending();
    // SAFETY: the caller is pinned. The `Pinned` is forgotten below, so that it does not undo the caller's pin.
    let pinned = preemption::give_way(unsafe { Pinned::adopt() });
    core::mem::forget(pinned);
}

/// Makes the calling G give way, if it is in user code. Called by [`preempt_enable`](percpu::preempt_enable) when the
/// preempt count has become zero while a preemption is pending.
#[cold]
#[unsafe(export_name = "gmp_honour_pending")]
fn honour_pending() {
    // With interrupts off the CPU must not switch. A handler never calls this function, because the preempt word is not
    // zero in a handler. After a handler, `on_interrupt_return` honours the request.
    if !interrupts::are_enabled() {
        return;
    }
    loop {
        percpu::preempt_disable();
        percpu::clear_pending();
        activity::note_unpin();
        if goroutines::interrupted().is_none() {
            percpu::preempt_enable_quietly();
            return;
        }
        // SAFETY: `preempt_disable` above has pinned the caller. The `Pinned` is forgotten below, so that it does not undo this
        // pin: `preempt_enable_quietly` does.
        let pinned = preemption::give_way(unsafe { Pinned::adopt() });
        core::mem::forget(pinned);
        percpu::preempt_enable_quietly();
        if !percpu::is_pending() {
            return;
        }
    }
}
