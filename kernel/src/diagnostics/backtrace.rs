//! Backtraces by frame pointers, of running code and of code that was interrupted.
//!
//! All code, the prebuilt `core` included, keeps frame pointers: RBP points at the caller's RBP, and the return address
//! lies above. A word is read only after the page tables said that it is mapped, so a broken chain ends a backtrace and
//! does nothing worse.

use core::arch::asm;

use x86_64::VirtAddr;

use crate::arch::x86_64::trap::TrapFrame;
use crate::mm::{layout, paging, physical_to_virtual};

/// Frames that are not the same as the one before, in a backtrace at most.
const MAX_FRAMES: usize = 64;

/// Longer backtraces are cut: the chain may be a circle.
const MAX_DEPTH: usize = 1 << 17;

/// The program counters of a chain of calls, innermost first.
#[derive(Clone, Debug)]
pub(crate) struct Backtrace {
    /// The program counter of the innermost frame, if it is known.
    innermost: Option<u64>,
    /// The return address of the innermost frame, if the chain does not have it.
    caller: Option<u64>,
    frame_pointer: u64,
    /// The return address that was the last.
    last: u64,
    left: usize,
    depth: usize,
}

impl Backtrace {
    /// Where the caller is, from its own caller on.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let frame_pointer;
        // SAFETY: reads a register.
        unsafe { asm!("mov {}, rbp", out(reg) frame_pointer, options(nomem, nostack, preserves_flags)) };
        Self { innermost: None, ..Self::from(0, frame_pointer) }
    }

    /// Where interrupted code is. If that is not code at all, as after a call through a bad pointer, the call is shown
    /// next.
    pub(crate) fn of(frame: &TrapFrame) -> Self {
        let jumped = !layout::text().contains(&frame.rip);
        let caller = if jumped { read(frame.rsp).filter(|address| layout::text().contains(address)) } else { None };
        Self { caller, ..Self::from(frame.rip, frame.rbp) }
    }

    /// From a program counter and the frame pointer that belongs to it, such as those of code that is not running.
    pub(crate) fn from(program_counter: u64, frame_pointer: u64) -> Self {
        let innermost = Some(program_counter);
        Self { innermost, caller: None, frame_pointer, last: 0, left: MAX_FRAMES, depth: MAX_DEPTH }
    }
}

/// Yields addresses as the host tools look them up: the exact one of the innermost frame, then return addresses minus
/// one.
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

/// Reads a word, if it is mapped.
fn read(address: u64) -> Option<u64> {
    if !address.is_multiple_of(8) {
        return None;
    }
    // An aligned word lies in one page. It is read where all memory is mapped for good, since a free stack may lose its
    // pages in between. What is not memory is not mapped there.
    let physical = paging::translate(VirtAddr::try_new(address).ok()?)?;
    let mapped = physical_to_virtual(physical);
    paging::translate(mapped)?;
    let pointer = mapped.as_ptr::<u64>();
    // SAFETY: mapped and aligned. What is read may be meaningless, which the caller expects.
    Some(unsafe { pointer.read_volatile() })
}
