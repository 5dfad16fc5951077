//! The console: standard input and output of the process.
//!
//! Text is written as a whole as soon as it is printed, even without a newline. Writing is a system call, so the other Gs
//! continue while the caller waits for the reader of standard output.

mod input;
#[path = "../../drivers/console/macros.rs"]
mod macros;

use core::fmt;
use core::str;
use core::sync::atomic::{AtomicBool, Ordering};
use std::format;
use std::io::{self, Write as _};

use gmp_sched::goroutine::Status;

use super::platform::Kernel;
use super::{platform, program};

pub use self::input::{read_line, try_read};
pub use crate::{print, println};
pub use boot_protocol::console::SincePowerOn;

/// Whether output goes to the test harness, which shows the output of failed tests only.
static IS_CAPTURED: AtomicBool = AtomicBool::new(false);

/// Sends all further output to the test harness.
pub(super) fn capture() {
    IS_CAPTURED.store(true, Ordering::Relaxed);
}

/// Prints text, which is not mixed with other output.
#[doc(hidden)]
pub fn print(arguments: fmt::Arguments<'_>) {
    match arguments.as_str() {
        Some(text) => write(text.as_bytes()),
        None => write(format!("{arguments}").as_bytes()),
    };
}

/// Prints bytes, which are not mixed with other output. Always returns `true`: if standard output cannot be written, the
/// process ends with status 74, like `boot`.
///
/// Blocks the calling G while standard output takes nothing.
pub fn write(bytes: &[u8]) -> bool {
    // A G in a system call, and a thread that runs no G, write directly, and their thread waits.
    let is_running = platform::goroutine().is_some_and(|goroutine| goroutine.status() == Status::Running);
    if is_running {
        gmp_sched::syscall::syscall::<Kernel, _>(|| send(bytes));
    } else {
        send(bytes);
    }
    true
}

fn send(bytes: &[u8]) {
    if IS_CAPTURED.load(Ordering::Relaxed)
        && let Ok(text) = str::from_utf8(bytes)
    {
        return std::print!("{text}");
    }
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
        program::run::fail(program::run::CANNOT_WRITE, format_args!("cannot write to standard output: {error}"));
    }
}

/// Does nothing and returns `true`, because `write` returns only after everything has been written. Does not block.
pub fn flush() -> bool {
    true
}
