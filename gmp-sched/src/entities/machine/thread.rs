//! The two ends of the thread of an M, which the platform starts and ends.

use super::Machine;
use crate::platform::Platform;

/// The right to become the thread of an M that has no thread.
///
/// The scheduler passes it to [`Platform::start_thread`], and the thread created there consumes it by
/// [`run`](NewMachine::run). There is no other way to obtain it, so an M has at most one thread at a time.
#[derive(Debug)]
#[must_use = "the M runs nothing until its thread calls `run`"]
pub struct NewMachine<Plat: Platform>(&'static Machine<Plat>);

impl<Plat: Platform> NewMachine<Plat> {
    /// Returns the right to run `machine`, for the new thread. Called once for each attempt to start a thread for this
    /// M.
    pub(crate) fn new(machine: &'static Machine<Plat>) -> Self {
        Self(machine)
    }

    /// The M that gets the new thread.
    #[must_use]
    pub fn machine(&self) -> &'static Machine<Plat> {
        self.0
    }

    /// Whether the M is in use, so that its thread may call [`run`](NewMachine::run). On a platform on which idle Ms
    /// end, a new thread parks until this returns `true`. An unpark alone is not enough there, because the token may
    /// have been set for an earlier thread of the M. Callable from anywhere.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.0.is_retired()
    }

    /// Converts the right to a word, for platforms that pass a single word to a new thread. The thread converts the
    /// word back by [`from_raw`](NewMachine::from_raw).
    #[must_use]
    pub fn into_raw(self) -> usize {
        core::ptr::from_ref(self.0).expose_provenance()
    }

    /// Undoes [`into_raw`](NewMachine::into_raw): turns `word` back into the right to run the M.
    ///
    /// # Safety
    ///
    /// `word` was returned by `into_raw` on the same platform, and is converted back only once.
    #[expect(unsafe_code, reason = "turns a word back into the reference it was made from")]
    pub unsafe fn from_raw(word: usize) -> Self {
        // SAFETY: the caller guarantees that `into_raw` made the word, so it is the address of an M, and Ms are never
        // freed.
        Self(unsafe { &*core::ptr::with_exposed_provenance::<Machine<Plat>>(word) })
    }
}

/// An M whose thread is about to end. The scheduler passes it to [`Platform::exit_thread`].
#[derive(Debug)]
pub struct EndedMachine<Plat: Platform>(&'static Machine<Plat>);

impl<Plat: Platform> EndedMachine<Plat> {
    pub(crate) fn new(machine: &'static Machine<Plat>) -> Self {
        Self(machine)
    }

    /// The M whose thread is about to end.
    #[must_use]
    pub fn machine(&self) -> &'static Machine<Plat> {
        self.0
    }

    /// Converts the value to a word, for platforms whose threads end on the far side of a switch. That side converts
    /// the word back by [`from_raw`](EndedMachine::from_raw).
    #[must_use]
    pub fn into_raw(self) -> usize {
        core::ptr::from_ref(self.0).expose_provenance()
    }

    /// Undoes [`into_raw`](EndedMachine::into_raw).
    ///
    /// # Safety
    ///
    /// `word` was returned by `into_raw` on the same platform, and is converted back only once.
    #[expect(unsafe_code, reason = "turns a word back into the reference it was made from")]
    pub unsafe fn from_raw(word: usize) -> Self {
        // SAFETY: the caller guarantees that `into_raw` made the word, so it is the address of an M, and Ms are never
        // freed.
        Self(unsafe { &*core::ptr::with_exposed_provenance::<Machine<Plat>>(word) })
    }
}
