//! Page faults: pages of stacks that are touched for the first time, stacks that overflow, and what happens when there is
//! no memory for a page.
//!
//! The handler runs on a stack of its own, so it also serves faults on the stack in use, and of other handlers. It does
//! not log, block or switch, and takes one leaf lock: see [`stack`].

use x86_64::registers::control::Cr2;
use x86_64::structures::idt::PageFaultErrorCode;

use super::preempt::{self, INTERRUPT_FLAG};
use super::trap::TrapFrame;
use crate::mm::stack::{self, Slot, Source, Touch};
use crate::{mm, panic, percpu, platform};

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

/// The guard page of a slot was touched.
fn overflow(frame: &TrapFrame, slot: Slot) -> ! {
    // Only the G itself overflows its stack; others have a bad pointer.
    match platform::goroutine_with_stack(slot) {
        Some(owner) if platform::interrupted_goroutine().is_some_and(|running| core::ptr::eq(owner, running)) => {
            panic::stack_overflow(frame, owner.id(), slot)
        }
        _ => panic::exception(frame),
    }
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
/// aside.
extern "sysv64" fn make_room() {
    stack::touch_pages_ahead(PAGES_TO_DIE);
    percpu::preempt_enable_quietly();
    assert!(mm::make_room(), "out of memory: there is no frame for a page of a stack");
}
