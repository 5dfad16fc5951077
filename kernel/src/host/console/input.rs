//! Input. A thread reads standard input. The thread is started when the program first asks for input.

use alloc::collections::VecDeque;
use std::io::{self, Read as _};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use boot_protocol::console::END_OF_INPUT;
use gmp_sched::cancel::ContextError;

use super::stdin::InputError;
use crate::host::platform::{self, Kernel, Limit};

/// Bytes of standard input that the program has not read yet.
static RECEIVED: Mutex<VecDeque<u8>> = Mutex::new(VecDeque::new());
/// Notified when bytes have been added to [`RECEIVED`].
static ARRIVED: Condvar = Condvar::new();

/// Locks [`RECEIVED`]. Poisoning is ignored, because nothing panics while the lock is held.
fn received() -> MutexGuard<'static, VecDeque<u8>> {
    RECEIVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that reads. If the thread cannot be started, the input ends at once.
fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        if thread::Builder::new().name("input".into()).spawn(receive).is_err() {
            add(&[END_OF_INPUT]);
        }
    });
}

fn receive() {
    let mut bytes = [0; 4096];
    loop {
        match io::stdin().lock().read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => add(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The input also ends after any other error, for example if the terminal is gone.
            Err(_) => break,
        }
    }
    add(&[END_OF_INPUT]);
}

fn add(bytes: &[u8]) {
    received().extend(bytes);
    ARRIVED.notify_all();
}

/// Returns the next byte of the input, if one has been received. [`END_OF_INPUT`] is returned like any other byte.
/// Callable from everywhere.
pub fn try_read() -> Option<u8> {
    start();
    received().pop_front()
}

/// Does nothing. In the kernel, the function of the same name prepares the stack of the caller.
pub(super) fn touch_stack_ahead() {}

/// Waits for the next byte of the input, and returns it. [`END_OF_INPUT`] is returned like any other byte. Blocks the
/// calling G and its M.
///
/// # Errors
/// - The limit ends the wait.
/// - No M can be created to run the other Gs during the call.
/// - The limit has a context, and there is no memory to register the function that runs when the context is done.
#[track_caller]
pub(super) fn wait_for_byte(limit: &Limit<'_>) -> Result<u8, InputError> {
    if let Some(byte) = try_read() {
        return Ok(byte);
    }
    // When the context of the limit is done, this closure wakes the thread that waits. While the closure holds the
    // lock, the thread cannot be between its check of the limit and its wait. So the wakeup is not lost.
    let woken = limit.when_context_is_done(|| {
        let _received = received();
        ARRIVED.notify_all();
    })?;
    let byte = gmp_sched::syscall::try_blocking::<Kernel, _>(|| wait(limit));
    if let Some(woken) = woken {
        woken.stop();
    }
    byte?.map_err(InputError::Limit)
}

fn wait(limit: &Limit<'_>) -> Result<u8, ContextError> {
    let mut received = received();
    loop {
        if let Some(byte) = received.pop_front() {
            return Ok(byte);
        }
        if let Some(error) = limit.err() {
            return Err(error);
        }
        let rest = limit.deadline().duration_since(platform::now());
        received = match ARRIVED.wait_timeout(received, rest) {
            Ok((received, _)) => received,
            Err(poisoned) => poisoned.into_inner().0,
        };
    }
}
