//! Parking a G: what every blocking operation is built on. (`library::park` has an interface for programs.)

use crate::engine::hooks::Window;
use crate::engine::ready::ready_pinned;
#[cfg(not(gmp_loom))]
use crate::engine::{hooks, pick::pick_next, switch::leave};
use crate::entities::bubble::BubblePointer;
use crate::entities::current::CurrentGoroutine;
#[cfg(not(gmp_loom))]
use crate::entities::events::Leave;
use crate::entities::goroutine::{Goroutine, WaitLocation};
use crate::entities::wait_reason::WaitFor;
use crate::entities::window::At;
use crate::platform::{Pinned, Platform};

/// Parks the calling G, which is pinned exactly once, before this call and afterwards. Go: `gopark`.
///
/// `commit` runs after the G's context has been saved, on another stack. It makes the G known to the code that is to
/// ready the G (for example, it unlocks the queue that contains the G) and returns `true`. If the commit returns
/// `false`, the G is readied at once. As soon as the G is known to other code, the G may run and change its stack.
#[doc(alias = "gopark")]
#[inline(always)]
#[cfg_attr(feature = "std", track_caller)]
pub(crate) fn park_with<'a, Plat: Platform>(
    caller: CurrentGoroutine<Plat>,
    wait: impl Into<WaitFor<'a>>,
    commit: impl FnOnce(&Pinned<Plat>, &'static Goroutine<Plat>) -> bool,
) -> Pinned<Plat> {
    let CurrentGoroutine { pinned, machine, processor, me } = caller;
    let wait = wait.into();
    let window = Window::<Plat>::open(At::Park);
    processor.counters.parks.add(1);
    me.set_wait_location(WaitLocation::here());
    me.set_waiting(wait.reason(), processor.sampler.parked_status(), processor.clock());
    let bubble = me.bubble().filter(|_| me.set_waiting_in_bubble(wait.reason_in_bubble()));
    // The commit owns all that it uses, because the stack of the G may change as soon as the G is known to other code.
    let commit = move |pinned: &Pinned<Plat>, me: &'static Goroutine<Plat>| {
        // ANCHOR: parked
        if !commit(pinned, me) {
            ready_again(pinned, me);
        }
        // ANCHOR_END: parked
        // In its bubble, the G counts as blocked only after the commit. A waker may have counted the G as active before
        // that. So the bubble's count of active Gs may be too high for a moment, but it is never too low.
        if let Some(bubble) = bubble {
            blocked_in(pinned, bubble);
        }
    };
    #[cfg(gmp_loom)]
    window.close();
    #[cfg(gmp_loom)]
    return crate::entities::loom_wait::leave(CurrentGoroutine { pinned, machine, processor, me }, commit);
    #[cfg(not(gmp_loom))]
    {
        let next = pick_next(&pinned, processor);
        if let Some(next) = next {
            hooks::reuse_stack(processor, next);
        }
        window.close();
        leave(pinned, machine, me, next, Leave::Park, commit)
    }
}

/// Readies a G whose commit has returned `false`. This is a function of its own because commits are called through a
/// pointer: if it were inlined, each of them would save and restore four registers for it.
#[cold]
#[inline(never)]
fn ready_again<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    ready_pinned(pinned, goroutine);
}

/// Counts a G as waiting durably in `bubble`. If this was the last active G of the bubble, readies the G that waits for
/// this: the one in `synctest::wait` or the one in `synctest::test`.
#[cold]
#[inline(never)]
fn blocked_in<Plat: Platform>(pinned: &Pinned<Plat>, bubble: BubblePointer<Plat>) {
    if let Some(waiting) = bubble.blocked() {
        ready_pinned(pinned, waiting);
    }
}
