//! Names the G in the message of a panic, as the standard library names the thread.

use alloc::boxed::Box;
use core::fmt;
use std::io;
use std::os::fd::AsFd;
use std::panic;
use std::sync::Once;
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Native;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::platform::Platform;

/// Installs a panic hook, once per process. The hook prints a line before the message of a panic in a G. The message
/// itself comes from the hook that was set before. A hook that the program sets later replaces both.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    // The standard library refuses to change the hook on a thread that panics. In this case the next call of `run`
    // installs the hook.
    if thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if let Some(goroutine) = Native::current_machine().and_then(Machine::current_goroutine) {
                report(goroutine);
            }
            previous(info);
        }));
    });
}

/// Prints the line with `eprintln`, so that a test harness can capture it. `eprintln` panics if the reader of the error
/// output has closed it, and a panic in a hook would end the process. So this function first checks whether the output
/// can be written.
#[expect(clippy::print_stderr, reason = "a part of the message of a panic")]
fn report(goroutine: &Goroutine<Native>) {
    let stderr = io::stderr();
    let mut output = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let is_writable = poll(&mut output, PollTimeout::ZERO).is_ok() && output[0].revents() == Some(PollFlags::POLLOUT);
    if is_writable {
        std::eprintln!("{} panics:", Named(goroutine));
    }
}

/// Shows a G by its number and name.
pub(super) struct Named<'a>(pub(super) &'a Goroutine<Native>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "goroutine {}", self.0.id())?;
        self.0.name().map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}
