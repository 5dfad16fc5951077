//! The completion word, which a G shares with its join handle. It decides who owns the result, which G waits for the
//! result, and who releases the slot.
//!
//! ```text
//!                 body done             context left, or left before
//!                                           the joiner continues
//!   ATTACHED ────────────────▶ RESULT ─────────────────────▶ DONE ──▶ the handle releases the slot
//!      │  │                      │ handle took or dropped it
//!      │  └─▶ (a waiting G) ──┘   ▼
//!      └───────────────────▶ DETACHED ──▶ the far side of the G's last switch releases the slot
//!        handle dropped
//! ```
//!
//! The result is in the G's slot or on its stack, so the slot is reused only when both sides no longer need it. The
//! completion word decides which side is the last to need the slot, and that side releases it.

use core::fmt;
use core::marker::PhantomData;

use crate::base::atomic::Ordering;
pub use crate::base::error::{JoinError, Panic};
use crate::base::id::GoroutineId;
use crate::base::points::Site;
use crate::engine::hooks::before_wait;
use crate::engine::park::park_with;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{Goroutine, WaitReason};
use crate::entities::wait_reason::WaitFor;
use crate::lifecycle::free_slots::recycle;
use crate::lifecycle::storage::take_result;
use crate::platform::{Pinned, Platform};

/// The G has not finished, its handle exists, and no G waits in `join`.
pub(crate) const ATTACHED: usize = 0;
/// There is no handle any more. If the handle was dropped before the G finished, the G drops the result. Otherwise the
/// handle has taken or dropped the result.
const DETACHED: usize = 1;
/// The result is stored; the G has not left its stack yet.
const RESULT: usize = 2;
/// The result is stored, and the G has left its stack, or will have left it before the owner of the handle continues.
const DONE: usize = 3;

/// A handle to join a G and take its result. Dropping the handle detaches the G, which keeps running.
#[must_use = "dropping the handle detaches the G; call `detach` to say so"]
pub struct JoinHandle<T: Send, Plat: Platform> {
    goroutine: &'static Goroutine<Plat>,
    _result: PhantomData<fn() -> T>,
}

impl<T: Send, Plat: Platform> JoinHandle<T, Plat> {
    pub(crate) fn new(goroutine: &'static Goroutine<Plat>) -> Self {
        Self { goroutine, _result: PhantomData }
    }

    /// The G itself.
    pub(crate) fn goroutine(&self) -> &'static Goroutine<Plat> {
        self.goroutine
    }

    /// Registers `me`, which is about to park, to be readied when the G of this handle finishes. That G is the inner G
    /// of a coroutine. The inner G does not run before `me` has parked, because only `me` can resume it.
    #[cfg(feature = "extras")]
    pub(crate) fn set_waiter(&self, me: &'static Goroutine<Plat>) {
        self.goroutine.completion.store(core::ptr::from_ref(me).expose_provenance(), Ordering::Relaxed);
    }

    /// The id of the G.
    #[must_use]
    pub fn id(&self) -> GoroutineId {
        self.goroutine.id()
    }

    /// Whether the G has finished, so that [`join`](Self::join) does not block.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        has_result(self.goroutine)
    }

    /// Detaches the G: it keeps running, and its result is dropped.
    #[inline]
    pub fn detach(self) {}

    /// Drops the handle. If the G has already finished, only the caller can drop its result, so this function returns
    /// the result. Otherwise returns `None`, and the G drops its result when it ends.
    pub(crate) fn discard(self) -> Option<Result<T, JoinError>> {
        let mut result = None;
        if !self.detach_running() {
            result = Some(take_result(self.goroutine));
            release_slot(&Pinned::of_scheduler(), self.goroutine);
        }
        core::mem::forget(self);
        result
    }

    /// Drops the result of a G that finished before its handle was dropped. Takes the G instead of the handle, so that
    /// the compiler need not store the handle in memory.
    #[cold]
    #[inline(never)]
    fn drop_result(goroutine: &'static Goroutine<Plat>) {
        /// Releases the slot even if dropping the result panics.
        struct Release<Plat: Platform>(&'static Goroutine<Plat>);
        impl<Plat: Platform> Drop for Release<Plat> {
            fn drop(&mut self) {
                release_slot(&Pinned::of_scheduler(), self.0);
            }
        }
        let _release = Release(goroutine);
        drop(take_result::<T, Plat>(goroutine));
    }

    /// Detaches the G if it has no result yet; returns whether this succeeded.
    #[inline(always)]
    fn detach_running(&self) -> bool {
        Plat::point(Site::Join);
        // Ordering: if the exchange fails, the result is there. Acquire then makes the result, and everything that the
        // G did, visible. Partner: the swap in `finished`.
        self.goroutine.completion.compare_exchange(ATTACHED, DETACHED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Waits for the G to end and returns its result. Blocks the calling G; not callable from interrupts.
    ///
    /// # Errors
    ///
    /// The G ended without a result; the error says how.
    ///
    /// # Panics
    ///
    /// The call has to wait, and the caller is pinned or is not a G with a P.
    #[track_caller]
    pub fn join(self) -> Result<T, JoinError> {
        before_wait::<Plat>();
        let pinned = if has_result(self.goroutine) { Pinned::of_scheduler() } else { self.wait() };
        // The result is there, and only the handle, which this function owns, may take it.
        let result = take_result(self.goroutine);
        release_slot(&pinned, self.goroutine);
        core::mem::forget(self);
        result
    }

    /// Parks until the result is there. The caller is pinned when this function returns.
    #[inline(always)]
    #[track_caller]
    fn wait(&self) -> Pinned<Plat> {
        loop {
            let wait = WaitFor::new(WaitReason::Join, self.goroutine);
            let pinned = park_with(CurrentGoroutine::new(), wait, |_, me| wait_for(self.goroutine, me));
            if has_result(self.goroutine) {
                return pinned;
            }
        }
    }
}

impl<T: Send, Plat: Platform> Drop for JoinHandle<T, Plat> {
    #[inline]
    fn drop(&mut self) {
        if !self.detach_running() {
            Self::drop_result(self.goroutine);
        }
    }
}

impl<T: Send, Plat: Platform> fmt::Debug for JoinHandle<T, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinHandle({})", self.goroutine.id())
    }
}

