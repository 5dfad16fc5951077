//! While a G unwinds, it is locked to its thread.
//!
//! For each thread, the standard library counts the panics that are under way, in a thread-local variable. Suppose that
//! a G whose destructors wait during unwinding could migrate to another thread. At the end of the unwinding, the G
//! would decrement the count of the new thread and not that of the old one. So for the Gs that run on the old thread
//! next, `thread::panicking()` would be true, and mutexes that they unlock would be poisoned.

use std::thread;

use super::{Native, current};
use crate::engine::hooks;
use crate::platform::{Pinned, Platform};

/// Called if a G may be about to leave a thread that unwinds. The first call by an unwinding G locks the G to its
/// thread.
#[cold]
#[inline(never)]
pub(super) fn stay_on_thread() {
    let Some(machine) = Native::current_machine() else { return };
    // If g0 unwinds, the thread is about to end, and no G unwinds.
    if machine.current_goroutine().is_none() {
        return;
    }
    // If an M has to be made, the G must not be pinned, because the allocator may wait for a preempted G.
    if current::unpinned(|| hooks::stay_to_unwind(machine)).is_err() {
        // No error can be returned here. Without another thread that takes over the P, the other Gs would hang. So the
        // process ends.
        Native::fatal(machine.scheduler(), format_args!("no thread to take over from a G that waits while it unwinds"));
    }
}

/// Called when [`Platform::run_body`] has caught a panic. Unlocks the calling G. However, if a destructor called
/// `run_body` and the G itself still unwinds, does nothing.
#[cold]
#[inline(never)]
pub(super) fn ended() {
    if !thread::panicking() {
        let pinned = Pinned::<Native>::of_scheduler();
        if let Some(machine) = pinned.try_machine() {
            hooks::unlock_after_unwinding(machine);
        }
    }
}
