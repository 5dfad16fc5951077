//! Threads of Ms that are made by the standard library, and that have not begun yet.
//!
//! Before a new thread runs code of this crate, the C library and the standard library run on it, and may wait for a lock
//! that a preempted G holds, such as that of the dynamic linker. If the M of that thread were idle already, it could be
//! assigned the P of that G, and neither of the two would ever continue. So while Gs are preempted, an M is put into use
//! only when its thread has begun.

use core::sync::atomic::{AtomicU32, Ordering};
use std::format;
use std::thread;

use super::overflow::AlternateStack;
use super::park::{self, Thread};
use super::platform::run_machine;
use super::{Native, preempt};
use crate::base::error::OutOfResources;
use crate::entities::machine::NewMachine;

/// The number of threads that have been made, or are about to be made, and have not begun.
static STARTING: AtomicU32 = AtomicU32::new(0);

/// Makes the thread of an M. While Gs are preempted, returns when the thread has begun.
pub(super) fn start(
    machine: NewMachine<Native>,
    token: &'static Thread,
    alternate: Option<AlternateStack>,
) -> Result<(), OutOfResources> {
    let name = format!("M{}", machine.machine().id().get());
    // Ordering: SeqCst, so that either `wait` of the caller of `preempt::set_preemption` sees this thread, or the maker
    // of this thread sees afterwards that Gs are preempted, and waits itself. Partners: the store of `set_preemption`,
    // and its load in `wait`.
    STARTING.fetch_add(1, Ordering::SeqCst);
    let body = move || run_machine(machine, token, alternate, has_begun);
    if thread::Builder::new().name(name).spawn(body).is_err() {
        has_begun();
        return Err(OutOfResources);
    }
    if preempt::is_on() {
        wait();
    }
    Ok(())
}

/// Called by the new thread when it needs no lock of a library any more, or if the thread could not be made.
fn has_begun() {
    // Ordering: Release; partner: the load in `wait`.
    if STARTING.fetch_sub(1, Ordering::Release) == 1 {
        park::wake_all(&STARTING);
    }
}

/// Waits until all threads that were made before have begun. The caller is not pinned, or holds no P.
pub(super) fn wait() {
    loop {
        let starting = STARTING.load(Ordering::SeqCst);
        if starting == 0 {
            return;
        }
        park::wait(&STARTING, starting, None);
    }
}
