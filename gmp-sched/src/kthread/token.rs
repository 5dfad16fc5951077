//! The park token: one bit that records an unpark of a thread. So an unpark is not lost if it comes between the
//! thread's decision to park and the park itself.

use core::fmt;
use core::marker::PhantomData;

use crate::base::atomic::{AtomicU8, Ordering};
use crate::base::points::{Points, Site};

/// The thread runs or is ready and has no token.
const RUNNING: u8 = 0;
/// The thread has a token, so its next park returns at once.
const NOTIFIED: u8 = 1;
/// The thread's context is saved. The thread becomes ready when it gets the token.
const PARKED: u8 = 2;

/// A thread's park state.
pub(crate) struct Token<S: Points> {
    state: AtomicU8,
    _points: PhantomData<fn() -> S>,
}

impl<S: Points> Token<S> {
    /// Returns the token of a new thread, which is parked. So the first unpark starts the thread.
    pub(crate) fn parked() -> Self {
        Self { state: AtomicU8::new(PARKED), _points: PhantomData }
    }

    /// Whether the thread is parked, so that it is on no ready list.
    #[cfg(feature = "std")]
    pub(crate) fn is_parked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == PARKED
    }

    /// Consumes the token, if there is one; returns whether there was one. Called by the thread itself.
    pub(crate) fn take(&self) -> bool {
        S::point(Site::Park);
        // Ordering: Acquire; partner: the Release in `give`. The thread sees what the giver did before it gave the
        // token.
        self.state.compare_exchange(NOTIFIED, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The commit of a park, called after the thread's context has been saved. Returns `true` if the thread is parked
    /// now. If there is a token, consumes it and returns `false`; the caller must then make the thread ready.
    pub(crate) fn commit_park(&self) -> bool {
        S::point(Site::Park);
        // Ordering: Release publishes the saved context to the giver of the token. The giver then makes the thread
        // ready.
        if self.state.compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Relaxed).is_ok() {
            return true;
        }
        // Ordering: Acquire, as in `take`.
        self.state.swap(RUNNING, Ordering::Acquire);
        false
    }

    /// Gives the token. Returns `true` if the thread was parked. The caller must then make the thread ready. Callable
    /// from interrupts.
    pub(crate) fn give(&self) -> bool {
        loop {
            S::point(Site::Park);
            let state = self.state.load(Ordering::Relaxed);
            let next = if state == PARKED { RUNNING } else { NOTIFIED };
            // Ordering: Release makes the giver's earlier writes visible to the thread. Acquire makes the saved context
            // visible to the giver. The exchange is necessary even if the thread already has the token, because the
            // thread that consumes the token must also see the writes of this giver.
            if self.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return state == PARKED;
            }
        }
    }
}

impl<S: Points> fmt::Debug for Token<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state.load(Ordering::Relaxed) {
            RUNNING => "Running",
            NOTIFIED => "Notified",
            _ => "Parked",
        })
    }
}
