//! The park token: one bit that says "go on", which is not lost however it falls between deciding to park and being
//! parked.

use core::fmt;
use core::marker::PhantomData;

use crate::base::atomic::{AtomicU8, Ordering};
use crate::platform::{Points, Site};

/// The thread runs, or is ready to, and has no token.
const RUNNING: u8 = 0;
/// It has a token: its next park returns at once.
const NOTIFIED: u8 = 1;
/// Its context is saved; it runs again when it is given the token.
const PARKED: u8 = 2;

/// A thread's park state.
pub(crate) struct Token<S: Points> {
    state: AtomicU8,
    _points: PhantomData<fn() -> S>,
}

impl<S: Points> Token<S> {
    /// Of a thread that has been created and waits to be started by its first token.
    pub(crate) fn parked() -> Self {
        Self { state: AtomicU8::new(PARKED), _points: PhantomData }
    }

    /// By the thread itself: uses the token up if it is there; tells whether it was.
    pub(crate) fn take(&self) -> bool {
        S::point(Site::Park);
        // Ordering: Acquire; partner: the Release in `give`. What the giver did before is seen by the thread.
        self.state.compare_exchange(NOTIFIED, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// On the far side of the thread's switch: its context is saved. Tells `false` if the token is there, and then uses
    /// it up: the thread has to be made ready.
    pub(crate) fn commit_park(&self) -> bool {
        S::point(Site::Park);
        // Ordering: Release publishes the saved context to whoever gives the token and makes the thread ready.
        if self.state.compare_exchange(RUNNING, PARKED, Ordering::Release, Ordering::Relaxed).is_ok() {
            return true;
        }
        // Ordering: Acquire, as in `take`.
        self.state.swap(RUNNING, Ordering::Acquire);
        false
    }

    /// By anyone, also from an interrupt: gives the token. Tells `true` if the thread was parked: the caller, and nobody
    /// else, makes it ready.
    pub(crate) fn give(&self) -> bool {
        loop {
            S::point(Site::Park);
            let state = self.state.load(Ordering::Relaxed);
            let next = if state == PARKED { RUNNING } else { NOTIFIED };
            // Ordering: Release: what was done before is seen by the thread; Acquire: its saved context is seen by us.
            // An exchange also where the token is there already: the thread that takes it must see what we did.
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
