//! Input. A thread reads standard input. The thread is started when the program first asks for input. If the program
//! reads slowly, the thread waits, so the memory for the input is bounded.

use alloc::collections::VecDeque;
use std::io::{self, Read as _};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use boot_protocol::console::END_OF_INPUT;
use gmp_sched::cancel::ContextError;

use super::stdin::InputError;
use crate::host::platform::{self, Kernel, Limit};

/// No bytes are added to [`RECEIVED`] while it contains at least this many bytes.
const CAPACITY: usize = 64 << 10;

/// Bytes of standard input that the program has not read yet.
static RECEIVED: Mutex<VecDeque<u8>> = Mutex::new(VecDeque::new());
/// Notified when bytes have been added to [`RECEIVED`].
static ARRIVED: Condvar = Condvar::new();
/// Notified when the length of [`RECEIVED`] has fallen below [`CAPACITY`]. Only the thread that reads waits for this.
static HAS_ROOM: Condvar = Condvar::new();

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

/// Adds bytes. First waits until there is room.
fn add(bytes: &[u8]) {
    let is_full = |received: &mut VecDeque<u8>| received.len() >= CAPACITY;
    HAS_ROOM.wait_while(received(), is_full).unwrap_or_else(PoisonError::into_inner).extend(bytes);
    ARRIVED.notify_all();
}

/// Takes the next byte, if there is one.
fn take(received: &mut VecDeque<u8>) -> Option<u8> {
    let byte = received.pop_front()?;
    // Bytes are taken one by one, so each fall below the capacity passes this length.
    if received.len() == CAPACITY - 1 {
        HAS_ROOM.notify_one();
    }
    Some(byte)
}

/// Returns the next byte of the input, if one has been received. [`END_OF_INPUT`] is returned like any other byte.
/// Callable from everywhere.
pub fn try_read() -> Option<u8> {
    start();
    take(&mut received())
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
        if let Some(byte) = take(&mut received) {
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
