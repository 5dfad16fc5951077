//! A thread that makes Ms for code that must not make them itself.
//!
//! A G that is preempted may hold a lock of the C library. The code that passes Ps on must not wait for that lock. So
//! while Gs are preempted, sysmon and the handler of the signal make no Ms. They ask this thread, which may wait.

use std::sync::Mutex;
use std::thread;

use super::park::Thread;
use super::{lock, pool, preempt};
use crate::engine::hooks::make_spare_machine;

/// What the thread waits for.
static REQUEST: Thread = Thread::new();

/// Starts the thread, if this is the first call.
///
/// # Panics
///
/// There is no thread.
#[track_caller]
pub(super) fn start() {
    static IS_STARTED: Mutex<bool> = Mutex::new(false);
    let mut is_started = lock(&IS_STARTED);
    if !*is_started {
        thread::Builder::new().name("spare Ms".into()).spawn(make_spares).expect("a thread that makes Ms");
        *is_started = true;
    }
}

/// Asks the thread for one more M for each scheduler that has no more Ms than it needs. Returns `false` if Gs are not
/// preempted, so that the caller may make the M itself. Async-signal-safe.
pub(super) fn request() -> bool {
    let is_on = preempt::is_on();
    if is_on {
        REQUEST.unpark();
    }
    is_on
}

fn make_spares() {
    loop {
        REQUEST.park(None);
        pool::for_each_in_use(make_spare_machine);
    }
}
