//! Page faults: the first touch of a page of a stack, a stack overflow, and the lack of memory for a page.
//!
//! The handler runs on a stack of its own. So it can also handle faults that other handlers cause, and faults that
//! accesses to the interrupted stack cause. While it maps a page, it does not log, block or switch, and it takes only
//! one lock, that of the frame allocator: see [`stack`].

use gmp_sched::interrupt_return::MODES;
use gmp_sched::stack_overflow::{PROBE_BYTES, probed_frame};
use x86_64::registers::control::Cr2;
use x86_64::registers::rflags::RFlags;
use x86_64::structures::idt::PageFaultErrorCode;

use super::{divert, exception};
use crate::arch::x86_64::trap::TrapFrame;
use crate::cpu::percpu;
use crate::diagnostics::backtrace::Backtrace;
use crate::diagnostics::{isolation, panic};
use crate::mm::stack::{self, Slot, Source, Stack, Touch};
use crate::mm::{self, layout};
use crate::sched::goroutines;

/// The number of additional stack pages that a G may need while it ends for lack of memory.
const PAGES_TO_DIE: usize = 4;

/// Handles a page fault. A fault that cannot be resolved stops the kernel or ends the G that has caused the fault.
/// Called with interrupts off.
pub(super) fn handle(frame: &mut TrapFrame) {
    // CR2 still has the address of this fault, because a handler that interrupts this one never causes a page fault.
    let address = usize::try_from(Cr2::read_raw()).expect("64 bits");
    let other = PageFaultErrorCode::PROTECTION_VIOLATION
        | PageFaultErrorCode::MALFORMED_TABLE
        | PageFaultErrorCode::INSTRUCTION_FETCH;
    if PageFaultErrorCode::from_bits_truncate(frame.error_code).intersects(other) {
        return exception::handle(frame);
    }
    match stack::first_touch(address, Source::Allocator) {
        Touch::Committed => {}
        Touch::Overflow(slot) => overflow(frame, slot),
        Touch::OutOfMemory => out_of_memory(frame, address),
        Touch::Elsewhere => exception::handle(frame),
    }
}

/// Whether the interrupted code had interrupts on.
fn has_interrupts_on(frame: &TrapFrame) -> bool {
    RFlags::from_bits_truncate(frame.rflags).contains(RFlags::INTERRUPT_FLAG)
}

/// Handles an access to the guard page of the stack in `slot`. If the G that owns this stack has overflowed it, ends
/// this G if possible, and otherwise stops the kernel. If other code has touched the guard page, the access is an
/// exception that no handler resolves.
fn overflow(frame: &mut TrapFrame, slot: Slot) {
    // Only the G that owns this stack can overflow it. If other code has touched the guard page, it has used an invalid
    // pointer.
    let running = goroutines::interrupted();
    let Some(goroutine) =
        goroutines::owner_of(slot).filter(|owner| running.is_some_and(|running| core::ptr::eq(*owner, running)))
    else {
        return exception::handle(frame);
    };
    let (before, at) = layout::code_around(frame.rip, PROBE_BYTES);
    let frame_bytes = probed_frame(before, at);
    let is_in_user_code = goroutines::interrupted_in_user_code(frame).is_some();
    if !(is_in_user_code && isolation::covers(goroutine) && divert_to_another_stack(frame, frame_bytes)) {
        panic::stack_overflow(frame, goroutine, frame_bytes)
    }
}

/// The size, in bytes, of the second stack on which a G ends after it has overflowed its own stack.
const STACK_TO_DIE: usize = 16 * 1024;

/// Makes the interrupted G end on another stack. The G is in user code (unpinned and on its own stack). It cannot end
/// on that stack, which has no room left. The frames on that stack must not be overwritten, since other Gs may have
/// references into them. Returns `false` if there is no memory for the other stack.
fn divert_to_another_stack(frame: &mut TrapFrame, frame_bytes: Option<usize>) -> bool {
    // The allocation may take locks in this handler, because the interrupted G is in user code and holds no lock of the
    // kernel. No page fault can occur here, because the stack of this handler has all its pages.
    let Ok(stack) = Stack::allocate(STACK_TO_DIE) else { return false };
    let top = stack.into_raw();
    // Store a return address of zero, at which backtraces end. The ABI requires that the address above a return address
    // is a multiple of 16.
    let return_address = top - 8;
    // SAFETY: the address is in the highest page of the new stack, which has a frame from the start, and nothing else
    // uses this stack yet.
    unsafe { core::ptr::with_exposed_provenance_mut::<u64>(return_address).write(0) };
    (frame.rdi, frame.rsi, frame.rdx) = (frame.rip, frame.rbp, frame_bytes.unwrap_or(0) as u64);
    frame.rsp = return_address as u64;
    frame.rip = end_after_overflow as *const () as u64;
    frame.rflags &= !MODES;
    true
}

/// Ends the calling G, which has overflowed its stack and now runs on another one. `program_counter` and
/// `frame_pointer` are the G's values of RIP and RBP at the overflow. `frame_bytes` is the size of the frame whose
/// stack probe has overflowed the stack, or 0 if no probe has.
extern "sysv64" fn end_after_overflow(program_counter: u64, frame_pointer: u64, frame_bytes: usize) -> ! {
    let frame_bytes = Some(frame_bytes).filter(|&bytes| bytes != 0);
    isolation::end_after_overflow(frame_bytes, Backtrace::from(program_counter, frame_pointer))
}

/// Handles the case that there is no frame for a page of a stack. A G in user code is diverted, so that it frees
/// memory, or panics if there is none to free. Other code can do neither, so it gets a frame from the reserve of its
/// CPU. If the reserve is empty, the kernel stops.
fn out_of_memory(frame: &mut TrapFrame, address: usize) {
    let may_wait = has_interrupts_on(frame);
    if may_wait && divert::divert(frame, make_room) {
        return;
    }
    if stack::first_touch(address, Source::LastFrames) != Touch::Committed {
        panic::exception(frame);
    }
}

/// Called by a diverted G that needs a page for its stack. Frees cached memory. If no frame is free afterwards, the G
/// panics. Otherwise the G touches the page again after this function has returned. Called pinned, so that the stack
/// pages that this function itself needs come from the CPU's reserve. Returns pinned.
extern "sysv64" fn make_room() {
    stack::touch_pages_ahead(PAGES_TO_DIE);
    // Turn preemption on while memory is freed, for two reasons. Freeing may take long and takes locks of the
    // scheduler. And if preemption were off, a panic would stop the kernel even with the kernel option `panic=isolate`.
    percpu::preempt_enable_quietly();
    assert!(mm::make_room(), "out of memory: there is no frame for a page of a stack");
    percpu::preempt_disable();
}
