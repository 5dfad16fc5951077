//! Stacks: slots of virtual memory with an unmapped guard page below each.
//!
//! | file | concept |
//! |---|---|
//! | `slot` | where they lie: the slot of an address, the address of a slot |
//! | `class` | which are free, with memory and without |
//! | `ahead` | touching pages before they are needed |
//! | `touch` | the first touch of a page, by the handler of page faults |
//!
//! The stack of a G is a promise: it has one page when it is made, and gets the others when it touches them. All other
//! stacks (those of CPUs, interrupts, kernel threads, on which also the handler of page faults runs) are whole from the
//! start.
//!
//! | | who goes without memory |
//! |---|---|
//! | spawn | gets an error while there are still frames for the stacks there are (`frame::Priority`) |
//! | a G that touches a page | takes the stacks off dead Gs; if there are none it dies as of a panic |
//! | code with preemption off | gets a frame that its CPU has put aside for this: it can neither search nor die |

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
    /// A stack for a G, of at least `bytes` bytes, with whatever is in it, committed as it is touched. Not callable from
    /// interrupt handlers.
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

    /// The lowest address of what was asked for.
    pub(crate) fn bottom(&self) -> usize {
        self.0.bottom()
    }

    /// The end: the first push goes below it. A multiple of the page size.
    pub(crate) fn top(&self) -> usize {
        self.0.top()
    }

    /// Gives the stack up without freeing it: its [`top`](Self::top) stands for it.
    pub(crate) fn into_raw(self) -> usize {
        let top = self.top();
        core::mem::forget(self);
        top
    }

    /// The stack that [`into_raw`](Self::into_raw) gave up.
    ///
    /// # Safety
    /// `top` must come from `into_raw` and be used for this once.
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

/// Stacks at one moment.
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
