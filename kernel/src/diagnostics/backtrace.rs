//! Backtraces by frame pointers, of running and of interrupted code.
//!
//! All code, including the prebuilt `core`, is compiled with frame pointers: RBP points at the saved RBP of the caller, and
//! the return address is the next word above. A word is read only if the page tables map it, so a broken chain ends the
//! backtrace and does no harm.

use core::arch::asm;

use x86_64::VirtAddr;

use crate::arch::x86_64::trap::TrapFrame;
use crate::mm::{layout, paging, physical_to_virtual};

/// The most frames in a backtrace. Consecutive equal frames count as one.
const MAX_FRAMES: usize = 64;

/// The most steps along the chain of frame pointers, which is a cycle if it is corrupt.
const MAX_DEPTH: usize = 1 << 17;

/// The program counters of a chain of calls, innermost first.
#[derive(Clone, Debug)]
pub(crate) struct Backtrace {
    /// The program counter of the innermost frame, if there is one to yield.
    innermost: Option<u64>,
    /// The return address of the innermost frame, if the chain of frame pointers does not contain it.
    caller: Option<u64>,
    frame_pointer: u64,
    /// The previous return address.
    last: u64,
    left: usize,
    depth: usize,
}

impl Backtrace {
    /// The backtrace of the calling function, whose frame is the first entry.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let frame_pointer;
        // SAFETY: the instruction only reads a register.
        unsafe { asm!("mov {}, rbp", out(reg) frame_pointer, options(nomem, nostack, preserves_flags)) };
        Self { innermost: None, ..Self::from(0, frame_pointer) }
    }

    /// The backtrace of interrupted code. If the program counter is not in code, as after a call through an invalid
    /// pointer, the next entry is the address of that call.
    pub(crate) fn of(frame: &TrapFrame) -> Self {
        let jumped = !layout::text().contains(&frame.rip);
        let caller = if jumped { read(frame.rsp).filter(|address| layout::text().contains(address)) } else { None };
        Self { caller, ..Self::from(frame.rip, frame.rbp) }
    }

    /// The backtrace that begins with a program counter and its frame pointer, for example of code that is not running.
    pub(crate) fn from(program_counter: u64, frame_pointer: u64) -> Self {
        let innermost = Some(program_counter);
        Self { innermost, caller: None, frame_pointer, last: 0, left: MAX_FRAMES, depth: MAX_DEPTH }
    }
}

/// Yields addresses as the host tools expect them: the program counter of the innermost frame, then return addresses minus one.
impl Iterator for Backtrace {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if let Some(program_counter) = self.innermost.take() {
            return Some(program_counter);
        }
        if let Some(return_address) = self.caller.take() {
            return Some(return_address - 1);
        }
        self.depth = self.depth.checked_sub(1)?;
        let return_address = read(self.frame_pointer.checked_add(8)?)?;
        if return_address != self.last {
            self.left = self.left.checked_sub(1)?;
            self.last = return_address;
        }
        let caller = read(self.frame_pointer)?;
        if !layout::text().contains(&return_address) {
            return None;
        }
        self.frame_pointer = caller;
        Some(return_address - 1)
    }
}

/// Reads the word at `address`; `None` if it is not aligned or not mapped.
fn read(address: u64) -> Option<u64> {
    if !address.is_multiple_of(8) {
        return None;
    }
    // An aligned word is within one page. The word is read through the permanent mapping of physical memory, since a free
    // stack may lose its pages at any time. Device memory is not mapped there.
    let physical = paging::translate(VirtAddr::try_new(address).ok()?)?;
    let mapped = physical_to_virtual(physical);
    paging::translate(mapped)?;
    let pointer = mapped.as_ptr::<u64>();
    // SAFETY: the word is mapped and aligned. The caller expects that its value may be meaningless.
    Some(unsafe { pointer.read_volatile() })
}
