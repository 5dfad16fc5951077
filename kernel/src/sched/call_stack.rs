//! The call stack of the calling G, for a profile.
//!
//! This reads the chain of frame pointers faster than `diagnostics::backtrace`, which can read any chain and looks up
//! the page of each word. Here all words are in the part of the G's own stack that is in use, so they are mapped.

use core::arch::asm;
use core::ptr;

use gmp_sched::platform::Platform as _;

use crate::mm::layout;
use crate::sched::platform::Kernel;

/// Stores the return addresses of the calls that led to the caller, each minus one, innermost first, until `addresses`
/// is full. Returns the number of stored addresses, which is 0 if the caller is not a G on its own stack. The caller is
/// pinned.
#[inline(never)]
pub(super) fn read(addresses: &mut [u64]) -> usize {
    let (mut frame, stack_pointer): (usize, usize);
    // SAFETY: the instructions only read registers.
    unsafe { asm!("mov {}, rbp", "mov {}, rsp", out(reg) frame, out(reg) stack_pointer, options(nomem, nostack)) };
    let Some(goroutine) = Kernel::current_machine().and_then(|machine| machine.current_goroutine()) else { return 0 };
    let stack = goroutine.stack();
    if !stack.contains(&stack_pointer) {
        return 0;
    }
    // A frame consists of the frame pointer of the caller and of the return address. The frames ascend, so the loop
    // ends even if the chain is corrupt.
    let (mut inner, mut count) = (stack_pointer, 0);
    while count < addresses.len() && frame >= inner && frame.is_multiple_of(8) && frame <= stack.end - 16 {
        let word = ptr::with_exposed_provenance::<[usize; 2]>(frame);
        // SAFETY: the two words are aligned, and are between the stack pointer and the upper end of the stack of the
        // calling G, so they are mapped. If the chain is corrupt they may be any data, which another CPU may change, so
        // the read is volatile.
        let [caller, return_address] = unsafe { word.read_volatile() };
        if !layout::text().contains(&(return_address as u64)) {
            break;
        }
        addresses[count] = return_address as u64 - 1;
        (inner, frame, count) = (frame + 16, caller, count + 1);
    }
    count
}
