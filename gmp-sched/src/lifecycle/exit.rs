//! Ending a G from the inside: of its own accord, or because it cannot continue. How each G ends, also one whose closure
//! returns, is in `lifecycle::finish`.

use crate::base::atomic::Ordering;
use crate::base::error::JoinError;
use crate::base::id::GoroutineId;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::Goroutine;
use crate::entities::status::Status;
use crate::lifecycle::finish::{StackUse, end};
use crate::lifecycle::{closure, deferred};
use crate::platform::{Pinned, Platform};

/// Ends the calling G; joining it returns [`JoinError::Exited`]. Go: `runtime.Goexit`.
///
/// On a platform that can unwind (threads, the simulator), everything that the G holds is dropped. (Go runs deferred
/// calls instead.) On a platform that cannot unwind (the kernel), the G is [abandoned](abandon), so a G should return
/// from its closure instead. If the main G ends in this way, the others continue, and when all have ended the program
/// ends with a deadlock report.
///
/// ```
/// use gmp_sched::{JoinError, native};
///
/// let ended = unsafe { native::enter() }.run(1, || {
///     native::go(|| {
///         native::goexit();
///     })
///     .join()
/// });
/// assert_eq!(ended, Err(JoinError::Exited));
/// ```
///
/// # Panics
///
/// The caller is pinned or is not a G with a P.
#[doc(alias = "Goexit")]
#[track_caller]
pub fn goexit<Plat: Platform>() -> ! {
    {
        let pinned = Pinned::<Plat>::of_scheduler();
        if pinned.goroutine().id() == GoroutineId::MAIN {
            pinned.machine().scheduler().main_exited.store(true, Ordering::Relaxed);
        }
    }
    exit_body::<Plat>()
}

/// Ends the calling G: unwinds its body if the platform can, otherwise abandons it.
#[track_caller]
pub(crate) fn exit_body<Plat: Platform>() -> ! {
    Plat::unwind_body();
    #[expect(unsafe_code, reason = "leaves frames without unwinding them")]
    // SAFETY: `unwind_body` returns only if no thread but those of Ms borrows from the stack of a G. So only children
    // of a G's scopes borrow from the frames of the G, and `abandon` waits for these children.
    unsafe {
        abandon::<Plat>(JoinError::Exited)
    }
}

/// Ends the calling G at once, without unwinding; joining it returns `reason`.
///
/// Nothing on the stack of the G is dropped, so its locks stay locked. Queues may hold references into that stack, so
/// neither stack nor slot is ever used again. If the G has open scopes, it first blocks until their children have
/// ended. The reason is that the G may itself be a child of a scope. In this case its children may borrow from frames
/// of its parent, and its parent continues when the G ends. If the G runs the function of a
/// [`Once`](crate::sync::Once), the `Once` is poisoned. Used on platforms that cannot unwind, when a G panics, exits,
/// overflows its stack or raises an exception. An exception hook of `native` may call it, too.
///
/// # Safety
///
/// Only children of the G's scopes borrow from the frames on its stack. No frame on the stack belongs to code, such as
/// `std::thread::scope`, that must not be left before another flow of control has ended.
///
/// If the caller may not end here, because it is pinned or in a section that forbids waits, the program ends.
///
/// # Panics
///
/// The caller is not a G.
#[expect(unsafe_code, reason = "leaves frames without unwinding them")]
#[track_caller]
pub unsafe fn abandon<Plat: Platform>(reason: JoinError) -> ! {
    deferred::run_all::<Plat>();
    let caller = CurrentGoroutine::<Plat>::to_end();
    // The G is counted before its joiner is readied, so that the joiner finds it in the counters.
    caller.processor.counters.abandoned.add(1);
    closure::fail_with(&caller.pinned, caller.me, reason);
    end(caller, StackUse::Kept, quarantine)
}

/// Commit of an abandoned G. The slot must never be reused, so this function does not release the slot. The completion
/// word stays unchanged. From this word the join handle concludes that the far side releases the slot, so the handle
/// does not release the slot, either.
fn quarantine<Plat: Platform>(_: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    goroutine.set_status(Status::Dead);
}
