//! Page faults: the first touch of a page of a stack, stack overflows, and what happens when there is no memory for a page.
//!
//! The handler runs on a stack of its own, so it also handles faults of other handlers, and faults on the interrupted stack. It
//! does not log, block or switch, and takes one leaf lock: see [`stack`].

use x86_64::registers::control::Cr2;
use x86_64::structures::idt::PageFaultErrorCode;

use super::preempt::{self, INTERRUPT_FLAG};
use crate::arch::x86_64::trap::TrapFrame;
use crate::cpu::percpu;
use crate::diagnostics::backtrace::Backtrace;
use crate::diagnostics::{isolation, panic};
use crate::mm;
use crate::mm::stack::{self, Slot, Source, Stack, Touch};
use crate::sched::goroutines;

/// How many more pages of its stack a G may need while it ends because there is no memory.
const PAGES_TO_DIE: usize = 4;

/// Handles a page fault, or stops the kernel with a report. Called with interrupts off.
pub(super) fn handle(frame: &mut TrapFrame) {
    // No other page fault can overwrite it before this read: handlers that interrupt this one never fault.
    let address = usize::try_from(Cr2::read_raw()).expect("64 bits");
    let other = PageFaultErrorCode::PROTECTION_VIOLATION
        | PageFaultErrorCode::MALFORMED_TABLE
        | PageFaultErrorCode::INSTRUCTION_FETCH;
    if PageFaultErrorCode::from_bits_truncate(frame.error_code).intersects(other) {
        panic::exception(frame);
    }
    match stack::first_touch(address, Source::Allocator) {
        Touch::Committed => {}
        Touch::Overflow(slot) => overflow(frame, slot),
        Touch::OutOfMemory => out_of_memory(frame, address),
        Touch::Elsewhere => panic::exception(frame),
    }
}

/// Ends the G that has touched the guard page of its stack, in `slot`, or stops the kernel.
fn overflow(frame: &mut TrapFrame, slot: Slot) {
    // If other code than the G itself touches the guard page, its pointer is invalid.
    let running = goroutines::interrupted();
    let Some(goroutine) =
        goroutines::owner_of(slot).filter(|owner| running.is_some_and(|running| core::ptr::eq(*owner, running)))
    else {
        panic::exception(frame)
    };
    let is_in_user_code =
        percpu::trap_depth() == 1 && !percpu::is_preemption_off() && frame.rflags & INTERRUPT_FLAG != 0;
    if !(is_in_user_code && isolation::covers(goroutine) && divert_to_another_stack(frame, slot)) {
        panic::stack_overflow(frame, goroutine.id(), slot)
    }
}

/// Bytes of the stack on which a G that has overflowed its own ends.
const STACK_TO_DIE: usize = 16 * 1024;

/// Makes the interrupted G, which is in user code, end on another stack. Its own has no room, and must not be overwritten,
/// since other Gs may have references into it. Returns `false` if there is no memory for the stack.
fn divert_to_another_stack(frame: &mut TrapFrame, slot: Slot) -> bool {
    // The G is in user code, so it holds none of the locks that are taken here, as if it had called this function. The
    // interrupt stack needs no page fault.
    let Ok(stack) = Stack::allocate(STACK_TO_DIE) else { return false };
    let top = stack.into_raw();
    // A return address of zero ends backtraces. Functions expect the address above it to be a multiple of 16.
    let return_address = top - 8;
    // SAFETY: in the highest page of the new stack, which is committed and not in use.
    unsafe { core::ptr::with_exposed_provenance_mut::<u64>(return_address).write(0) };
    (frame.rdi, frame.rsi, frame.rdx) = (frame.rip, frame.rbp, slot.bottom() as u64);
    frame.rsp = return_address as u64;
    frame.rip = end_after_overflow as *const () as u64;
    frame.rflags &= !preempt::MODES;
    true
}

/// Runs as the G that has overflowed its stack. The arguments are where it was, and the lowest address of the stack.
extern "sysv64" fn end_after_overflow(program_counter: u64, frame_pointer: u64, bottom: usize) -> ! {
    let slot = Slot::containing(bottom).expect("it was one");
    isolation::end_after_overflow(slot, Backtrace::from(program_counter, frame_pointer))
}

/// There is no frame for a page of a stack. A G in user code frees memory, or ends. Other code can do neither, and gets a frame
/// from the reserve of its CPU.
fn out_of_memory(frame: &mut TrapFrame, address: usize) {
    let may_wait = frame.rflags & INTERRUPT_FLAG != 0;
    if may_wait && preempt::divert(frame, make_room) {
        return;
    }
    if stack::first_touch(address, Source::LastFrames) != Touch::Committed {
        panic::exception(frame);
    }
}

/// Runs as the G that has no memory for its stack: frees cached memory, after which the G touches the page again. If there is
/// none, the G panics. Called pinned, so that the pages for this call come from the reserve, and returns pinned.
extern "sysv64" fn make_room() {
    stack::touch_pages_ahead(PAGES_TO_DIE);
    // Freeing takes locks and may take long, and a panic ends only the G if it is in user code: so preemption is on meanwhile.
    percpu::preempt_enable_quietly();
    assert!(mm::make_room(), "out of memory: there is no frame for a page of a stack");
    percpu::preempt_disable();
}
