//! Reuse of stacks: a G that begins to run gets the stack of a G that has ended.

use crate::context;
use crate::entities::goroutine::{Goroutine, StackSize};
use crate::platform::Platform;

/// Exchanges the stacks of `dead` and `next`, if `next` has not begun to run and its stack has the standard size. The
/// caller guarantees that `dead` is a free slot, or is the calling G, which ends and switches to `next`. It also
/// guarantees that the stack of `dead` has the standard size, and that nothing on this stack is needed any more. After
/// the exchange, `next` runs on the stack that was used last, which is already in the caches. The fresh stack, which
/// `dead` gets, stays untouched.
#[inline(always)]
pub(crate) fn exchange_stacks<Plat: Platform>(dead: &Goroutine<Plat>, next: &Goroutine<Plat>) {
    let unused = next.stack_top();
    if !context::is_fresh(&next.context, unused) || next.stack_size() != StackSize::Standard {
        return;
    }
    debug_assert_eq!(dead.stack_size(), StackSize::Standard);
    let used = dead.stack_top();
    dead.set_stack_top(unused);
    next.set_stack_top(used);
    #[expect(unsafe_code, reason = "prepares the context of a G that does not run")]
    // SAFETY: the caller guarantees that `dead` is dead or will not be resumed, and that neither the result of `dead`
    // nor the closure of `next` is on the stack of `dead`. The stack of `next` is empty, because `next` has not begun
    // to run.
    unsafe {
        context::relocate(&next.context, used);
    }
}
