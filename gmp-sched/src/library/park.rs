//! Parking a G and making it runnable again, for the blocking operations of programs.
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

use crate::engine::park::park_with;
use crate::engine::ready::ready_pinned;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{Goroutine, WaitReason};
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

/// Runs `commit`, a commit of the program, for `me`. Then checks that the commit has not left a pin, a lock or a section
/// behind, because the M would pass it on to the next G.
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
