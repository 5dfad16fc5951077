//! Reuse of stacks: a G that begins to run gets the stack of a G that has ended. ([`free_slots`] allocates stacks, and
//! [`lifecycle::closure`](crate::lifecycle::closure) makes the first frame.)
//!
//! [`free_slots`]: crate::lifecycle::free_slots

use crate::context;
use crate::entities::goroutine::{Goroutine, StackSize};
use crate::entities::processor::Processor;
use crate::platform::Platform;
use crate::refinements::poison::repair_poison;

/// Gives `next` the stack of the G that ended last on this P, if `next` has not begun to run and its stack has the
/// standard size. If the free list of the P is empty, `next` keeps its own stack. (All stacks of slots on a free list
/// have the standard size.) Only the M that holds `processor` may call this, for a G that it is about to run.
///
/// When the calling G parks, this check takes three instructions if `next` has begun before. In the benchmark `skynet`,
/// most Gs begin when another G parks. On threads of the host, the exchange saves an eighth of the time per G there,
/// and a fifth in the first run, in which each new stack costs a page fault.
#[inline(always)]
pub(crate) fn reuse_stack<Plat: Platform>(processor: &Processor<Plat>, next: &Goroutine<Plat>) {
    if can_exchange(next)
        && let Some(dead) = processor.free.last()
    {
        exchange(dead, next);
        repair_poison(dead);
    }
}

/// Like [`reuse_stack`], but `next` gets the stack of `me`, the calling G, which ends and switches to `next`. The
/// caller guarantees that this stack has the standard size, and that nothing on it is needed any more.
///
/// The check and the exchange take 6 to 14 instructions per G (in the benchmarks `spawn_join` and `spawn_batch`). On
/// threads of the host they halve the time of a G that is spawned in a batch: from 69 ns to 34 ns, or from 4.1 us to
/// 2.0 us if the stacks are new.
#[inline(always)]
pub(crate) fn pass_stack_on<Plat: Platform>(me: &Goroutine<Plat>, next: &Goroutine<Plat>) {
    if can_exchange(next) {
        exchange(me, next);
    }
}

/// Whether `goroutine` has not begun to run, has nothing on its stack, and has a stack of the standard size.
#[inline(always)]
fn can_exchange<Plat: Platform>(goroutine: &Goroutine<Plat>) -> bool {
    context::is_fresh(&goroutine.context, goroutine.stack_top()) && goroutine.stack_size() == StackSize::Standard
}

/// Exchanges the stacks of `dead` and `next`. The caller guarantees that `dead` is a free slot or the calling G, which
/// ends and switches to `next`; that the stack of `dead` has the standard size; and that nothing on this stack is
/// needed any more. The caller has checked that `next` [can](can_exchange) exchange its stack.
///
/// After the exchange, `next` runs on the stack that was used last, which is already in the caches. The fresh stack,
/// which `dead` gets, stays untouched.
#[inline(always)]
fn exchange<Plat: Platform>(dead: &Goroutine<Plat>, next: &Goroutine<Plat>) {
    debug_assert_eq!(dead.stack_size(), StackSize::Standard);
    let (used, unused) = (dead.stack_top(), next.stack_top());
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
