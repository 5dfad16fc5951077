//! What an M knows of the G locked to it; see [`crate::engine::lock_os_thread`].

use crate::base::atomic::{AtomicBool, AtomicU32};
use crate::base::reference::AtomicRef;
use crate::entities::goroutine::Goroutine;
use crate::platform::Platform;

/// What an M knows of the G locked to it.
#[derive(Debug)]
pub(crate) struct Locked<P: Platform> {
    /// Go: `m.lockedg`.
    pub(crate) goroutine: AtomicRef<Goroutine<P>>,
    /// How often. Go: `lockedExt`.
    pub(crate) depth: AtomicU32,
    /// Once of that because the G unwinds. See `Machine::lock_to_unwind`.
    pub(crate) unwinds: AtomicBool,
    /// It waits for a P, and is counted in [`Shared::idle_locked`](crate::entities::scheduler::Shared::idle_locked). Guarded by the scheduler lock.
    pub(crate) waits: AtomicBool,
}

impl<P: Platform> Locked<P> {
    pub(crate) fn new() -> Self {
        Self {
            goroutine: AtomicRef::none(),
            depth: AtomicU32::new(0),
            unwinds: AtomicBool::new(false),
            waits: AtomicBool::new(false),
        }
    }
}
