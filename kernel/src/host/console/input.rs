//! Input. A thread reads standard input. The thread is started when the program first asks for input.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, Read as _};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use boot_protocol::console::END_OF_INPUT;
use gmp_sched::platform::OutOfResources;

use crate::host::platform::Kernel;

/// Bytes of standard input that the program has not read yet.
static RECEIVED: Mutex<VecDeque<u8>> = Mutex::new(VecDeque::new());
/// Notified when bytes have been added to [`RECEIVED`].
static ARRIVED: Condvar = Condvar::new();
/// Whether the input has ended. A special byte, which is received once, marks the end of the input. If this byte follows
/// an incomplete line, it also ends that line.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

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

/// Reads the next line of the console's input. Returns the line without its newline, or `None` at the end of the input.
/// Invalid UTF-8 is replaced. Blocks the calling G. Only one G at a time should read.
///
/// # Errors
///
/// If no M can be created to run the other Gs during the call.
///
/// # Panics
///
/// If the caller is not a G.
#[track_caller]
pub fn read_line() -> Result<Option<String>, OutOfResources> {
    let mut line = Vec::new();
    while !HAS_ENDED.load(Ordering::Relaxed) {
        let byte = match try_read() {
            Some(byte) => byte,
            None => gmp_sched::syscall::try_blocking::<Kernel, _>(wait_for_byte)?,
        };
        HAS_ENDED.store(byte == END_OF_INPUT, Ordering::Relaxed);
        match byte {
            END_OF_INPUT if line.is_empty() => return Ok(None),
            b'\n' | b'\r' | END_OF_INPUT => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
            _ => line.push(byte),
        }
    }
    Ok(None)
}

fn wait_for_byte() -> u8 {
    let mut received = received();
    loop {
        if let Some(byte) = received.pop_front() {
            return byte;
        }
        received = ARRIVED.wait(received).unwrap_or_else(PoisonError::into_inner);
    }
}
