//! Stacks: slots of virtual memory with an unmapped guard page below each.
//!
//! | file | concept |
//! |---|---|
//! | `slot` | their addresses: the slot of an address, the address of a slot |
//! | `class` | which are free, with memory and without |
//! | `ahead` | touching pages before they are needed |
//! | `touch` | the first touch of a page, by the handler of page faults |
//!
//! The stack of a G has one page at first, and gets the others when they are touched. All other stacks (those of CPUs,
//! interrupts and kernel threads) have all their pages from the start, since the page fault handler, or code that it calls, may
//! run on them.
//!
//! When there are no frames:
//!
//! | who needs one | what happens |
//! |---|---|
//! | spawn | returns an error, while there are still frames for existing stacks (`frame::Priority`) |
//! | a G that touches a page | the stacks of dead Gs are freed; if there are none the G panics |
//! | code with preemption off | gets a frame from the reserve of its CPU, since it can neither free stacks nor end |

pub(super) mod ahead;
pub(super) mod class;
mod slot;
mod touch;

use core::sync::atomic::Ordering;

use super::address::PAGE_SIZE;
use super::error::OutOfMemory;
use super::pressure;

use class::{ALL, COMMITTED};
use slot::Commit;

pub(crate) use ahead::touch_pages_ahead;
pub(crate) use slot::RESERVE;
pub use slot::Slot;
pub(crate) use touch::{Source, Touch, fill_last_frames, first_touch};

/// Bytes of the stack on which a CPU boots and later idles.
pub(crate) const CPU_STACK_BYTES: usize = 64 * 1024;

/// A stack. Dropping it frees it; nothing may run on it then.
#[derive(PartialEq, Eq, Debug)]
pub struct Stack(Slot);

impl Stack {
    /// A stack for a G, of at least `bytes` bytes. Its pages are committed as they are touched, and are not cleared. Not
    /// callable from interrupt handlers.
    ///
    /// # Errors
    /// If memory is short, or more than 4 MiB are asked for.
    pub fn allocate(bytes: usize) -> Result<Self, OutOfMemory> {
        Self::take(bytes, Commit::OnTouch)
    }

    /// A stack of at least `bytes` bytes, with all its memory. Not callable from interrupt handlers.
    ///
    /// # Errors
    /// If there is no memory for it, or more than 4 MiB are asked for.
    pub(crate) fn allocate_whole(bytes: usize) -> Result<Self, OutOfMemory> {
        Self::take(bytes, Commit::Whole)
    }

    fn take(bytes: usize, commit: Commit) -> Result<Self, OutOfMemory> {
        let class = &ALL[slot::class_of(bytes, commit).ok_or(OutOfMemory)?];
        let mut slot = class.take();
        if slot.is_err() && pressure::relieve(bytes.div_ceil(PAGE_SIZE)) != 0 {
            slot = class.take();
        }
        slot.map(Self)
    }

    /// The lowest address of the stack, without the room for preemption.
    pub(crate) fn bottom(&self) -> usize {
        self.0.bottom()
    }

    /// The end: the first push goes below it. A multiple of the page size.
    pub(crate) fn top(&self) -> usize {
        self.0.top()
    }

    /// Leaks the stack. Returns its [`top`](Self::top), from which [`from_raw`](Self::from_raw) makes the stack again.
    pub(crate) fn into_raw(self) -> usize {
        let top = self.top();
        core::mem::forget(self);
        top
    }

    /// The stack that [`into_raw`](Self::into_raw) has leaked.
    ///
    /// # Safety
    /// `top` must come from `into_raw`, and must not be passed to this function twice.
    ///
    /// # Panics
    /// If it cannot come from there.
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

/// Numbers of stacks and of their bytes at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Figures {
    pub(super) in_use: usize,
    pub(super) reserved_bytes: usize,
    pub(super) committed_bytes: usize,
    pub(super) free: usize,
}

/// Counts the stacks.
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
