//! The word between a G and its join handle: who has the result, who waits, who reuses the slot.
//!
//! ```text
//!                 body done                     context left
//!   ATTACHED ────────────────▶ RESULT ─────────────────────▶ DONE ──▶ the handle reuses the slot
//!      │  │                      │ handle took or dropped it
//!      │  └─▶ (a waiting G) ──┘   ▼
//!      └───────────────────▶ DETACHED ──▶ the far side of the G's last switch reuses the slot
//!        handle dropped
//! ```
//!
//! The result lies in the G or on its stack, so the slot is reused only when both sides are through with it. The word is
//! the arbiter: whoever comes second does it.

use core::fmt;
use core::marker::PhantomData;

use crate::base::atomic::Ordering;
use crate::engine::caller::Caller;
use crate::engine::park::{park_because, ready_pinned};
use crate::entities::free_list::recycle;
use crate::entities::goroutine::{Goroutine, GoroutineId, WaitReason};
use crate::lifecycle::body;
use crate::platform::{Pinned, Platform, Site};
use crate::synctest::Home;

/// The G runs and a handle exists.
pub(crate) const ATTACHED: usize = 0;
/// Nobody wants the result.
const DETACHED: usize = 1;
/// The result is there; the G has not left its stack yet.
const RESULT: usize = 2;
/// The result is there and the stack is at rest.
const DONE: usize = 3;

/// How a G ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// Its body panicked.
    Panicked,
    /// It needed more stack than it had, on a platform on which that ends the G alone.
    StackOverflow,
    /// It called [`exit`](crate::lifecycle::exit::exit).
    Exited,
}

impl JoinError {
    /// Whether something went wrong, which whoever depends on the G is to know.
    pub(crate) fn is_failure(self) -> bool {
        self != Self::Exited
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked => f.write_str("the G panicked"),
            Self::StackOverflow => f.write_str("the G overflowed its stack"),
            Self::Exited => f.write_str("the G ended itself without a result"),
        }
    }
}

impl core::error::Error for JoinError {}

/// The right to the result of a G. Dropping it detaches the G, which runs on.
#[must_use = "dropping the handle detaches the G; call `detach` to say so"]
pub struct JoinHandle<T: Send, P: Platform> {
    goroutine: &'static Goroutine<P>,
    _result: PhantomData<fn() -> T>,
}

impl<T: Send, P: Platform> JoinHandle<T, P> {
    pub(crate) fn new(goroutine: &'static Goroutine<P>) -> Self {
        Self { goroutine, _result: PhantomData }
    }

    /// The G itself.
    pub(crate) fn goroutine(&self) -> &'static Goroutine<P> {
        self.goroutine
    }

    /// Has `me`, which is about to park, readied when the G finishes. The G does not run: it can be resumed by the caller
    /// only.
    pub(crate) fn set_waiter(&self, me: &'static Goroutine<P>) {
        self.goroutine.completion.store(core::ptr::from_ref(me).expose_provenance(), Ordering::Relaxed);
    }

    /// The number of the G.
    #[must_use]
    pub fn id(&self) -> GoroutineId {
        self.goroutine.id()
    }

    /// Whether the G has finished, so that [`join`](Self::join) does not block.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        has_result(self.goroutine)
    }

    /// Lets the G run on its own.
    #[inline]
    pub fn detach(self) {}

    /// Drops the handle; gives the result if it is there already, which is not the G's to drop then.
    pub(crate) fn discard(self) -> Option<Result<T, JoinError>> {
        let mut result = None;
        if !self.detach_running() {
            result = Some(body::take_result(self.goroutine));
            release_slot(self.goroutine);
        }
        core::mem::forget(self);
        result
    }

    /// The G was faster than the drop of its handle, which is not kept in memory for this.
    #[cold]
    #[inline(never)]
    fn drop_result(goroutine: &'static Goroutine<P>) {
        /// Releases the slot also if the drop of the result panics.
        struct Release<P: Platform>(&'static Goroutine<P>);
        impl<P: Platform> Drop for Release<P> {
            fn drop(&mut self) {
                release_slot(self.0);
            }
        }
        let _release = Release(goroutine);
        drop(body::take_result::<T, P>(goroutine));
    }

    /// Gives the result to the G, if there is none yet; tells whether that was so.
    #[inline(always)]
    fn detach_running(&self) -> bool {
        P::point(Site::Join);
        // Ordering: AcqRel: if the result is there, it and all that the G did come before what follows.
        self.goroutine.completion.compare_exchange(ATTACHED, DETACHED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Why a G in a bubble waits for this one: for that bubble only if it is in there, too. It may have left by now, but then
    /// the wait is over.
    #[cold]
    fn reason_in_bubble(&self) -> WaitReason {
        if Home::of(self.goroutine).is_this_bubble() { WaitReason::Join.within_bubble() } else { WaitReason::Join }
    }

    /// Waits for the G and gives its result. Blocks the calling G; not callable from interrupts.
    ///
    /// # Errors
    ///
    /// How it ended, if it has no result.
    ///
    /// # Panics
    ///
    /// The caller is not a G.
    pub fn join(self) -> Result<T, JoinError> {
        while !has_result(self.goroutine) {
            let in_bubble = || self.reason_in_bubble();
            park_because(Caller::new(), WaitReason::Join, in_bubble, |_, me| wait_for(self.goroutine, me));
        }
        // The result is there: nobody else takes or drops it, since the handle is ours.
        let result = body::take_result(self.goroutine);
        release_slot(self.goroutine);
        core::mem::forget(self);
        result
    }
}

impl<T: Send, P: Platform> Drop for JoinHandle<T, P> {
    #[inline]
    fn drop(&mut self) {
        if !self.detach_running() {
            Self::drop_result(self.goroutine);
        }
    }
}

impl<T: Send, P: Platform> fmt::Debug for JoinHandle<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinHandle({})", self.goroutine.id())
    }
}

