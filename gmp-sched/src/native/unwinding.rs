//! Gs that unwind: each stays on its thread, alone, until it no longer does.
//!
//! The standard library counts in a thread-local variable the panics that are under way on a thread. A G whose destructors
//! wait while it unwinds would leave that count to the Gs that run on the thread meanwhile (`thread::panicking()` is true for
//! them, and a mutex that they unlock is poisoned), and would lower the count of another thread when it is through.

use std::thread;

use super::Native;
use crate::entities::goroutine::Status;
use crate::platform::{Pinned, Platform};

/// Locks the calling G to its thread, the first time that it calls the scheduler while it unwinds.
#[cold]
#[inline(never)]
pub(super) fn stay_on_thread() {
    let Some(machine) = Native::current_machine() else { return };
    // On g0 the thread itself ends; in a system call the G is on its thread already.
    let is_running = machine.current_goroutine().is_some_and(|me| me.status() == Status::Running);
    if !is_running || machine.processor().is_none() {
        return;
    }
    if machine.lock_to_unwind().is_err() {
        // Nobody is there to return an error to, and without a thread to take over the other Gs would hang.
        Native::fatal(machine.scheduler(), format_args!("no thread to take over from a G that waits while it unwinds"));
    }
}

/// A body of the calling G has unwound, unless it is one that a destructor runs while the G unwinds.
#[cold]
#[inline(never)]
pub(super) fn ended() {
    if !thread::panicking() {
        let pinned = Pinned::<Native>::new();
        if let Some(machine) = pinned.try_machine() {
            machine.unlock_after_unwinding();
        }
    }
}
