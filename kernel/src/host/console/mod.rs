//! The console: standard input, output and error of the process.
//!
//! Text is written to standard output as soon as it is printed, even if it ends without a newline. Writing is a system
//! call of the calling G. So other Gs run while the caller waits for the reader of standard output.

mod input;
mod interrupt;
#[path = "../../drivers/console/macros.rs"]
mod macros;
#[path = "../../drivers/console/stdin.rs"]
mod stdin;

use core::fmt;
use core::str;
use core::sync::atomic::{AtomicBool, Ordering};
use std::format;
use std::io::{self, IsTerminal as _, Write as _};

use boot_protocol::kernel_option::{STDERR, STDERR_TERMINAL};
use gmp_sched::goroutine::Status;
use gmp_sched::native;

use super::platform::Kernel;
use super::program::args;
use super::{platform, program};

pub use self::input::try_read;
pub(crate) use self::interrupt::wait_for_interrupt;
pub use self::stdin::{InputError, Lines, Stdin, stdin};
pub use crate::{eprint, eprintln, print, println};
pub use boot_protocol::console::SincePowerOn;
pub use boot_protocol::input::Input;

/// Whether output goes to the test harness, which shows only the output of failed tests.
static IS_CAPTURED: AtomicBool = AtomicBool::new(false);

/// Sends all further output to the test harness, except bytes that are not valid UTF-8.
pub(super) fn capture() {
    IS_CAPTURED.store(true, Ordering::Relaxed);
}

/// Whether standard error is a terminal, on which a program can show its progress. If the kernel option `stderr` is
/// given, only its value decides. Callable from everywhere.
#[must_use]
pub fn stderr_is_terminal() -> bool {
    match args::option(STDERR) {
        Some(value) => value == STDERR_TERMINAL,
        None => io::stderr().is_terminal(),
    }
}

/// Prints text. The text is not mixed with other output.
#[doc(hidden)]
pub fn print(arguments: fmt::Arguments<'_>) {
    match arguments.as_str() {
        Some(text) => write(text.as_bytes()),
        None => write(format!("{arguments}").as_bytes()),
    };
}

/// Prints text to standard error. The text is not mixed with other output.
#[doc(hidden)]
pub fn eprint(arguments: fmt::Arguments<'_>) {
    let text = format!("{arguments}");
    block(|| send_to_errors(&text));
}

/// Prints bytes, which are not mixed with other output. Always returns `true`.
///
/// If standard output cannot be written, for example because a disk is full, the process ends with status 74, as `boot`
/// does. If it is a pipe that nobody reads any more, the signal SIGPIPE ends the process (a shell shows status 141),
/// unless the process was started with this signal ignored.
///
/// Blocks the calling G while the reader of standard output accepts no bytes.
pub fn write(bytes: &[u8]) -> bool {
    block(|| send(bytes));
    true
}

/// Calls `send` in a system call of the calling G, so that other Gs run meanwhile. In three cases calls `send`
/// directly, so that the thread waits: the calling G is already in a system call, the calling G must not wait, or the
/// thread runs no G.
pub(super) fn block(send: impl FnOnce()) {
    let is_running = platform::goroutine().is_some_and(|goroutine| goroutine.status() == Status::Running);
    if is_running && native::may_wait() {
        gmp_sched::syscall::syscall::<Kernel, _>(send);
    } else {
        send();
    }
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

fn send_to_errors(text: &str) {
    if IS_CAPTURED.load(Ordering::Relaxed) {
        return std::eprint!("{text}");
    }
    // An error is ignored, because there is no other way to report it.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Does nothing and returns `true`, because [`write()`] returns only when everything has been written. Does not block.
pub fn flush() -> bool {
    true
}
