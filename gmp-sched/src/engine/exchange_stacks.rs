//! Reuse of stacks: a G that begins to run gets the stack of a G that has ended. ([`free_slots`] allocates stacks, and
//! [`lifecycle::closure`](crate::lifecycle::closure) makes the first frame.)
//!
//! [`free_slots`]: crate::engine::free_slots

use crate::context;
use crate::entities::goroutine::{Goroutine, StackSize};
use crate::platform::Platform;

/// Exchanges the stacks of `dead` and `next`, if `next` has not begun to run and its stack has the standard size. The
/// caller guarantees that `dead` is a free slot, or is the calling G, which ends and switches to `next`. The caller
/// also guarantees that the stack of `dead` has the standard size, and that nothing on this stack is needed any more.
/// After the exchange, `next` runs on the stack that was used last, which is already in the caches. The fresh stack,
/// which `dead` gets, stays untouched.
///
/// The check and the exchange take 6 to 14 instructions per G (in the benchmarks `spawn_join` and `spawn_batch`). On
/// threads of the host they halve the time of a G that is spawned in a batch: from 69 ns to 34 ns, or from 4.1 us to
/// 2.0 us if the stacks are new.
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
