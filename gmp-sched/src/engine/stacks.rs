//! Reuse of stacks: a G that begins takes over the stack of one that has ended.

use crate::context;
use crate::entities::goroutine::{Goroutine, StackSize};
use crate::platform::Platform;

/// Exchanges the stacks of `dead`, which has left nothing on its stack, and `next`, if that has not begun to run and both stacks
/// have the standard size. So Gs that run one after the other use one stack, which is in the caches, and the memory of a stack
/// that is not needed is never touched. `dead` is free, or the calling G, which leaves for `next` for ever.
#[inline(always)]
pub(crate) fn exchange_stacks<P: Platform>(dead: &Goroutine<P>, next: &Goroutine<P>) {
    let unused = next.stack_top();
    if !context::is_fresh(&next.context, unused) || next.stack_size() != StackSize::Standard {
        return;
    }
    debug_assert_eq!(dead.stack_size(), StackSize::Standard);
    let used = dead.stack_top();
    dead.set_stack_top(unused);
    next.set_stack_top(used);
    #[expect(unsafe_code, reason = "prepares the context of a G that does not run")]
    // SAFETY: `dead` is dead or will not be resumed, and neither its result nor the closure of `next` is on its stack; the stack of
    // `next`, which has not begun to run, is empty.
    unsafe {
        context::relocate(&next.context, used);
    }
}
