//! Stacks: slots of virtual memory with an unmapped guard page below each.
//!
//! A slot is a guard page followed by 2^k pages of stack. Slots of one size lie one after the other in a range of their
//! own, so the slot of any address, and with it the stack that overflowed, is found by a division. Freed stacks keep
//! their memory and are handed out again, last in, first out; they are not cleared.

use core::fmt;

use super::{OutOfMemory, PAGE_SIZE, VirtAddr, paging};
use crate::sync::{InterruptMutex, PreemptMutex};

/// Bytes of the stack on which a CPU boots and later idles.
pub const CPU_STACK_BYTES: usize = 64 * 1024;

/// Bytes of the smallest stacks.
const SMALLEST: usize = 16 * 1024;
/// Sizes: 16 KiB to 4 MiB.
const CLASSES: usize = 9;
/// Address range of each size.
const CLASS_BYTES: u64 = 1 << 35;
const _: () = assert!(CLASS_BYTES * CLASSES as u64 <= paging::WINDOW_BYTES);

static SIZES: [Class; CLASSES] = [const { Class::new() }; CLASSES];

/// The stacks of one size.
struct Class {
    /// Top of the free stack to be used next; each free stack holds the top of the one behind it in its highest word. 0
    /// is none.
    free: InterruptMutex<usize>,
    /// How many slots have their memory. Held while one gets it, so that a failed attempt is taken up by the next.
    made: PreemptMutex<usize>,
}

impl Class {
    const fn new() -> Self {
        Self { free: InterruptMutex::new(0), made: PreemptMutex::new(0) }
    }
}

/// A slot: where it is and how large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    class: usize,
    index: usize,
}

impl Slot {
    /// The slot that an address belongs to, guard page included, whether or not it is in use.
    pub fn containing(address: usize) -> Option<Self> {
        let offset = address.checked_sub(paging::STACKS as usize)?;
        let class = offset / CLASS_BYTES as usize;
        (class < CLASSES).then(|| Self { class, index: offset % CLASS_BYTES as usize / Self::stride(class) })
    }

    /// Bytes of the stack.
    pub fn bytes(self) -> usize {
        SMALLEST << self.class
    }

    /// The stack's lowest address. The guard page ends here.
    pub fn bottom(self) -> usize {
        paging::STACKS as usize + self.class * CLASS_BYTES as usize + self.index * Self::stride(self.class) + PAGE_SIZE
    }

    /// The end of the stack, where it begins to grow down from.
    pub fn top(self) -> usize {
        self.bottom() + self.bytes()
    }

    /// Whether `address` lies in the guard page: a stack overflow.
    pub fn guard_contains(self, address: usize) -> bool {
        (self.bottom() - PAGE_SIZE..self.bottom()).contains(&address)
    }

    fn stride(class: usize) -> usize {
        (SMALLEST << class) + PAGE_SIZE
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB stack {:#x}..{:#x}", self.bytes() / 1024, self.bottom(), self.top())
    }
}

/// A stack with its memory. Dropping it frees it; nothing may run on it then.
#[derive(PartialEq, Eq, Debug)]
pub struct Stack(Slot);

impl Stack {
    /// A stack of at least `bytes` bytes, with whatever is in it. Not callable from interrupt handlers.
    ///
    /// # Errors
    /// If there is no memory for it, or more than 4 MiB are asked for.
    pub fn allocate(bytes: usize) -> Result<Self, OutOfMemory> {
        let class = bytes.div_ceil(SMALLEST).checked_next_power_of_two().ok_or(OutOfMemory)?.ilog2() as usize;
        let size = SIZES.get(class).ok_or(OutOfMemory)?;
        if let Some(stack) = Self::reuse(size) {
            return Ok(stack);
        }
        let mut made = size.made.lock();
        let slot = Slot { class, index: *made };
        if (slot.index + 1) * Slot::stride(class) > CLASS_BYTES as usize {
            return Err(OutOfMemory);
        }
        paging::commit(VirtAddr::new(slot.bottom() as u64), slot.bytes() / PAGE_SIZE)?;
        *made += 1;
        Ok(Self(slot))
    }

    fn reuse(size: &Class) -> Option<Self> {
        let mut free = size.free.lock();
        let slot = Slot::containing(free.checked_sub(1)?)?;
        // SAFETY: the stack is free, so its highest word is what `drop` wrote.
        *free = unsafe { link(slot.top()).read() };
        Some(Self(slot))
    }

    /// The lowest address.
    pub fn bottom(&self) -> usize {
        self.0.bottom()
    }

    /// The end: the first push goes below it. A multiple of the page size.
    pub fn top(&self) -> usize {
        self.0.top()
    }

    /// Gives the stack up without freeing it: its [`top`](Self::top) stands for it.
    pub fn into_raw(self) -> usize {
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
    pub unsafe fn from_raw(top: usize) -> Self {
        let slot = Slot::containing(top - 1).filter(|slot| slot.top() == top);
        Self(slot.expect("not the top of a stack"))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let top = self.top();
        let mut free = SIZES[self.0.class].free.lock();
        // SAFETY: the stack is not in use any more, by the contract of dropping it.
        unsafe { link(top).write(*free) };
        *free = top;
    }
}

/// The highest word of a stack.
fn link(top: usize) -> *mut usize {
    core::ptr::with_exposed_provenance_mut::<usize>(top).wrapping_sub(1)
}
