//! The stack of a G, as addresses. Its memory comes from [`Platform::allocate_stack`]: in the kernel from `mm::stack`, on
//! threads from `native::stack`. `lifecycle::free_slots` asks for it, and `entities::free_stacks` gives it back.

use core::ops::Range;

use super::Goroutine;
use crate::base::atomic::Ordering;
use crate::context::is_fresh;
use crate::entities::status::Status;
use crate::platform::Platform;

/// The kind of stack that a slot has, which decides what happens to the stack when the G dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StackSize {
    /// A stack of the standard size stays with the slot, which goes to a free list. Slots without a stack have this
    /// value, too.
    Standard = 0,
    /// A stack of another size, chosen by the spawner, is returned to the platform.
    Chosen = 1,
}

impl<Plat: Platform> Goroutine<Plat> {
    /// The addresses of the G's stack; an empty range if the G is dead and its slot has no stack.
    #[must_use]
    pub fn stack(&self) -> Range<usize> {
        let top = self.stack_top();
        // If the caller is on another M, `top` and the size may belong to different stacks. So the subtraction must not
        // wrap.
        top.saturating_sub(self.stack_bytes.load(Ordering::Relaxed))..top
    }

    /// Returns where the G will continue: the address of the next instruction, and the address of the word on the G's
    /// stack that contains the saved frame pointer. Returns `None` if the G runs, is in a system call, has not begun or
    /// is dead. Both values may already be outdated, unless the caller has made sure that the G is not resumed.
    #[must_use]
    pub fn suspended_at(&self) -> Option<(usize, usize)> {
        let is_saved = matches!(self.status(), Status::Waiting | Status::Runnable);
        let has_begun = self.stack_top() != 0 && !is_fresh(&self.context, self.stack_top());
        (is_saved && has_begun).then(|| self.context.code_and_frame_pointer())
    }

    /// The upper end of the G's stack, which grows down from there.
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

    /// Replaces the G's stack by another one of the same size. The caller owns the slot.
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
