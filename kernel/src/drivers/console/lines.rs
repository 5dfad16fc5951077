//! Reads lines. Reading is a system call that blocks until a line has been received.

use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use boot_protocol::console::END_OF_INPUT;
use gmp_sched::platform::OutOfResources;

use super::input::try_read;
use super::received;
use crate::cpu::sync::InterruptMutex;
use crate::sched::blocking::block;
use crate::sched::kthread::KernelThread;

/// Whether the input has ended. A special byte, which is received once, marks the end of the input. If this byte follows
/// an incomplete line, it also ends that line.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// The thread that waits for input. At most one thread waits at a time.
static READER: InterruptMutex<Option<&'static KernelThread>> = InterruptMutex::new(None);

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
    received::set_waker(wake_reader);
    let mut line = Vec::new();
    while !HAS_ENDED.load(Ordering::Relaxed) {
        let byte = match try_read() {
            Some(byte) => byte,
            None => wait_for_byte()?,
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

fn wait_for_byte() -> Result<u8, OutOfResources> {
    let mut byte = None;
    block(|blocked| {
        *READER.lock() = Some(blocked.thread());
        blocked.wait_until(|| {
            byte = try_read();
            byte.is_some()
        });
        *READER.lock() = None;
    })?;
    Ok(byte.expect("waited until there is one"))
}

/// Unparks the thread that waits for input, if there is one. Called by the port's interrupt handler.
fn wake_reader() {
    if let Some(reader) = *READER.lock() {
        reader.unpark();
    }
}
