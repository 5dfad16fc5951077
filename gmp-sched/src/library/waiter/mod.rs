//! Wait queues: the basis of channels, locks, and everything else that Gs wait for.
//!
//! A [`Waiter`] is one G's entry in one queue. A [`WaitQueue`] is a FIFO of waiters, guarded by the lock of the object
//! that is waited for. Each G has a waiter of its own, which is enough to wait for one object. Like the G, this waiter
//! is reused but never freed. The waiters of a select are on the stack of its G. (Go takes all waiters from a cache,
//! because its stacks move: `acquireSudog`.)
//!
//! # Which waker ends a wait
//!
//! If a G waits in one queue without a deadline or context, the waker that removes the G's waiter from the queue under
//! the lock ends the wait ([`WaitGeneration::SOLE`]). If there can be several wakers (several queues, a deadline, a
//! context), the G begins its wait with a new wait generation ([`WaitGeneration`]). The waker whose
//! [claim](Goroutine::claim) of the generation succeeds ends the wait. A claim of a stale generation fails. (Go:
//! `selectDone`.)
//!
//! # Order of steps
//!
//! The G takes the lock, checks the condition, queues its waiter, and parks with the lock held ([`park_with`]). The far
//! side of the context switch releases the lock, when the G's context has been saved. So a waker that finds the waiter
//! may ready the G at once. A deadline's timer is armed before the lock is released. If the timer fires immediately,
//! the G may run while the far side still holds the lock. But the G takes the lock itself to leave the queue before it
//! continues, so the locked object stays valid. If the wait has a context, the far side arms the timer and queues the G
//! on the context under the context's lock. The G takes the context's lock, too, before it continues.

mod queue;

use core::ptr;

use crate::base::atomic::Ordering;
use crate::engine::park::park_with;
use crate::engine::ready::ready_pinned;
use crate::entities::current::CurrentGoroutine;
#[cfg(doc)]
use crate::entities::goroutine::Goroutine;
use crate::entities::goroutine::WaitGeneration;
use crate::entities::wait_reason::WaitFor;
use crate::entities::waiter::Waiter;
use crate::library::wait_end::WaitEnd;
use crate::platform::{Pinned, Platform};
pub(crate) use queue::{WaitQueue, Woken};

impl<Plat: Platform> Waiter<Plat> {
    /// Readies the G whose wait the caller has ended by removing this waiter from a queue. Called without the queue's
    /// lock.
    #[inline]
    pub(crate) fn ready(&'static self, pinned: &Pinned<Plat>) {
        ready_pinned(pinned, self.goroutine());
    }
}

/// Parks the caller until the wait is ended, by a waker or by `end`, if there is one. The caller has put its waiter into
/// one queue, or several waiters into several queues, with the wait generation `generation`. (A caller that waits only
/// for `end` has queued no waiter.) `unlock` runs on the far side and releases the queues' locks. From then on a waker of
/// these queues may ready the G; `end` may do so even earlier, because it is armed before the unlock.
///
/// Returns `end` if it has ended the wait. In that case, and whenever the caller has queued several waiters, the caller
/// must then remove those that are still queued. If the wait has a generation of its own, the waiter through which the G
/// was woken is in the G's `woken_by`.
#[inline(always)]
#[cfg_attr(feature = "std", track_caller)]
pub(crate) fn wait<'a, Plat: Platform, E: WaitEnd<Plat>>(
    caller: CurrentGoroutine<Plat>,
    wait_for: impl Into<WaitFor<'a>>,
    generation: WaitGeneration,
    end: Option<E>,
    unlock: impl FnOnce(),
) -> Option<E> {
    let Some(end) = end else {
        // The closure is `move`, because the G may run and overwrite its stack as soon as `unlock` has begun.
        drop(park_with(caller, wait_for, move |_, _| {
            unlock();
            true
        }));
        return None;
    };
    let me = caller.me;
    me.woken_by.store(None, Ordering::Relaxed);
    // The closure is `move`, because the G may run and overwrite its stack once the commit has armed `end`.
    drop(park_with(caller, wait_for, move |pinned, me| {
        end.arm(pinned, me, generation);
        unlock();
        true
    }));
    end.disarm(me);
    let waker = me.woken_by.load(Ordering::Relaxed);
    let is_woken = waker.is_some_and(|waker| !ptr::eq(waker, &raw const me.context_waiter));
    (!is_woken).then_some(end)
}