/// Undoes [`JoinHandle::set_waiter`] for the handle of `me`. `me` is the calling G, the inner G of a coroutine.
#[cfg(feature = "extras")]
pub(crate) fn forget_waiter<Plat: Platform>(me: &'static Goroutine<Plat>) {
    me.completion.store(ATTACHED, Ordering::Relaxed);
}

pub(crate) fn has_result<Plat: Platform>(goroutine: &Goroutine<Plat>) -> bool {
    // Ordering: Acquire, to see the result. Partner: the swap in `finished`.
    matches!(goroutine.completion.load(Ordering::Acquire), RESULT | DONE)
}

/// Registers `waiter`, which has parked and owns the handle, to be readied when the G finishes. Returns `false` if the
/// result is already there.
pub(crate) fn wait_for<Plat: Platform>(goroutine: &Goroutine<Plat>, waiter: &'static Goroutine<Plat>) -> bool {
    let waiter = core::ptr::from_ref(waiter).expose_provenance();
    Plat::point(Site::Join);
    // Ordering: Release publishes the parked context of `waiter` to the G, which readies `waiter` when it finishes.
    // Partner: the Acquire swap in `finished`.
    goroutine.completion.compare_exchange(ATTACHED, waiter, Ordering::Release, Ordering::Relaxed).is_ok()
}

/// Releases the slot on behalf of the handle. If the G has not left its stack yet, leaves the release to the far side
/// of the G's last switch.
#[inline(always)]
pub(crate) fn release_slot<Plat: Platform>(pinned: &Pinned<Plat>, goroutine: &'static Goroutine<Plat>) {
    Plat::point(Site::Join);
    // Ordering: Acquire, so that the G's last steps on its stack happen before the slot is reused here. Partner: the
    // swap in `left`. In most cases the G has left, and this check saves a locked instruction.
    let has_left = goroutine.completion.load(Ordering::Acquire) == DONE;
    // Ordering: Release, so that this caller's reads of the result happen before the far side reuses the slot. If the
    // exchange fails, Acquire, for the same reason as above. Partners: the load and the swap in `left`.
    let far_side_releases_it = !has_left
        && goroutine.completion.compare_exchange(RESULT, DETACHED, Ordering::Release, Ordering::Acquire).is_ok();
    if !far_side_releases_it {
        recycle(pinned, goroutine);
    }
}

/// What is to be done after a G has finished.
#[derive(Debug)]
pub(crate) enum Finished<Plat: Platform> {
    /// The handle was dropped before the G finished, so the G itself owns, and drops, the result.
    Detached,
    /// The handle owns the result.
    Attached,
    /// The G that owns the handle waits for the result, and the caller must ready it.
    Awaited(&'static Goroutine<Plat>),
}

/// Publishes the result of `me`, which has finished, to its handle. The caller is `me`, or acts for it.
#[inline(always)]
pub(crate) fn finished<Plat: Platform>(me: &'static Goroutine<Plat>) -> Finished<Plat> {
    Plat::point(Site::Join);
    // A G that is detached stays so, and most Gs are detached early. This check saves them a locked instruction (2 to 5
    // ns, see `RunQueue::pop`). Ordering: Acquire, so that what was done with the handle happens before the G drops its
    // result.
    if me.completion.load(Ordering::Acquire) == DETACHED {
        return Finished::Detached;
    }
    // Ordering: Release publishes the result to the handle; Acquire makes a joiner's parked context visible.
    match me.completion.swap(RESULT, Ordering::AcqRel) {
        ATTACHED => Finished::Attached,
        DETACHED => {
            // The swap has replaced `DETACHED`, which `left` loads later. So `DETACHED` is stored again. No other G
            // accesses the word any more.
            me.completion.store(DETACHED, Ordering::Relaxed);
            Finished::Detached
        }
        waiter => {
            #[expect(unsafe_code, reason = "turns the word back into the reference it was made from")]
            // SAFETY: only `wait_for` and `set_waiter` store values other than the four constants, and each such value
            // was made from a `&'static Goroutine<Plat>`.
            let waiter = unsafe { &*core::ptr::with_exposed_provenance::<Goroutine<Plat>>(waiter) };
            Finished::Awaited(waiter)
        }
    }
}

/// Records that `me`, the calling G, will have left its stack when its joiner continues, because `me` switches to the
/// joiner. So the far side and the joiner need no exchange to agree which of them releases the slot: the joiner does.
#[inline(always)]
pub(crate) fn switches_to_joiner<Plat: Platform>(me: &'static Goroutine<Plat>) {
    // Ordering: Relaxed, because the joiner, which owns the handle, continues on this M.
    me.completion.store(DONE, Ordering::Relaxed);
}

/// Called on the far side of the G's last switch. Records that the G has left its stack. Returns whether the caller
/// must release the slot.
#[inline(always)]
pub(crate) fn left<Plat: Platform>(goroutine: &'static Goroutine<Plat>) -> bool {
    Plat::point(Site::Join);
    // Ordering: see `release_slot`.
    match goroutine.completion.load(Ordering::Acquire) {
        DETACHED => true,
        // The G has switched to its joiner.
        DONE => false,
        _ => goroutine.completion.swap(DONE, Ordering::AcqRel) == DETACHED,
    }
}
