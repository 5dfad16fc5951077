//! Reuse of stacks: a G that begins takes over the stack of one that has ended.

use crate::context;
use crate::entities::goroutine::{Goroutine, StackSize};
use crate::platform::Platform;

/// Gives the stack of `dead`, which has left nothing there, to `next`, if that has not begun, and takes that one for it; both
/// are of the standard size. So Gs that run one after the other run on one stack, which is in the caches, and those that nobody
/// needs are never touched. `dead` is free, or the calling G, which is left for `next` at once.
#[inline(always)]
pub(crate) fn exchange_stacks<P: Platform>(dead: &Goroutine<P>, next: &Goroutine<P>) {
    let (used, unused) = (dead.stack_top(), next.stack_top());
    if !context::is_fresh(&next.context, unused) {
        return;
    }
    debug_assert!(dead.stack_size() == StackSize::Standard && next.stack_size() == StackSize::Standard);
    dead.set_stack_top(unused);
    next.set_stack_top(used);
    #[expect(unsafe_code, reason = "prepares the context of a G that does not run")]
    // SAFETY: `dead` is dead or left for good, and neither its result nor what is handed over to `next` lies on its stack;
    // nothing lies on that of `next`, which is fresh.
    unsafe {
        context::relocate(&next.context, used);
    }
}
