//! The life of a QEMU process, which ends when the `boot` that started it ends. On systems other than Linux, there are
//! exceptions.
//!
//! QEMU runs in a process group of its own. So Ctrl-C reaches only `boot`, which then ends QEMU and itself (see
//! [`signals`](crate::signals)). On Linux, the operating system ends QEMU if `boot` ends in any other way, even by
//! SIGKILL. On other operating systems, QEMU continues to run if `boot` is ended by a signal that it does not handle,
//! such as SIGKILL.

use core::error::Error as StdError;
use core::mem::ManuallyDrop;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getpid};

use crate::Error;
use crate::listed_child::{List, ListedChild, lock, send_to_all};
use crate::monitor::Monitor;
use crate::qemu::{OLDEST_QEMU, QEMU};

/// The process ids of the running QEMUs, and the monitor of each of them.
static RUNNING: List<Monitor> = List::new(BTreeMap::new());

/// A QEMU process. Dropping it ends QEMU.
#[derive(Debug)]
pub struct Process {
    child: ListedChild<Monitor>,
    monitor: Monitor,
    /// The thread that receives the events of the monitor. `None` after [`wait`](Self::wait) has joined the thread.
    listening: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts QEMU with `arguments`. QEMU inherits the `files`, with the same file descriptors. Returns the process,
    /// and the pipes for the output and the input of the console.
    ///
    /// # Errors
    ///
    /// [`Error::Qemu`] if QEMU is not installed or cannot be started.
    pub fn start(arguments: &[OsString], files: Vec<File>) -> Result<(Self, ChildStdout, ChildStdin), Error> {
        Self::start_with(arguments, files, Stdio::inherit())
    }

    /// Like [`start`](Self::start). `messages` is where the messages of QEMU go.
    pub(crate) fn start_with(
        arguments: &[OsString],
        files: Vec<File>,
        messages: Stdio,
    ) -> Result<(Self, ChildStdout, ChildStdin), Error> {
        let cannot = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Error::Qemu(format!("{QEMU} is not installed: run ./setup")),
            _ => Error::Qemu(format!("{QEMU} cannot be started: {error}")),
        };
        let (ours, theirs) = UnixStream::pair().map_err(cannot)?;
        let (monitor, listening) = Monitor::new(ours).map_err(cannot)?;
        let mut command = Command::new(QEMU);
        command.args(arguments);
        command.args([
            "-chardev",
            &format!("socket,id=monitor,fd={}", theirs.as_raw_fd()),
            "-mon",
            "monitor,mode=control",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(messages).process_group(0);
        prepare(&mut command, files.into_iter().map(OwnedFd::from).chain([theirs.into()]).collect());
        let mut child = spawn(command).map_err(cannot)?;
        let output = child.stdout.take().expect("asked for a pipe");
        let input = child.stdin.take().expect("asked for a pipe");
        let child = ListedChild::new(child, &RUNNING, monitor.clone());
        Ok((Self { child, monitor, listening: Some(listening) }, output, input))
    }

    /// Sends a non-maskable interrupt to every CPU of the machine. The kernel then reports its state.
    ///
    /// # Errors
    ///
    /// If the write to QEMU's monitor fails.
    pub fn inject_nmi(&mut self) -> io::Result<()> {
        self.monitor.inject_nmi()
    }

    /// Makes the first CPU of the machine report a hardware error (a machine check).
    ///
    /// # Errors
    ///
    /// If the write to QEMU's monitor fails.
    pub fn inject_machine_check(&mut self) -> io::Result<()> {
        self.monitor.inject_machine_check()
    }

    /// Makes QEMU write a picture of the screen to `file`, in the format PPM. Does not wait until QEMU has done so. The
    /// name of the file must be Unicode without quotes, backslashes and control characters.
    ///
    /// # Errors
    ///
    /// If the write to QEMU's monitor fails.
    pub fn dump_screen(&mut self, file: &Path) -> io::Result<()> {
        self.monitor.dump_screen(file)
    }

    /// If QEMU has stopped the machine for ever, returns QEMU's name for the reason. Otherwise returns `None`.
    pub fn stopped(&self) -> Option<&'static str> {
        self.monitor.stopped()
    }

    /// Returns whether the machine has reset itself. All resets before the end of QEMU are known after
    /// [`wait`](Self::wait).
    pub fn was_reset(&self) -> bool {
        self.monitor.was_reset()
    }

    /// Ends QEMU at once if it is still running. Ends the whole process group, because the command `qemu-system-x86_64`
    /// may be a script, and QEMU a child of that script. If only the script were ended, QEMU would keep the connection to
    /// the monitor open, and [`wait`](Self::wait) would not return.
    pub fn kill(&mut self) {
        self.child.kill_group();
    }

