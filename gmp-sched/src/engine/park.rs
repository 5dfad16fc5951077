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

use crate::engine::current::CurrentGoroutine;
use crate::engine::enqueue::enqueue_next_on;
use crate::engine::hooks;
use crate::engine::windows::{At, Window};
#[cfg(not(gmp_loom))]
use crate::engine::{pick::pick_next, switch::leave};
use crate::entities::bubble::BubblePointer;
#[cfg(not(gmp_loom))]
use crate::entities::events::Leave;
use crate::entities::goroutine::{Goroutine, WaitLocation, WaitReason};
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::status::Status;
use crate::entities::wait_reason::WaitFor;
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
    return crate::engine::loom_wait::leave(CurrentGoroutine { pinned, machine, processor, me }, commit);
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

/// Makes a parked G runnable and puts it into `runnext` of the caller's P. Go: `goready`.
///
/// Callable on any thread. If the caller is not an M of the G's own scheduler, or is in a system call, the G goes to
/// the global queue of its own scheduler. A G that is locked to its M goes to neither, because only that M may run it.
/// Does not block; not callable from interrupts.
///
/// # Safety
///
/// - The commit of the G's [`park`] made the G known to the caller, and no other code readies the G for that park. A G
///   that is found waiting by other means may not have left its stack yet, and would then run on two Ms at once.
/// - After that commit has made the G known, the commit uses nothing that is on the G's stack or that the G owns or
///   borrows. The commit must have moved everything that it still needs into itself.
///
/// # Panics
///
/// The G is not parked.
#[doc(alias = "goready")]
#[expect(unsafe_code, reason = "the caller must be the one to which the commit made the G known")]
#[inline]
#[track_caller]
pub unsafe fn ready<Plat: Platform>(goroutine: &'static Goroutine<Plat>) {
    ready_pinned(&Pinned::of_scheduler(), goroutine);
}

/// Like [`ready`], for a caller that is pinned.
#[inline(always)]
pub(crate) fn ready_pinned<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    if let Some((machine, processor)) = end_wait(pinned, goroutine) {
        #[cfg(gmp_loom)]
        if crate::engine::loom_wait::ready(goroutine) {
            return;
        }
        enqueue_next_on(machine, processor, goroutine);
    }
}

/// Makes a parked G runnable and returns the G, which the caller must run or enqueue. Returns `None` if the G is locked
/// to an M, or if the caller is not an M of the G's scheduler. In both cases nothing is left to do: this function has
/// enqueued the G, or has assigned a P to the M of the locked G.
#[inline(always)]
pub(crate) fn make_runnable<Plat: Platform>(
    pinned: &Pinned<Plat>,
    goroutine: &'static Goroutine<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    end_wait(pinned, goroutine).map(|_| goroutine)
}

/// Like [`make_runnable`], for a G that knows its M and its P, so that they are not looked up again. `end_wait`
/// explains the comparison.
#[inline(always)]
pub(crate) fn make_runnable_by<Plat: Platform>(
    caller: &CurrentGoroutine<Plat>,
    goroutine: &'static Goroutine<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    if !goroutine.is_parked_as(caller.machine.unsampled()) {
        end_wait_slow_path(Some(caller.machine), goroutine)?;
    }
    goroutine.set_status(Status::Runnable);
    caller.processor.counters.readies.add(1);
    Some(goroutine)
}

/// Like [`make_runnable`], but returns the calling M and its P instead of the G, so that the caller need not look them
/// up again to enqueue the G.
#[inline(always)]
fn end_wait<Plat: Platform>(
    pinned: &Pinned<Plat>,
    goroutine: &'static Goroutine<Plat>,
) -> Option<(&'static Machine<Plat>, Option<&'static Processor<Plat>>)> {
    let machine = match pinned.try_machine() {
        // This one comparison fails if the G is not parked, belongs to another scheduler, is sampled, waits durably in
        // a bubble or is locked. It saves 58 instructions compared with the slow path, which makes these checks one by
        // one.
        Some(machine) if goroutine.is_parked_as(machine.unsampled()) => machine,
        here => end_wait_slow_path(here, goroutine)?,
    };
    goroutine.set_status(Status::Runnable);
    let processor = machine.processor();
    if let Some(processor) = processor {
        processor.counters.readies.add(1);
    }
    Some((machine, processor))
}

/// The part of [`end_wait`] for a caller that is not an M, and for a G that is sampled, waits durably in a bubble, is
/// locked to its M or belongs to another scheduler. `here` is the calling M, or `None` on a thread that is not an M.
/// Returns the calling M, which must enqueue the G, or `None` if nothing is left to do.
#[cold]
#[inline(never)]
fn end_wait_slow_path<Plat: Platform>(
    here: Option<&'static Machine<Plat>>,
    goroutine: &'static Goroutine<Plat>,
) -> Option<&'static Machine<Plat>> {
    assert_eq!(goroutine.status(), Status::Waiting, "readied a G that does not wait: {goroutine:?}");
    let here = here.filter(|machine| machine.is_of_scheduler_of(goroutine));
    if goroutine.is_waiting_in_bubble() {
        goroutine.bubble().expect("it says that it waits in one").unblocked();
    }
    hooks::readied(here, goroutine);
    if hooks::ready_elsewhere(here, goroutine) {
        return None;
    }
    if here.is_none() {
        goroutine.scheduler().inject_from_outside(goroutine);
    }
    here
}
