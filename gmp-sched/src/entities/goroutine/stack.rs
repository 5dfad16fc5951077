//! The stack of a G, as addresses.

use core::ops::Range;

use super::Goroutine;
use crate::base::atomic::Ordering;
use crate::platform::Platform;

/// What happens to the stack of a slot when its G dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StackSize {
    /// It stays with the slot, which goes to a free list. Also used for slots without a stack.
    Standard = 0,
    /// It is returned to the platform.
    Chosen = 1,
}

impl<P: Platform> Goroutine<P> {
    /// The addresses of its stack; an empty range if a dead G has none.
    #[must_use]
    pub fn stack(&self) -> Range<usize> {
        let top = self.stack_top();
        // If another M reads the two fields, they may belong to different stacks.
        top.saturating_sub(self.stack_bytes.load(Ordering::Relaxed))..top
    }

    /// The upper end of its stack, which grows down from there.
    #[inline(always)]
    pub(crate) fn stack_top(&self) -> usize {
        self.stack_top.load(Ordering::Relaxed)
    }

    /// Sets the stack of the slot, or removes it if the range is empty. The caller owns the slot.
    pub(crate) fn set_stack(&self, stack: Range<usize>, size: StackSize) {
        self.stack_top.store(stack.end, Ordering::Relaxed);
        self.stack_bytes.store(stack.len(), Ordering::Relaxed);
        self.stack_size.store(size as u8, Ordering::Relaxed);
    }

    /// Replaces its stack by another of the same size. The caller owns the slot.
    #[inline(always)]
    pub(crate) fn set_stack_top(&self, top: usize) {
        self.stack_top.store(top, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn stack_size(&self) -> StackSize {
        match self.stack_size.load(Ordering::Relaxed) {
            0 => StackSize::Standard,
            _ => StackSize::Chosen,
        }
    }
}
