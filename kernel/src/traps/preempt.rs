//! Strong preemption: taking the CPU from a G anywhere in user code.
//!
//! An interrupt handler cannot switch to another G: it runs on the CPU's interrupt stack, which the next interrupt reuses.
//! Instead it *diverts* the interrupted G: it stores RIP, RFLAGS and RSP in per-CPU slots, and returns from the interrupt to
//! `entry`, on the G's own stack, with preemption and interrupts off. The entry saves all registers on that stack and calls
//! the scheduler, which switches as for a yield. When the G is resumed, perhaps on another CPU, the entry restores the
//! registers and returns to the interrupted instruction with `iretq`.
//!
//! The 128 bytes below the interrupted stack pointer are not written, because prebuilt `core` is compiled with a red zone and
//! keeps data there. Only *user code* is diverted: preemption is on, and the stack pointer is inside the stack of the current
//! G. A request that comes at another moment stays pending until preemption is on again ([`honour_pending`]).
//!
//! The G's stack while the scheduler runs for it, with the bytes that each part takes:
//!
//! ```text
//!   higher addresses
//!   ┌──────────────────────────────┐
//!   │ frames of the interrupted    │
//!   │ code                         │
//!   ├──────────────────────────────┤ ◀─ stack pointer when the interrupt came (slot `rsp`)
//!   │ red zone               128   │    not written
//!   ├──────────────────────────────┤
//!   │ SS, RSP, RFLAGS,        40   │    what `iretq` pops: CS is the kernel's, the rest from the slots
//!   │ CS, RIP                      │
//!   │ RBP                      8   │ ◀─ RBP: a frame for backtraces, called from where the G was
//!   │ RAX to R15, 14 registers 112 │ ◀─ RBX, which keeps this address
//!   │ alignment          0 to 15   │
//!   │ MXCSR for the entry     16   │
//!   │ x87 and SSE (FXSAVE)   512   │
//!   ├──────────────────────────────┤
//!   │ `run_diverted`, scheduler    │
//!   └──────────────────────────────┘
//! ```
//!
//! That is 831 bytes at most before the call. `mm::stack::RESERVE` is the room below every G's stack for these bytes and for
//! the scheduler.
//!
//! A G for whose stack there is no memory is diverted in the same way, see `page_fault`.

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

