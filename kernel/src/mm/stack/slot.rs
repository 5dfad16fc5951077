//! Slots: address ranges of stacks.
//!
//! ```text
//!   lowest address                                                          highest
//!   ┌────────────┬──────────────┬───────────────────────────────────────────┐
//!   │ guard page │ room for     │ 2^k pages, used from the top; those never │  next slot of
//!   │ never      │ preemption   │ touched have no frame                     │  this class …
//!   │ mapped     │ (Gs only)    │                                           │
//!   └────────────┴──────────────┴───────────────────────────────────────────┘
//!                ↑ lowest       ↑ bottom                                    ↑ top
//! ```
//!
//! Slots of one class (a size, and whether it is committed on first touch) are consecutive in a range of their own. So a
//! division finds the slot of an address, and with it the stack that overflowed.

use core::fmt;

use crate::mm::address::{PAGE_SIZE, STACKS, STACKS_BYTES, VirtAddr};

/// Bytes of the smallest stacks.
const SMALLEST: usize = 16 * 1024;
/// Sizes: 16 KiB to 4 MiB.
const SIZES: usize = 9;
/// Classes: each size, committed on first touch; then each size, committed from the start.
pub(super) const CLASSES: usize = 2 * SIZES;
/// Address range of each class. For stacks of 64 KiB, the standard size, that is 3.8 million slots.
const CLASS_BYTES: usize = 1 << 38;
const _: () = assert!(CLASS_BYTES as u64 * CLASSES as u64 <= STACKS_BYTES);

/// Bytes below a G's stack that are reserved for preemption: for the red zone and the registers of the G, and for the scheduler
/// that is called below them.
///
/// Enough for unoptimised code, which takes six times as much as optimised code. A crate cannot know at compile time how it is
/// optimised, and room that is not used takes only addresses. A test measures both.
pub(crate) const RESERVE: usize = 3 * PAGE_SIZE;

/// When the pages of a stack get their frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Commit {
    /// For stacks of Gs: the highest page gets its frame when the stack is allocated, the others when they are touched.
    OnTouch,
    /// For stacks on which the page fault handler, or code that it calls, may run: all pages get their frames when the stack
    /// is allocated.
    Whole,
}

/// The class of stacks of at least `bytes` bytes; `None` for more than 4 MiB.
pub(super) fn class_of(bytes: usize, commit: Commit) -> Option<usize> {
    let size = bytes.div_ceil(SMALLEST).checked_next_power_of_two()?.ilog2() as usize;
    (size < SIZES).then_some(match commit {
        Commit::OnTouch => size,
        Commit::Whole => SIZES + size,
    })
}

/// Bytes of a slot, and the number of slots, of a class.
const STRIDES: [(usize, usize); CLASSES] = {
    let mut strides = [(0, 0); CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let stride = PAGE_SIZE + reserve(class) + (SMALLEST << (class % SIZES));
        strides[class] = (stride, CLASS_BYTES / stride);
        class += 1;
    }
    strides
};

/// Number of slots of a class.
pub(super) fn capacity(class: usize) -> usize {
    STRIDES[class].1
}

/// A slot: its address and class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    pub(super) class: usize,
    pub(super) index: usize,
}

impl Slot {
    /// The slot that contains an address, guard page included, whether or not it is in use. Callable from everywhere.
    pub fn containing(address: usize) -> Option<Self> {
        let offset = address.checked_sub(STACKS as usize)?;
        let class = offset / CLASS_BYTES;
        let &(stride, capacity) = STRIDES.get(class)?;
        let index = offset % CLASS_BYTES / stride;
        (index < capacity).then_some(Self { class, index })
    }

    /// Bytes of the stack: the size asked for, rounded up to a size of a class.
    pub fn bytes(self) -> usize {
        SMALLEST << (self.class % SIZES)
    }

    /// The stack's lowest address. Below it a G has room for preemption only.
    pub fn bottom(self) -> usize {
        self.lowest() + reserve(self.class)
    }

    /// The upper end of the stack, which grows down from there.
    pub fn top(self) -> usize {
        self.bottom() + self.bytes()
    }

    /// Whether `address` is in the guard page: a stack overflow.
    pub fn guard_contains(self, address: usize) -> bool {
        (self.lowest() - PAGE_SIZE..self.lowest()).contains(&address)
    }

    /// The lowest address that can be used: the end of the guard page.
    pub(super) fn lowest(self) -> usize {
        STACKS as usize + self.class * CLASS_BYTES + self.index * STRIDES[self.class].0 + PAGE_SIZE
    }

    pub(super) fn commit(self) -> Commit {
        if self.class < SIZES { Commit::OnTouch } else { Commit::Whole }
    }

    /// The addresses of the pages, highest first.
    pub(super) fn pages(self) -> impl Iterator<Item = VirtAddr> {
        (self.lowest()..self.top()).step_by(PAGE_SIZE).rev().map(|page| VirtAddr::new(page as u64))
    }

    pub(super) fn highest_page(self) -> VirtAddr {
        VirtAddr::new((self.top() - PAGE_SIZE) as u64)
    }
}

/// Bytes of a slot in addition to its stack.
const fn reserve(class: usize) -> usize {
    if class < SIZES { RESERVE } else { 0 }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB stack {:#x}..{:#x}", self.bytes() / 1024, self.bottom(), self.top())
    }
}
