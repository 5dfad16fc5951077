//! Input. A thread reads standard input. The thread is started when the program first asks for input. If the program
//! reads slowly, the thread waits, so the memory for the input is bounded.
//!
//! As on the machine, the bytes of a pipe or file are all input, and a terminal sends keys. There is no report for the
//! inspection key: the system's debuggers show what a process does.

use alloc::collections::VecDeque;
use std::io::{self, IsTerminal as _, Read as _};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use boot_protocol::input::{INTERRUPT_KEY, Input, Keys, Received as Key};
use gmp_sched::cancel::ContextError;

use super::stdin::InputError;
use crate::host::note::report;
use crate::host::platform::{self, Kernel, Limit};

/// No bytes are added to [`RECEIVED`] while it contains at least this many bytes.
const CAPACITY: usize = 64 << 10;

struct Received {
    /// Bytes that the program has not read yet.
    bytes: VecDeque<u8>,
    /// How the input has ended, if it has.
    end: Option<Input>,
}

/// What the program has not read yet.
static RECEIVED: Mutex<Received> = Mutex::new(Received { bytes: VecDeque::new(), end: None });
/// Notified when something has been added to [`RECEIVED`].
static ARRIVED: Condvar = Condvar::new();
/// Notified when the number of bytes in [`RECEIVED`] has fallen below [`CAPACITY`]. Only the thread that reads waits
/// for this.
static HAS_ROOM: Condvar = Condvar::new();

/// Locks [`RECEIVED`]. Poisoning is ignored, because nothing panics while the lock is held.
fn received() -> MutexGuard<'static, Received> {
    RECEIVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that reads. If the thread cannot be started, the input cannot be read.
fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        if thread::Builder::new().name("input".into()).spawn(receive).is_err() {
            end(Input::Failed);
        }
    });
}

fn receive() {
    let mut bytes = [0; 4096];
    let mut keys = io::stdin().is_terminal().then(Keys::new);
    loop {
        match io::stdin().lock().read(&mut bytes) {
            Ok(0) => return end(Input::End),
            Ok(count) => match &mut keys {
                Some(keys) => press(keys, &bytes[..count]),
                None => add(&bytes[..count]),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                report(format_args!("cannot read standard input: {error}"));
                return end(Input::Failed);
            }
        }
    }
}

/// Adds the bytes for which keys stand.
fn press(keys: &mut Keys, pressed: &[u8]) {
    for key in pressed.iter().filter_map(|&key| keys.press(key)) {
        match key {
            Key::Input(Input::Byte(byte)) => add(&[byte]),
            Key::Input(how) => end(how),
            // The terminal makes a signal of Ctrl-C. If it does not, the program has asked for all keys.
            Key::Interrupt => add(&[INTERRUPT_KEY]),
            Key::Inspect => {}
        }
    }
}

/// Adds bytes, if the input has not ended. First waits until there is room.
fn add(bytes: &[u8]) {
    let is_full = |received: &mut Received| received.bytes.len() >= CAPACITY;
    let mut received = HAS_ROOM.wait_while(received(), is_full).unwrap_or_else(PoisonError::into_inner);
    if received.end.is_none() {
        received.bytes.extend(bytes);
    }
    drop(received);
    ARRIVED.notify_all();
}

/// Ends the input, if it has not ended.
fn end(how: Input) {
    received().end.get_or_insert(how);
    ARRIVED.notify_all();
}

/// Takes the next byte, if there is one. If there is none and the input has ended, returns the end.
fn take(received: &mut Received) -> Option<Input> {
    let Some(byte) = received.bytes.pop_front() else { return received.end };
    // Bytes are taken one by one, so whenever the length falls below the capacity, it has this value once.
    if received.bytes.len() == CAPACITY - 1 {
        HAS_ROOM.notify_one();
    }
    Some(Input::Byte(byte))
}

/// Returns the next byte of the input, if one has been received. After the end of the input, each call returns the end.
/// Callable from everywhere.
pub fn try_read() -> Option<Input> {
    start();
    take(&mut received())
}

/// Does nothing. In the kernel, the function of the same name prepares the stack of the caller.
pub(super) fn touch_stack_ahead() {}

/// Waits for the next byte or the end of the input, and returns it. Blocks the calling G and its M.
///
/// # Errors
/// - The limit ends the wait.
/// - No M can be created to run the other Gs during the call.
/// - The limit has a context, and there is no memory to register the function that runs when the context is done.
#[track_caller]
pub(super) fn wait_for_input(limit: &Limit<'_>) -> Result<Input, InputError> {
    if let Some(input) = try_read() {
        return Ok(input);
    }
    // When the context of the limit is done, this closure wakes the thread that waits. While the closure holds the
    // lock, the thread cannot be between its check of the limit and its wait. So the wakeup is not lost.
    let woken = limit.when_context_is_done(|| {
        let _received = received();
        ARRIVED.notify_all();
    })?;
    let input = gmp_sched::syscall::try_blocking::<Kernel, _>(|| wait(limit));
    if let Some(woken) = woken {
        woken.stop();
    }
    input?.map_err(InputError::Limit)
}

fn wait(limit: &Limit<'_>) -> Result<Input, ContextError> {
    let mut received = received();
    loop {
        if let Some(input) = take(&mut received) {
            return Ok(input);
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