/// Where a diverted G was: written by the handler, consumed by [`entry`] on the same CPU before interrupts come back on.
#[derive(Debug)]
#[repr(C)]
struct Diverted {
    rip: AtomicU64,
    rflags: AtomicU64,
    rsp: AtomicU64,
    /// What the G is to call.
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

/// The System V ABI's red zone.
const RED_ZONE: u64 = 128;

/// The code in which the red zone is not skipped: empty, except in a test which shows that skipping is necessary.
static UNSKIPPED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Makes preemptions inside `code` overwrite the red zone of the interrupted code. For a test which shows that the others
/// detect this.
pub(crate) fn leave_red_zone_unprotected_in(code: Range<u64>) {
    UNSKIPPED[0].store(code.start, Ordering::Relaxed);
    UNSKIPPED[1].store(code.end, Ordering::Relaxed);
}

/// How many bytes below the stack pointer the code at `rip` may use.
fn red_zone(rip: u64) -> u64 {
    let unskipped = UNSKIPPED[0].load(Ordering::Relaxed)..UNSKIPPED[1].load(Ordering::Relaxed);
    if unskipped.contains(&rip) { 0 } else { RED_ZONE }
}

const TRAP_FLAG: u64 = 1 << 8;
pub(super) const INTERRUPT_FLAG: u64 = 1 << 9;
const DIRECTION_FLAG: u64 = 1 << 10;
const NESTED_TASK: u64 = 1 << 14;
const ALIGNMENT_CHECK: u64 = 1 << 18;
/// Flags that interrupted code may have set, but functions expect to be clear.
pub(super) const MODES: u64 = TRAP_FLAG | DIRECTION_FLAG | NESTED_TASK | ALIGNMENT_CHECK;

/// Preempts the interrupted G if that is pending and possible, by changing where it continues. Called at the end of every
/// interrupt, after the end-of-interrupt, on the interrupt stack, with interrupts off.
pub(crate) fn on_interrupt_return(frame: &mut TrapFrame) {
    if percpu::is_pending() {
        divert(frame, give_way);
    }
}

/// Makes the interrupted G call `function`, and then give way as long as that is requested, if it is in user code and its stack
/// has room. Returns whether it will. `function` is called with interrupts on and pinned once, and returns pinned once, perhaps
/// on another CPU. Called at the end of a handler, with interrupts off.
pub(super) fn divert(frame: &mut TrapFrame, function: extern "sysv64" fn()) -> bool {
    if percpu::is_preemption_off() {
        return false;
    }
    // Otherwise each preemption could put another set of registers below the last one, until the stack overflows.
    assert!(!is_in_entry(frame.rip), "a G is diverted that has not come back from the last time");
    let Some(goroutine) = goroutines::interrupted() else { return false };
    let stack = goroutine.stack();
    // The room below a stack (`mm::stack::RESERVE`) is for the entry and what it calls. A G whose stack pointer is there
    // already is about to overflow its stack.
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

/// Where a diverted G continues: on its own stack, below its red zone, with interrupts off and a preempt count of one. All
/// registers except `rip`, `rsp` and `rflags` have the G's values.
#[unsafe(naked)]
extern "C" fn entry() {
    naked_asm!(
        // The frame for `iretq`, which need not be aligned.
        "push {data_selector}",
        "push qword ptr gs:[{diverted} + {rsp}]",
        "push qword ptr gs:[{diverted} + {rflags}]",
        "push {code_selector}",
        "push qword ptr gs:[{diverted} + {rip}]",
        "push rbp",
        // From here on this is like a function that the G has called, so that backtraces continue in the interrupted code.
        "mov rbp, rsp",
        "push rax", "push rcx", "push rdx", "push rbx", "push rsi", "push rdi",
        "push r8", "push r9", "push r10", "push r11", "push r12", "push r13", "push r14", "push r15",
        // All of x87 and SSE, 512 bytes, aligned. rbx, which functions preserve, keeps the unaligned stack pointer.
        "mov rbx, rsp",
        "sub rsp, 528",
        "and rsp, -16",
        "fxsave64 [rsp]",
        // Functions expect an empty x87 stack and default control words.
        "fninit",
        "mov dword ptr [rsp + 512], {default_mxcsr}",
        "ldmxcsr [rsp + 512]",
        "mov rdi, gs:[{diverted} + {function}]",
        // The slots have been read, so the next interrupt may come.
        "sti",
        "call {run_diverted}",
        // Interrupts are off and the count is zero from here to `iretq`.
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
    /// The end of [`entry`].
    static preempt_entry_end: u8;
}

/// Whether `rip` is in [`entry`].
fn is_in_entry(rip: u64) -> bool {
    (entry as *const () as u64..(&raw const preempt_entry_end).addr() as u64).contains(&rip)
}

/// Called by [`entry`], pinned: calls `function`, and then gives way as long as that is requested. Returns with the pin lowered
/// and interrupts off. Interrupts must stay off until `iretq`: another preemption before it would put another set of registers
/// on the stack, and so could the next one, until the stack overflows.
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

/// Makes the G give way once. Called pinned, and returns pinned.
extern "sysv64" fn give_way() {
    percpu::clear_pending();
    // SAFETY: the caller is pinned, and lowers the pin.
    let pinned = preemption::give_way(unsafe { Pinned::adopt() });
    core::mem::forget(pinned);
}

/// Called by [`preempt_enable`](percpu::preempt_enable) when the count has become zero with a request pending.
#[cold]
#[unsafe(export_name = "gmp_honour_pending")]
fn honour_pending() {
    // Handlers do not come here: they raise the count themselves, and the return from the interrupt honours the request. With
    // interrupts off the CPU must not switch.
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
        // SAFETY: the pin is raised above and lowered below. The loop checks for a request that has become pending meanwhile.
        let pinned = preemption::give_way(unsafe { Pinned::adopt() });
        core::mem::forget(pinned);
        percpu::preempt_enable_quietly();
        if !percpu::is_pending() {
            return;
        }
    }
}