    /// Waits until QEMU has ended and its last events have been received.
    ///
    /// # Errors
    ///
    /// If waiting for the process fails.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait();
        if let Some(listening) = self.listening.take() {
            // `join` returns no error, because the thread does not panic.
            drop(listening.join());
        }
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        // Without this wait, the process would remain as a zombie. An error cannot be handled here.
        drop(self.wait());
    }
}

/// Starts `command` on a thread that lives as long as this process.
///
/// [`prepare`] makes Linux end the child when the *thread* that has started it ends, even if the process of that thread
/// continues. So that thread must live as long as the process.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static SPAWNER: LazyLock<Sender<Order>> = LazyLock::new(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in orders {
                // The send cannot fail, because the caller waits for the reply.
                drop(reply.send(command.spawn()));
            }
        });
        sender
    });
    let (reply, child) = mpsc::channel();
    SPAWNER.send((command, reply)).map_err(thread_is_gone)?;
    child.recv().map_err(thread_is_gone)?
}

fn thread_is_gone(error: impl StdError) -> io::Error {
    io::Error::other(format!("the thread that starts programs is gone: {error}"))
}

/// Makes Linux end the child process of `command` when this process ends. The command must be started by [`spawn`].
pub(crate) fn end_with_this_process(command: &mut Command) {
    prepare(command, Vec::new());
}

/// Passes `files` to the child process of `command`, and makes Linux end the child when the thread that has started it
/// ends.
///
/// Only this child inherits the files. So a connection is closed when the child ends, even if other processes have been
/// started meanwhile.
#[expect(unsafe_code, reason = "adds a closure that runs between fork and exec")]
fn prepare(command: &mut Command, files: Vec<OwnedFd>) {
    let parent = getpid();
    let prepare = move || {
        for file in &files {
            fcntl_setfd(file, FdFlags::empty())?;
        }
        die_with_parent(parent)
    };
    // SAFETY: after the fork, the closure makes only a few system calls. It does not allocate and takes no lock.
    unsafe { command.pre_exec(prepare) };
}

/// Makes Linux end the calling process when the thread that has started it ends. `parent` is the process of that
/// thread.
#[cfg(target_os = "linux")]
fn die_with_parent(parent: Pid) -> io::Result<()> {
    use rustix::process::{getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the parent has ended before the call above, no signal will come. In this case an error is returned, so the
    // command is not started.
    if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: Pid) -> io::Result<()> {
    Ok(())
}

/// Ends all QEMUs at once. Called when a signal ends this process.
///
/// This function never releases the lock. So a thread that waits for a QEMU does not continue when QEMU has ended.
/// Otherwise that thread would report that QEMU has failed, and could end this process with another status.
pub(crate) fn kill_all() {
    send_to_all(&ManuallyDrop::new(lock(&RUNNING)), Signal::KILL);
}

/// Sends `signal` to all QEMUs.
pub(crate) fn signal_all(signal: Signal) {
    send_to_all(&lock(&RUNNING), signal);
}

/// Whether a QEMU runs.
pub(crate) fn is_any_running() -> bool {
    !lock(&RUNNING).is_empty()
}

/// Makes all machines report their state.
pub(crate) fn inject_nmi_into_all() {
    // The call fails if the machine has ended. In this case there is nothing to report.
    lock(&RUNNING).values().for_each(|monitor| drop(monitor.inject_nmi()));
}

/// Returns advice for a user whose QEMU has failed. If the installed QEMU is older than [`OLDEST_QEMU`], the advice is
/// to install a newer one. Otherwise the text is empty.
pub fn advice_on_version() -> String {
    let output = Command::new(QEMU).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    match version(&text) {
        Some(found) if found < OLDEST_QEMU => {
            let ((major, minor), (oldest_major, oldest_minor)) = (found, OLDEST_QEMU);
            format!(" (this is QEMU {major}.{minor}; it takes {oldest_major}.{oldest_minor} or later: run ./setup)")
        }
        _ => String::new(),
    }
}

/// Parses the version in the output of `--version`, for example `QEMU emulator version 7.2.22 (Debian …)`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_once("version ")?.1.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn version_is_parsed_for_every_distribution() {
        assert_eq!(version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright"), Some((7, 2)));
        assert_eq!(version("QEMU emulator version 10.1.0\n"), Some((10, 1)));
        assert_eq!(version("QEMU emulator version 11.0-rc1"), Some((11, 0)));
        assert_eq!(version("no emulator"), None);
    }
}
