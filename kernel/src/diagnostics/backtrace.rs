//! Backtraces of running code, of interrupted code, and of Gs that do not run. They are found by frame pointers.
//!
//! The kernel and the program are compiled with frame pointers. So is the prebuilt `core`, except its leaf functions:
//! if one of them is interrupted, its caller may be missing from the backtrace. In a function with a frame pointer, RBP
//! points to the saved RBP of the caller, and the return address is the word above. Each word is read only if the page
//! tables map it. So a corrupt chain of frame pointers does no harm: it only ends the backtrace.

use core::arch::asm;

use boot_protocol::console::Place;
use gmp_sched::goroutine::Goroutine;
use x86_64::VirtAddr;

use crate::arch::x86_64::trap::TrapFrame;
use crate::mm::{layout, paging, physical_to_virtual};
use crate::sched::platform::Kernel;

/// The largest number of frames in a backtrace. Several equal frames in succession (recursion) count as one.
const MAX_FRAMES: usize = 64;

/// The largest number of frames that are visited. There must be a limit, because a corrupt chain of frame pointers may
/// be a cycle.
const MAX_DEPTH: usize = 1 << 17;

/// The program counters of a chain of calls, innermost first.
#[derive(Clone, Debug)]
pub(crate) struct Backtrace {
    /// The first address to yield, which is the program counter of the innermost frame. `None` if it has been yielded,
    /// or if the backtrace begins with a return address.
    innermost: Option<u64>,
    /// The return address of the innermost frame, if the chain of frame pointers is known not to contain this address:
    /// code has jumped to an invalid address, or has been interrupted at the beginning or the end of a function.
    caller: Option<u64>,
    frame_pointer: u64,
    /// The return address of the frame visited before.
    last: u64,
    left: usize,
    depth: usize,
}

impl Backtrace {
    /// Returns the backtrace of the calling function. The calling function itself is the first entry.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let frame_pointer;
        // SAFETY: the instruction only reads a register.
        unsafe { asm!("mov {}, rbp", out(reg) frame_pointer, options(nomem, nostack, preserves_flags)) };
        Self { innermost: None, ..Self::from(0, frame_pointer) }
    }

    /// Returns the backtrace of interrupted code. If the program counter is not in the kernel's code, a call through an
    /// invalid pointer is the likely cause. The second entry is then the address of that call, if the word at the stack
    /// pointer is a return address.
    pub(crate) fn of(frame: &TrapFrame) -> Self {
        let jumped = !layout::text().contains(&frame.rip);
        let caller = if jumped { read(frame.rsp).filter(|address| layout::text().contains(address)) } else { None };
        Self { caller, ..Self::from(frame.rip, frame.rbp) }
    }

    /// Returns the backtrace of code that an interrupt has interrupted at any instruction. At the first two
    /// instructions of a function and at the last one, the frame pointer is that of the caller. So the chain of frame
    /// pointers does not contain the return address of the interrupted function. In this case the return address is
    /// read from the stack. (The last instruction is `ret`, or the jump of a tail call, before which `pop rbp` restores
    /// the frame pointer.)
    pub(crate) fn of_sample(frame: &TrapFrame) -> Self {
        let return_address_at = match layout::code_around(frame.rip, 3) {
            // `push rbp`, or `ret`.
            (_, [0x55 | 0xc3, ..]) => Some(frame.rsp),
            // `mov rbp, rsp`.
            (_, [0x48, 0x89, 0xe5]) => Some(frame.rsp + 8),
            // `jmp` after `pop rbp` (and not after `pop r13`, which has one byte more).
            ([.., before, 0x5d], [0xe9 | 0xeb, ..] | [0xff, 0x20..=0x27 | 0xe0..=0xe7, ..]) if *before != 0x41 => {
                Some(frame.rsp)
            }
            _ => None,
        };
        let is_code = |address: &u64| layout::text().contains(address);
        let backtrace = Self::of(frame);
        let caller = return_address_at.and_then(read).filter(is_code).or(backtrace.caller);
        Self { caller, ..backtrace }
    }

    /// Returns the backtrace that begins with the given program counter and frame pointer, for example that of a parked
    /// G.
    pub(crate) fn from(program_counter: u64, frame_pointer: u64) -> Self {
        let innermost = Some(program_counter);
        Self { innermost, caller: None, frame_pointer, last: 0, left: MAX_FRAMES, depth: MAX_DEPTH }
    }
}

/// The largest number of frames in the backtrace of a G that does not run.
const MAX_PLACE_FRAMES: usize = 32;

/// The number of frames at the outer end of each G's stack that belong to the scheduler alone: that of the first
/// instructions of a context. (The next frame is that of `Start::run`, into which the closure may be inlined.)
const ENTRY_FRAMES: usize = 1;

/// Returns the backtrace of a G that does not run: the address at which the G will continue, and the calls that led
/// there. The result is empty if the G runs, is in a system call, has not begun or is dead.
///
/// The frames in which each G begins are left out. The scheduler can reach the closure of a G on several paths, so Gs
/// that wait at the same line of the program may differ in these frames.
pub(crate) fn place(goroutine: &Goroutine<Kernel>) -> Place<impl Iterator<Item = u64> + Clone + use<>> {
    let suspended = goroutine
        .suspended_at()
        .and_then(|(code, frame_pointer_at)| Some(Backtrace::from(code as u64, read(frame_pointer_at as u64)?)));
    let mut addresses: heapless::Vec<u64, MAX_PLACE_FRAMES> =
        suspended.into_iter().flatten().take(MAX_PLACE_FRAMES).collect();
    if !addresses.is_full() {
        addresses.truncate(addresses.len().saturating_sub(ENTRY_FRAMES));
    }
    Place(addresses.into_iter())
}

/// Yields addresses in the form that the host tools expect: first the program counter, unless the backtrace begins with
/// a return address, then return addresses minus one.
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

/// Returns the word at `address`, or `None` if the address is not aligned or not mapped.
fn read(address: u64) -> Option<u64> {
    if !address.is_multiple_of(8) {
        return None;
    }
    // An aligned word is within one page. The word is read through the permanent mapping of physical memory, because a
    // free stack may lose its own mapping at any time. If the address is in device memory, that mapping does not
    // contain it, and the second `translate` returns `None`.
    let physical = paging::translate(VirtAddr::try_new(address).ok()?)?;
    let mapped = physical_to_virtual(physical);
    paging::translate(mapped)?;
    let pointer = mapped.as_ptr::<u64>();
    // SAFETY: the word is mapped and aligned. Another CPU may change it at any time, so the read is volatile, and the
    // caller must expect any value.
    Some(unsafe { pointer.read_volatile() })
}
