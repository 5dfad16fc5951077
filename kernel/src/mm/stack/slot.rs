//! A slot is the address range of one stack:
//!
//! ```text
//!   lowest address                                                          highest address
//!   ┌────────────┬──────────────┬───────────────────────────────────────────┐
//!   │ guard page │ room for     │ the stack: 2^k pages, used from the top   │  next slot of
//!   │ never      │ preemption   │                                           │  this class …
//!   │ mapped     │ (Gs only)    │                                           │
//!   └────────────┴──────────────┴───────────────────────────────────────────┘
//!                ↑ lowest       ↑ bottom                                    ↑ top
//! ```
//!
//! A class is defined by the size of its stacks and by when their pages get frames ([`Commit`]). The slots of one class
//! are consecutive in an address range of their own. So a division is enough to find the slot that contains an address.
//! In this way the page fault handler finds the stack that has overflowed.

use core::fmt;

use crate::mm::address::{PAGE_SIZE, STACKS, STACKS_BYTES, VirtAddr};

/// The size of the smallest stacks, in bytes.
const SMALLEST: usize = 16 * 1024;
/// The number of sizes: the powers of two from 16 KiB to 4 MiB.
const SIZES: usize = 9;
/// The size of the largest stacks, in bytes.
pub(crate) const LARGEST: usize = SMALLEST << (SIZES - 1);
/// The number of classes: first one for each size with [`Commit::OnTouch`], then one for each size with
/// [`Commit::Whole`].
pub(super) const CLASSES: usize = 2 * SIZES;
/// The size of each class's address range, in bytes. For Gs' stacks of 64 KiB, the default size, this is enough for 3.1
/// million slots.
const CLASS_BYTES: usize = 1 << 38;
const _: () = assert!(CLASS_BYTES as u64 * CLASSES as u64 <= STACKS_BYTES);

/// The size, in bytes, of the room below a G's stack that is reserved for preemption. The room is for the red zone and
/// the registers of a preempted G, and for the stack frames that the scheduler needs to switch away from this G.
///
/// The room is large enough for unoptimised code, which needs six times as much as optimised code. The size is the same
/// for optimised code, because a crate cannot know at compile time how it is optimised. Unused room takes address space
/// but no memory. A test measures what both kinds of code need. The number of pages is even: see [`STRIDES`].
pub(crate) const RESERVE: usize = 4 * PAGE_SIZE;

/// When the pages of a stack get their frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Commit {
    /// For stacks of Gs. The highest page gets its frame when the stack is allocated. The other pages get theirs when
    /// they are first touched.
    OnTouch,
    /// For the stacks of CPUs, trap handlers and kernel threads. All pages get their frames when the stack is
    /// allocated, so code on such a stack causes no page fault when it uses its stack.
    Whole,
}

/// Returns the class of the smallest stacks that have at least `bytes` bytes, or `None` if `bytes` is more than 4 MiB.
pub(super) fn class_of(bytes: usize, commit: Commit) -> Option<usize> {
    let size = bytes.div_ceil(SMALLEST).checked_next_power_of_two()?.ilog2() as usize;
    (size < SIZES).then_some(match commit {
        Commit::OnTouch => size,
        Commit::Whole => SIZES + size,
    })
}

/// For each class, the size of a slot in bytes (guard page, room and stack), and the number of slots.
///
/// The size is an odd number of pages. The TLB set of a page depends on the lower bits of the page's number. If the
/// distance between neighbouring stacks was an even number of pages, the pages in use of all stacks would compete for
/// half of the sets or fewer. (With 20 pages, a hop in the benchmark `ring_1000` took 1,420 ns on one CPU in QEMU. With
/// 21 pages it took 1,250 ns.)
const STRIDES: [(usize, usize); CLASSES] = {
    let mut strides = [(0, 0); CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let stride = PAGE_SIZE + reserve(class) + (SMALLEST << (class % SIZES));
        assert!(stride / PAGE_SIZE % 2 == 1, "`RESERVE` must be an even number of pages");
        strides[class] = (stride, CLASS_BYTES / stride);
        class += 1;
    }
    strides
};

/// Returns the number of slots of a class.
pub(super) fn capacity(class: usize) -> usize {
    STRIDES[class].1
}

/// A slot, identified by its class and its index in the class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    pub(super) class: usize,
    pub(super) index: usize,
}

impl Slot {
    /// Returns the slot that contains an address. The guard page belongs to the slot. The slot need not be in use.
    /// Callable from everywhere.
    pub fn containing(address: usize) -> Option<Self> {
        let offset = address.checked_sub(STACKS as usize)?;
        let class = offset / CLASS_BYTES;
        let &(stride, capacity) = STRIDES.get(class)?;
        let index = offset % CLASS_BYTES / stride;
        (index < capacity).then_some(Self { class, index })
    }

    /// Returns the size of the stack in bytes: the requested size, rounded up to the size of a class.
    pub fn bytes(self) -> usize {
        SMALLEST << (self.class % SIZES)
    }

    /// Returns the lowest address of the stack. Below it is the room for preemption, if the stack is for a G.
    pub fn bottom(self) -> usize {
        self.lowest() + reserve(self.class)
    }

    /// Returns the upper end of the stack. The stack grows down from this address.
    pub fn top(self) -> usize {
        self.bottom() + self.bytes()
    }

    /// Whether `address` is in the guard page. An access to it by the owner of the stack is a stack overflow.
    pub fn guard_contains(self, address: usize) -> bool {
        (self.lowest() - PAGE_SIZE..self.lowest()).contains(&address)
    }

    /// Returns the lowest address that can be used, which is the end of the guard page.
    pub(super) fn lowest(self) -> usize {
        STACKS as usize + self.class * CLASS_BYTES + self.index * STRIDES[self.class].0 + PAGE_SIZE
    }

    pub(super) fn commit(self) -> Commit {
        if self.class < SIZES { Commit::OnTouch } else { Commit::Whole }
    }

    /// Returns the addresses of the pages above the guard page, highest first.
    pub(super) fn pages(self) -> impl Iterator<Item = VirtAddr> {
        (self.lowest()..self.top()).step_by(PAGE_SIZE).rev().map(|page| VirtAddr::new(page as u64))
    }

    pub(super) fn highest_page(self) -> VirtAddr {
        VirtAddr::new((self.top() - PAGE_SIZE) as u64)
    }
}

/// Returns the size of the room for preemption, in bytes. The size is zero if the stacks of this class are not for Gs.
const fn reserve(class: usize) -> usize {
    if class < SIZES { RESERVE } else { 0 }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB stack {:#x}..{:#x}", self.bytes() / 1024, self.bottom(), self.top())
    }
}
