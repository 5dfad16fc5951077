//! Parking a G and making it runnable again: what every blocking operation is built on.
//!
//! ```
//! use gmp_sched::goroutine::{Goroutine, WaitReason};
//! use gmp_sched::native::{self, Native, go, yield_now};
//! use gmp_sched::park::{park, ready};
//! use std::sync::Mutex;
//!
//! /// The G that waits.
//! static WAITING: Mutex<Option<&'static Goroutine<Native>>> = Mutex::new(None);
//!
//! unsafe { native::enter() }.run(2, || {
//!     // The commit runs when the G has left its stack. Only then can another G find it here.
//!     let waiter = go(|| park::<Native>(WaitReason::Parked, |_, me| {
//!         *WAITING.lock().unwrap() = Some(me);
//!         true
//!     }));
//!     let found = loop {
//!         // The guard of the lock is dropped before the yield.
//!         let found = WAITING.lock().unwrap().take();
//!         if let Some(found) = found {
//!             break found;
//!         }
//!         yield_now();
//!     };
//!     // SAFETY: the commit made the G known here, and `take` returns it once. The commit uses only a static.
//!     unsafe { ready(found) };
//!     waiter.join().unwrap();
//! });
//! ```

use crate::engine::hooks::Window;
pub use crate::engine::ready::ready;
use crate::engine::ready::ready_pinned;
#[cfg(not(gmp_loom))]
use crate::engine::{hooks, pick::pick_next, switch::leave};
use crate::entities::bubble::BubblePointer;
use crate::entities::current::CurrentGoroutine;
#[cfg(not(gmp_loom))]
use crate::entities::events::Leave;
use crate::entities::goroutine::{Goroutine, WaitLocation, WaitReason};
use crate::entities::wait_reason::WaitFor;
use crate::entities::window::At;
use crate::platform::{Pinned, Platform};

/// Parks the calling G. Go: `gopark`.
///
/// `commit` runs after the G's context has been saved, on another stack and pinned; it must be short. It makes the G
/// known to the code that is to [`ready`] the G (for example, it unlocks the queue that contains the G) and returns
/// `true`. If the commit returns `false`, the G is readied at once. As soon as the G is known to other code, the G may
/// run and change its stack, even while the commit is still running: see the safety section of [`ready`]. Blocks; not
/// callable from interrupts.
///
/// The commit runs on the stack of another G or of g0, so it is no code of a G. It must not panic, block, yield or
/// spawn, and it must drop every guard that turns preemption off or forbids waits. Otherwise the program ends with a
/// fatal error, which names the G.
///
/// # Panics
///
/// The caller is not a G, or holds no P, or is pinned.
#[doc(alias = "gopark")]
#[inline]
#[track_caller]
pub fn park<Plat: Platform>(reason: WaitReason, commit: impl FnOnce(&Pinned<Plat>, &'static Goroutine<Plat>) -> bool) {
    let commit = move |pinned: &Pinned<Plat>, me| run_commit(pinned, me, commit);
    drop(park_with(CurrentGoroutine::new(), reason, commit));
}

/// Runs `commit`, a commit of the program, for `me`. Then checks what it has left behind, because the M would pass this
/// on to the next G.
///
/// Until the commit has ended, no G is the current one, even if the commit runs on the stack of the next G. So an
/// operation that only a G may perform is refused, and is not performed in the name of the next G.
#[inline]
fn run_commit<Plat: Platform>(
    pinned: &Pinned<Plat>,
    me: &'static Goroutine<Plat>,
    commit: impl FnOnce(&Pinned<Plat>, &'static Goroutine<Plat>) -> bool,
) -> bool {
    let machine = pinned.machine();
    let next = machine.current_goroutine();
    machine.set_current(None);
    machine.set_committing(Some(me));
    let waits = commit(pinned, me);
    if !Plat::is_pinned_once() || machine.are_waits_forbidden() {
        refuse_what_is_left::<Plat>();
    }
    machine.set_committing(None);
    machine.set_current(next);
    waits
}

/// Panics, because a commit has left a pin, a lock or a section behind. The panic ends the program, as every panic of a
/// commit does.
#[cold]
#[inline(never)]
fn refuse_what_is_left<Plat: Platform>() -> ! {
    Plat::misuse(format_args!("the commit of a park left a pin, a lock or a section behind in which no G may wait"))
}

/// Like [`park`], for a caller that is pinned exactly once. The caller is also pinned when this function returns.
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
        if !commit(pinned, me) {
            ready_again(pinned, me);
        }
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
