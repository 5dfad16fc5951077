//! Ending a G from the inside: of its own accord, or because it can no longer go on.

use crate::base::atomic::Ordering;
use crate::base::error::JoinError;
use crate::base::id::GoroutineId;
use crate::engine::caller::Caller;
use crate::entities::goroutine::Goroutine;
use crate::entities::status::Status;
use crate::lifecycle::body;
use crate::lifecycle::children::wait_for_all;
use crate::lifecycle::finish::{StackUse, end};
use crate::platform::{Pinned, Platform};

/// Ends the calling G; whoever joins it gets [`JoinError::Exited`]. Go: `runtime.Goexit`.
///
/// Where the platform can unwind (threads), everything the G holds is dropped, as Go runs its deferred calls. Where it
/// cannot (the kernel), the G is [abandoned](abandon): returning from its body is better then. If the main G ends so, the
/// others go on, and when they are through the program ends as by a deadlock.
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
/// The caller is not a G with a P, or is pinned.
#[doc(alias = "Goexit")]
pub fn goexit<P: Platform>() -> ! {
    {
        let pinned = Pinned::<P>::new();
        if pinned.goroutine().id() == GoroutineId::MAIN {
            pinned.machine().scheduler().main_exited.store(true, Ordering::Relaxed);
        }
    }
    exit_body::<P>()
}

/// Ends the calling G: unwinds its body if the platform can, otherwise abandons it.
pub(crate) fn exit_body<P: Platform>() -> ! {
    P::unwind_body();
    #[expect(unsafe_code, reason = "leaves frames without unwinding them")]
    // SAFETY: a platform that cannot unwind has no flows of control but Gs, and what borrows from a G's frames are
    // children of its scopes, for which `abandon` waits.
    unsafe {
        abandon::<P>(JoinError::Exited)
    }
}

/// Ends the calling G where it stands, without unwinding: whoever joins it gets `reason`.
///
/// Nothing on its stack is dropped: what it holds stays held. Others may have references into that stack (queues), so
/// neither stack nor slot is ever used again. The children of scopes that it has open may borrow from its own parents as
/// well, who go on when it ends: so it blocks until the last of them has ended. For platforms that cannot unwind, when a G
/// panics or exits.
///
/// # Safety
///
/// No flow of control other than children of the G's scopes borrows from the frames on its stack: frames below this one
/// (of `std::thread::scope`, say) may have relied on not being left before others have ended.
///
/// # Panics
///
/// The caller is not a G with a P, or is pinned.
#[expect(unsafe_code, reason = "leaves frames without unwinding them")]
pub unsafe fn abandon<P: Platform>(reason: JoinError) -> ! {
    wait_for_all::<P>();
    let caller = Caller::<P>::new();
    body::fail_with(&caller.pinned, caller.me, reason);
    caller.processor.counters.abandoned.add(1);
    end(caller, StackUse::Kept, quarantine)
}

/// Commit of an abandoned G. The completion word keeps saying that the G has not left its stack, so its handle leaves the slot to
/// this function, which never releases it.
fn quarantine<P: Platform>(_: &Pinned<P>, goroutine: &'static Goroutine<P>) {
    goroutine.set_status(Status::Dead);
}
