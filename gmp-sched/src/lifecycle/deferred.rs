//! What a G does when it is abandoned, instead of running the destructors in its frames. Go: deferred calls.
//!
//! A G that is [abandoned](crate::exit::abandon) never returns from its frames, so no destructor in them runs. Two
//! kinds of frames must be ended nevertheless, because other Gs depend on them: an open scope, whose children borrow
//! from the frames, and the function of a [`Once`](crate::sync::Once), for which other Gs wait. Each such frame
//! contains an entry of a list that belongs to its G. The entry of the innermost frame is the first of the list.

use crate::base::atomic::Ordering;
use crate::entities::goroutine::Goroutine;
use crate::platform::{Pinned, Platform};

/// What a G does when it is abandoned inside of [`with`].
pub(crate) trait Deferred {
    /// Called by the abandoned G, on its stack or on another one. May block.
    fn run(&self);
}

/// An entry in the list of the G whose frame contains it.
struct Entry<'a> {
    deferred: &'a dyn Deferred,
    /// The address of the next entry, or 0.
    outer: usize,
}

/// Calls `body`. If `me`, the calling G, is abandoned before `body` ends, the G runs `deferred` before the G ends.
#[inline(always)]
pub(crate) fn with<Plat: Platform, R>(
    me: &'static Goroutine<Plat>,
    deferred: &dyn Deferred,
    body: impl FnOnce() -> R,
) -> R {
    /// Removes the entry when `body` returns or unwinds.
    struct Remove<Plat: Platform>(&'static Goroutine<Plat>, usize);
    impl<Plat: Platform> Drop for Remove<Plat> {
        #[inline(always)]
        fn drop(&mut self) {
            self.0.deferred.store(self.1, Ordering::Relaxed);
        }
    }
    let outer = me.deferred.load(Ordering::Relaxed);
    let entry = Entry { deferred, outer };
    me.deferred.store(core::ptr::from_ref(&entry).expose_provenance(), Ordering::Relaxed);
    let _remove = Remove(me, outer);
    body()
}

/// Runs everything that the calling G has deferred, the innermost first. Called when the G is about to be abandoned.
pub(crate) fn run_all<Plat: Platform>() {
    let me = Pinned::<Plat>::of_scheduler().goroutine();
    loop {
        let first = core::ptr::with_exposed_provenance::<Entry<'_>>(me.deferred.load(Ordering::Relaxed));
        #[expect(unsafe_code, reason = "converts an address back into the reference that it was made from")]
        // SAFETY: the address is 0, or `with` stored it from a reference into a frame of the calling G. That frame
        // still exists, because `with` removes the address before it returns or unwinds. For the same reason, what the
        // entry borrows still exists.
        let Some(entry) = (unsafe { first.as_ref() }) else { return };
        entry.deferred.run();
        me.deferred.store(entry.outer, Ordering::Relaxed);
    }
}
