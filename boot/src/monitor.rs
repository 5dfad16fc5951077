//! QEMU's monitor: sends commands to QEMU, and receives an event when QEMU has stopped the machine or the machine has
//! reset itself.
//!
//! The protocol (QMP) consists of lines of JSON. The messages that are used here always have the same form, so they are
//! compared as text and not parsed.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

/// The command that ends the negotiation at the start of a connection.
const BEGIN: &str = r#"{"execute": "qmp_capabilities"}"#;
const INJECT_NMI: &str = r#"{"execute": "inject-nmi"}"#;
/// Injects a machine check. Bank 2 of CPU 0 then reports an uncorrected error that has corrupted the processor's
/// context (SDM 3B, chapter 16).
const INJECT_MACHINE_CHECK: &str = concat!(
    r#"{"execute": "human-monitor-command", "#,
    r#""arguments": {"command-line": "mce 0 2 0xb600000000000000 0x5 0x123000 0"}}"#
);
const QUERY_STATUS: &str = r#"{"execute": "query-status"}"#;
const QUIT: &str = r#"{"execute": "quit"}"#;

/// The event that QEMU sends whenever it stops the machine. The reason may be a failure, but also a command of gdb.
const STOPPED: &str = r#""event": "STOP""#;

/// Parts of the event that QEMU sends when the machine has reset itself. QEMU ends after this event.
const RESET: [&str; 2] = [r#""event": "SHUTDOWN""#, r#""reason": "guest-reset""#];

/// The states in which a machine cannot continue, because the accelerator or the file of a disk has failed.
const HOPELESS: [&str; 2] = ["internal-error", "io-error"];

/// The connection to the monitor of one QEMU process. Clones share the connection.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    stream: Arc<UnixStream>,
    stopped: Arc<OnceLock<&'static str>>,
    was_reset: Arc<AtomicBool>,
}

impl Monitor {
    /// Connects to the QEMU at the other end of `stream`. Also returns the thread that receives QEMU's events. If QEMU
    /// stops the machine and the machine cannot continue, this thread makes QEMU exit. The thread ends when QEMU has
    /// ended and all events have been received.
    pub(crate) fn new(stream: UnixStream) -> io::Result<(Self, JoinHandle<()>)> {
        let replies = BufReader::new(stream.try_clone()?);
        let monitor = Self { stream: Arc::new(stream), stopped: Arc::default(), was_reset: Arc::default() };
        monitor.send(BEGIN)?;
        let listener = monitor.clone();
        let listening = thread::spawn(move || {
            for line in replies.lines().map_while(Result::ok) {
                listener.hear(&line);
            }
        });
        Ok((monitor, listening))
    }

    /// Sends a non-maskable interrupt to every CPU of the machine.
    pub(crate) fn inject_nmi(&self) -> io::Result<()> {
        self.send(INJECT_NMI)
    }

    /// Makes the first CPU of the machine report a hardware error.
    pub(crate) fn inject_machine_check(&self) -> io::Result<()> {
        self.send(INJECT_MACHINE_CHECK)
    }

    /// Makes QEMU write a picture of the screen to `file`. The name must not contain characters that JSON escapes.
    pub(crate) fn dump_screen(&self, file: &Path) -> io::Result<()> {
        self.send(&format!(r#"{{"execute": "screendump", "arguments": {{"filename": "{}"}}}}"#, file.display()))
    }

    /// If QEMU has stopped the machine and the machine cannot continue, returns the state that QEMU reports.
    pub(crate) fn stopped(&self) -> Option<&'static str> {
        self.stopped.get().copied()
    }

    /// Whether the machine has reset itself.
    pub(crate) fn was_reset(&self) -> bool {
        self.was_reset.load(Ordering::Relaxed)
    }

    fn hear(&self, line: &str) {
        let hopeless = HOPELESS.into_iter().find(|state| line.contains(&format!(r#""status": "{state}""#)));
        // An error of `send` is ignored, because it means that QEMU has ended already.
        if line.contains(STOPPED) {
            drop(self.send(QUERY_STATUS));
        } else if RESET.iter().all(|part| line.contains(part)) {
            self.was_reset.store(true, Ordering::Relaxed);
        } else if let Some(state) = hopeless {
            self.stopped.get_or_init(|| state);
            drop(self.send(QUIT));
        }
    }

    fn send(&self, command: &str) -> io::Result<()> {
        // Each command is one write, so that the commands of several threads are not mixed.
        (&*self.stream).write_all(format!("{command}\n").as_bytes())
    }
}
