//! Page faults: pages of stacks that are touched for the first time, stacks that overflow, and what happens when there is
//! no memory for a page.
//!
//! The handler runs on a stack of its own, so it also serves faults on the stack in use, and of other handlers. It does
//! not log, block or switch, and takes one leaf lock: see [`stack`].

use x86_64::registers::control::Cr2;
use x86_64::structures::idt::PageFaultErrorCode;

use super::preempt::{self, INTERRUPT_FLAG};
use super::trap::TrapFrame;
use crate::cpu::percpu;
use crate::diagnostics::backtrace::Backtrace;
use crate::diagnostics::{isolation, panic};
use crate::mm;
use crate::mm::stack::{self, Slot, Source, Stack, Touch};
use crate::sched::platform;

/// Pages that the end of a G for lack of memory may need of its stack.
const PAGES_TO_DIE: usize = 4;

/// Serves a page fault, or ends the machine with a report. Called with interrupts off.
pub(super) fn handle(frame: &mut TrapFrame) {
    // Nothing can fault again before this is read: a handler that comes in between never faults.
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

/// The guard page of a slot was touched: ends the G whose stack that is, or the machine.
fn overflow(frame: &mut TrapFrame, slot: Slot) {
    // Only the G itself overflows its stack; others have a bad pointer.
    let running = platform::interrupted_goroutine();
    let Some(goroutine) = platform::goroutine_with_stack(slot)
        .filter(|owner| running.is_some_and(|running| core::ptr::eq(*owner, running)))
    else {
        panic::exception(frame)
    };
    let is_in_user_code =
        percpu::trap_depth() == 1 && !percpu::is_preemption_off() && frame.rflags & INTERRUPT_FLAG != 0;
    if !(is_in_user_code && isolation::covers(goroutine) && divert_to_another_stack(frame, slot)) {
        panic::stack_overflow(frame, goroutine.id(), slot)
    }
}

/// Bytes of the stack on which a G ends that has overflowed its own.
const STACK_TO_DIE: usize = 16 * 1024;

/// Has the interrupted G, which is in user code, end on another stack: its own has no room, and nothing there may be
/// overwritten, since others may have references into it. Tells `false` if there is no memory for that.
fn divert_to_another_stack(frame: &mut TrapFrame, slot: Slot) -> bool {
    // The fault is a call by the G, as it were, which holds none of the locks that this takes. What it touches is there.
    let Ok(stack) = Stack::allocate(STACK_TO_DIE) else { return false };
    let top = stack.into_raw();
    // As after a call by nobody, where backtraces end: functions expect a multiple of 16 above their return address.
    let return_address = top - 8;
    // SAFETY: in the highest page of the new stack, which is there and nobody else's.
    unsafe { core::ptr::with_exposed_provenance_mut::<u64>(return_address).write(0) };
    (frame.rdi, frame.rsi, frame.rdx) = (frame.rip, frame.rbp, slot.bottom() as u64);
    frame.rsp = return_address as u64;
    frame.rip = end_after_overflow as *const () as u64;
    frame.rflags &= !preempt::MODES;
    true
}

/// What a G does that has overflowed the stack that begins at `bottom`, at that program counter and frame pointer.
extern "sysv64" fn end_after_overflow(program_counter: u64, frame_pointer: u64, bottom: usize) -> ! {
    let slot = Slot::containing(bottom).expect("it was one");
    isolation::end_after_overflow(slot, Backtrace::from(program_counter, frame_pointer))
}

/// There is no frame for a page of a stack. A G in user code has to find some, or dies; any other code, which can do
/// neither, gets one that was put aside for this.
fn out_of_memory(frame: &mut TrapFrame, address: usize) {
    let may_wait = frame.rflags & INTERRUPT_FLAG != 0;
    if may_wait && preempt::divert(frame, make_room) {
        return;
    }
    if stack::first_touch(address, Source::LastFrames) != Touch::Committed {
        panic::exception(frame);
    }
}

/// What a G does for whose stack there is no memory: takes some back that is only kept for later, and then touches the
/// page again. If there is none it dies, as of a panic. Called pinned, so that the pages for this come from what is put
/// aside, and returns pinned.
extern "sysv64" fn make_room() {
    stack::touch_pages_ahead(PAGES_TO_DIE);
    // The search takes locks and may take long; to die as of a panic of its own the G must be in user code.
    percpu::preempt_enable_quietly();
    assert!(mm::make_room(), "out of memory: there is no frame for a page of a stack");
    percpu::preempt_disable();
}
