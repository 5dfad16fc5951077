//! What signals to this process do to it and to the programs that it has started.
//!
//! SIGINT (Ctrl-C on a terminal), SIGTERM and SIGHUP (the terminal was closed) end this process and all its programs at
//! once. There are two exceptions.
//!
//! While a [`DeferredEnd`] exists, the first of these signals only ends the machines. The main thread then sees that
//! the machine has ended, writes what was recorded of the run, and drops the `DeferredEnd`, which ends this process by
//! that signal.
//!
//! If the program on the machine has asked for the first SIGINT, this SIGINT is only passed to the program. At the
//! second SIGINT, and also if the program still runs two seconds after the first, `boot` does what is described above.

use core::mem::{self, MaybeUninit};
use core::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use boot_protocol::input::{INTERRUPT_GRACE, INTERRUPT_KEY, Kind};
use rustix::process::Signal;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::session::Input;
use crate::{host_program, process, temporary, top};

/// Installs signal handlers that also act on every QEMU that this process has started. SIGINT, SIGTERM and SIGHUP end
/// the QEMUs and the other programs that this process has started, remove temporary folders, and then end this process,
/// unless there is a [`DeferredEnd`]. SIGTSTP stops the QEMUs and this process, and SIGCONT continues them. SIGQUIT
/// (Ctrl-\ on a terminal) only makes the machines report their state. This process and the machines continue
/// afterwards.
///
/// Before this process ends or is stopped, the terminal is restored if the [view](crate::top) uses it.
///
/// A signal that this process ignores stays ignored. For example, a shell without job control starts a command in the
/// background with SIGINT and SIGQUIT ignored, so that Ctrl-C does not end it.
///
/// # Errors
///
/// If a signal handler cannot be installed.
pub fn share_signals() -> io::Result<()> {
    let handled =
        [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT].into_iter().filter(|&signal| !is_ignored(signal));
    let mut signals = Signals::new(handled)?;
    thread::spawn(move || signals.forever().for_each(handle));
    Ok(())
}

fn handle(signal: i32) {
    match signal {
        SIGQUIT => process::inject_nmi_into_all(),
        SIGCONT => {
            process::signal_all(Signal::CONT);
            top::resume();
        }
        SIGTSTP => {
            process::signal_all(Signal::STOP);
            top::suspend();
            if emulate_default_handler(signal).is_err() {
                end_now(signal);
            }
        }
        SIGINT if has_interrupted_program() => {}
        _ if is_deferred(signal) => process::signal_all(Signal::KILL),
        _ => end_now(signal),
    }
}

/// The input of the program that has asked for the first SIGINT. `None` if no program has asked, or after the first
/// SIGINT.
static PROGRAM: Mutex<Option<Input>> = Mutex::new(None);

fn program() -> MutexGuard<'static, Option<Input>> {
    // Poisoning is ignored, because the holders of the lock do not panic.
    PROGRAM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, the first SIGINT is passed to the program that receives `input`. The program has asked for this.
pub(crate) fn pass_first_interrupt_to(input: Input) {
    *program() = Some(input);
}

/// Passes a SIGINT to the program, if the program has asked for the first SIGINT and has not received one yet. Returns
/// whether a SIGINT was passed.
fn has_interrupted_program() -> bool {
    let Some(input) = program().take() else { return false };
    let is_sent = input.try_send((Kind::Keys, vec![INTERRUPT_KEY])).is_ok();
    if is_sent {
        thread::spawn(|| {
            thread::sleep(INTERRUPT_GRACE);
            // If the machine has ended, this process is writing what was recorded, and needs no further signal.
            if process::is_any_running() {
                handle(SIGINT);
            }
        });
    }
    is_sent
}

/// Ends the programs that this process has started, prints the output that the view has kept, and then ends this process
/// by `signal`.
fn end_now(signal: i32) -> ! {
    process::kill_all();
    host_program::kill_all();
    temporary::remove_all();
    top::leave();
    // This call returns only if it fails.
    let _ = emulate_default_handler(signal);
    std::process::exit(128 + signal)
}

/// How SIGINT, SIGTERM and SIGHUP end this process.
enum End {
    /// The next signal ends this process.
    AtOnce,
    /// There is a [`DeferredEnd`]. The next signal only ends the machines.
    Deferred,
    /// There is a [`DeferredEnd`], and this signal has ended the machines. The next signal ends this process.
    Due(i32),
}

static END: Mutex<End> = Mutex::new(End::AtOnce);

fn end() -> MutexGuard<'static, End> {
    // Poisoning is ignored, because the holders of the lock do not panic.
    END.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether `signal` is to end only the machines. If so, records this, so that the next signal ends this
/// process.
fn is_deferred(signal: i32) -> bool {
    let mut end = end();
    let is_deferred = matches!(*end, End::Deferred);
    if is_deferred {
        *end = End::Due(signal);
    }
    is_deferred
}

/// While this value exists, the first SIGINT, SIGTERM or SIGHUP ends only the machines, and the second ends this
/// process. If such a signal has come, dropping this value ends this process by that signal.
///
/// The caller must start its machine before it makes this value. Otherwise a signal could come before the machine is
/// started. That signal would end neither this process nor the machine.
#[derive(Debug)]
pub struct DeferredEnd(());

impl DeferredEnd {
    /// Defers the end of this process. The caller ensures that there is no other value of this type.
    #[must_use]
    pub fn begin() -> Self {
        *end() = End::Deferred;
        Self(())
    }

    /// Returns whether a signal has ended the machines.
    #[must_use]
    pub fn is_due(&self) -> bool {
        matches!(*end(), End::Due(_))
    }
}

impl Drop for DeferredEnd {
    fn drop(&mut self) {
        // The lock is released before the process ends. Otherwise a second signal could not end the process at once.
        let end = mem::replace(&mut *end(), End::AtOnce);
        if let End::Due(signal) = end {
            end_now(signal);
        }
    }
}

/// Returns whether this process ignores a signal.
#[expect(unsafe_code, reason = "asks the system for the action of a signal")]
fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` is valid for writes. The null pointer means that the action is not changed.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeros are a valid `sigaction`, and so is the action that the system has written.
    let action = unsafe { action.assume_init() };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