/// Nobody waits any more for `me`, the calling G, to finish: what [`JoinHandle::set_waiter`] said is taken back.
pub(crate) fn forget_waiter<P: Platform>(me: &'static Goroutine<P>) {
    me.completion.store(ATTACHED, Ordering::Relaxed);
}

pub(crate) fn has_result<P: Platform>(goroutine: &Goroutine<P>) -> bool {
    // Ordering: Acquire; partner: the exchange in `finished`.
    matches!(goroutine.completion.load(Ordering::Acquire), RESULT | DONE)
}

/// Far side of the switch of `waiter`, which holds the handle: has it readied when the G has finished. Tells `false` if
/// the result is there already.
pub(crate) fn wait_for<P: Platform>(goroutine: &Goroutine<P>, waiter: &'static Goroutine<P>) -> bool {
    let waiter = core::ptr::from_ref(waiter).expose_provenance();
    P::point(Site::Join);
    // Ordering: Release publishes the parked context to the G, whose Acquire exchange in `finished` readies the waiter.
    goroutine.completion.compare_exchange(ATTACHED, waiter, Ordering::Release, Ordering::Relaxed).is_ok()
}

/// The handle is through with the slot.
#[inline(always)]
pub(crate) fn release_slot<P: Platform>(goroutine: &'static Goroutine<P>) {
    P::point(Site::Join);
    // Ordering: Release: our reads of the result come before the reuse by the far side; Acquire in the other case: its
    // last steps on that stack come before our reuse. Partner: the exchange in `left`.
    let far_side_does_it =
        goroutine.completion.compare_exchange(RESULT, DETACHED, Ordering::Release, Ordering::Acquire).is_ok();
    if !far_side_does_it {
        recycle(&Pinned::new(), goroutine);
    }
}

/// What the G finds when its result is in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The handle is gone: the result is the G's to drop.
    Nobody,
    /// The result is the handle's.
    Handle,
}

/// The result of the calling G is in place: tells the handle, readies who waits.
#[inline(always)]
pub(crate) fn finished<P: Platform>(pinned: &Pinned<P>, me: &'static Goroutine<P>) -> Audience {
    P::point(Site::Join);
    // Ordering: Release publishes the result to the handle; Acquire takes over a waiter's parked context.
    match me.completion.swap(RESULT, Ordering::AcqRel) {
        ATTACHED => Audience::Handle,
        DETACHED => Audience::Nobody,
        waiter => {
            #[expect(unsafe_code, reason = "turns the word back into the reference it was made from")]
            // SAFETY: other values than the four constants are stored by `join` only, from a `&'static Goroutine<P>`.
            let waiter = unsafe { &*core::ptr::with_exposed_provenance::<Goroutine<P>>(waiter) };
            ready_pinned(pinned, waiter);
            Audience::Handle
        }
    }
}

/// Far side of a G's last switch: its stack is at rest. Tells whether the slot is the caller's to reuse.
pub(crate) fn left<P: Platform>(goroutine: &'static Goroutine<P>, audience: Audience) -> bool {
    P::point(Site::Join);
    // Ordering: see `release_slot`.
    audience == Audience::Nobody || goroutine.completion.swap(DONE, Ordering::AcqRel) == DETACHED
}
