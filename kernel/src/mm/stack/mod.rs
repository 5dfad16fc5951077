//! Stacks: slots of virtual memory with an unmapped guard page below each.
//!
//! | file | concept |
//! |---|---|
//! | `slot` | the addresses of slots, and the slot that contains an address |
//! | `class` | the lists of free slots: those with memory, and those without |
//! | `ahead` | touches pages before they are needed |
//! | `touch` | the part of the page fault handler that maps a page at its first touch |
//!
//! At first only the highest page of a G's stack has a frame. The other pages get theirs when they are first touched.
//! The stacks of CPUs, trap handlers and kernel threads have all their frames from the start. So code on these stacks,
//! such as the page fault handler itself, causes no page fault when it uses its stack.
//!
//! If no frame is free when one is needed:
//!
//! | who needs a frame | what happens |
//! |---|---|
//! | a spawn, for the stack of the new G | it returns an error, even while there still are frames for existing stacks (`frame::Priority`) |
//! | a G in user code that touches a page of its stack | it frees cached memory; if no frame is free afterwards, it panics |
//! | code with preemption off | it gets a frame from its CPU's reserve, because it can neither free memory nor panic |

pub(super) mod ahead;
pub(super) mod class;
mod slot;
mod touch;

use core::sync::atomic::Ordering;

use super::address::PAGE_SIZE;
use super::error::OutOfMemory;
use super::{pressure, refusal};

use class::{ALL, COMMITTED};
use slot::Commit;

pub(crate) use ahead::touch_pages_ahead;
pub use slot::Slot;
pub(crate) use slot::{LARGEST, RESERVE};
pub(crate) use touch::{Source, Touch, fill_last_frames, first_touch};

/// The size of the stack on which a CPU boots and later runs its idle loop, in bytes.
pub(crate) const CPU_STACK_BYTES: usize = 64 * 1024;

/// A stack. The stack is freed when this value is dropped. From then on no code may run on it.
#[derive(PartialEq, Eq, Debug)]
pub struct Stack(Slot);

impl Stack {
    /// Allocates a stack for a G, of at least `bytes` bytes. Its highest page has a frame, and the other pages get
    /// frames when they are first touched. The memory is not cleared. Not callable from handlers, except that the page
    /// fault handler may call it if it has interrupted a G in user code.
    ///
    /// # Errors
    /// If memory or address space for stacks of this size is short, or if `bytes` is more than 4 MiB.
    pub fn allocate(bytes: usize) -> Result<Self, OutOfMemory> {
        Self::take(bytes, Commit::OnTouch)
    }

    /// Allocates a stack of at least `bytes` bytes, with frames for all its pages. Not callable from interrupt
    /// handlers.
    ///
    /// # Errors
    /// If there is no memory or address space for the stack, or if `bytes` is more than 4 MiB.
    pub(crate) fn allocate_whole(bytes: usize) -> Result<Self, OutOfMemory> {
        Self::take(bytes, Commit::Whole)
    }

    fn take(bytes: usize, commit: Commit) -> Result<Self, OutOfMemory> {
        let class = &ALL[slot::class_of(bytes, commit).ok_or(OutOfMemory)?];
        if refusal::refuses() {
            return Err(OutOfMemory);
        }
        let mut slot = class.take();
        if slot.is_err() {
            pressure::make_room_for(class.frames_wanted(), class.priority());
            slot = class.take();
        }
        slot.map(Self)
    }

    /// Returns the lowest address of the stack. Below it is the room for preemption, if the stack is for a G (see
    /// `slot`).
    pub(crate) fn bottom(&self) -> usize {
        self.0.bottom()
    }

    /// Returns the upper end of the stack, below which the first push writes. The upper end is a multiple of the page
    /// size.
    pub(crate) fn top(&self) -> usize {
        self.0.top()
    }

    /// Frees the stack and its frames. (A stack that is dropped keeps its frames for the next one.)
    pub(crate) fn free_with_frames(self) {
        ALL[self.0.class].free_with_frames(self.0);
        core::mem::forget(self);
    }

    /// Leaks the stack and returns its [`top`](Self::top). [`from_raw`](Self::from_raw) turns the top into the stack
    /// again.
    pub(crate) fn into_raw(self) -> usize {
        let top = self.top();
        core::mem::forget(self);
        top
    }

    /// Returns the stack that [`into_raw`](Self::into_raw) has leaked.
    ///
    /// # Safety
    /// `top` must be a result of `into_raw`. Each result may be passed to this function only once.
    ///
    /// # Panics
    /// If `top` is not the top of any slot.
    pub(crate) unsafe fn from_raw(top: usize) -> Self {
        let slot = Slot::containing(top - 1).filter(|slot| slot.top() == top);
        Self(slot.expect("not the top of a stack"))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        ALL[self.0.class].put(self.0);
    }
}

/// The number of stacks, and their size in bytes, at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Figures {
    pub(super) in_use: usize,
    pub(super) reserved_bytes: usize,
    pub(super) committed_bytes: usize,
    pub(super) free: usize,
}

/// Counts the stacks of all classes.
pub(super) fn figures() -> Figures {
    let mut figures = Figures {
        in_use: 0,
        reserved_bytes: 0,
        committed_bytes: COMMITTED.load(Ordering::Relaxed) * PAGE_SIZE,
        free: 0,
    };
    for (number, class) in ALL.iter().enumerate() {
        let count = class.count();
        figures.in_use += count.with_memory - count.free;
        figures.free += count.free;
        figures.reserved_bytes += count.with_memory * Slot { class: number, index: 0 }.bytes();
    }
    figures
}
