//! Names the G in the message of a panic, as the standard library names the thread.

use alloc::boxed::Box;
use core::fmt;
use std::io;
use std::os::fd::AsFd;
use std::panic;
use std::sync::Once;
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::write;

use super::{Native, current};
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::platform::Platform;

/// Installs a panic hook, once per process. If a G panics, this hook prints a line that names the G, and then calls the
/// hook that was set before, which prints the message of the panic. A hook that the program sets later replaces both
/// hooks.
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
            // The pins belong to the program, or are about to be lowered by the unwinding. While the G prints, it may have to
            // wait for a G that is preempted.
            current::unpinned(|| {
                let machine = Native::current_machine();
                if let Some(goroutine) = machine.and_then(Machine::current_goroutine) {
                    report(format_args!("{} panics:", Named(goroutine)));
                } else if let Some(parks) = machine.and_then(Machine::committing) {
                    report(format_args!("the commit of the park of {} panics:", Named(parks)));
                }
                previous(info);
            });
        }));
    });
}

/// Prints the `line` that names the panicking G. It is printed with `eprintln`, so that a test harness can capture
/// it. `eprintln` panics if nothing can be written to standard error, for example because the other end of a pipe is
/// closed, or the disk is full. A panic in a hook would end the process. So this function first checks whether
/// standard error is writable.
#[expect(clippy::print_stderr, reason = "a part of the message of a panic")]
fn report(line: fmt::Arguments<'_>) {
    if is_error_output_writable() {
        std::eprintln!("{line}");
    }
}

/// Whether a short text can be written to standard error at once. Takes no lock.
pub(super) fn is_error_output_writable() -> bool {
    let stderr = io::stderr();
    let mut output = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    poll(&mut output, PollTimeout::ZERO).is_ok()
        && output[0].revents() == Some(PollFlags::POLLOUT)
        // A file is always ready, even if its disk is full. Pipes, sockets and terminals are on file systems that have no
        // blocks.
        && fstatvfs(&stderr).map_or(true, |disk| disk.blocks() == 0 || disk.blocks_available() > 0)
        // A full device refuses even an empty write.
        && write(&stderr, &[]).is_ok()
}

/// Displays a G as its number and, if it has one, its name.
pub(super) struct Named<'a>(pub(super) &'a Goroutine<Native>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "goroutine {}", self.0.id())?;
        self.0.name().map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}
