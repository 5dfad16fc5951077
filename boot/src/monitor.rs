//! QEMU's monitor: sends commands to QEMU, and receives the event that QEMU has stopped the machine.
//!
//! The protocol (QMP) is lines of JSON. The messages used here have no members whose order could vary, so they need no
//! parser.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread;

/// The command that ends the negotiation at the start of a connection.
const BEGIN: &str = r#"{"execute": "qmp_capabilities"}"#;
const INJECT_NMI: &str = r#"{"execute": "inject-nmi"}"#;
/// Injects a machine check: bank 2 of CPU 0 reports an uncorrected error, and the processor's context is corrupt (SDM 3B,
/// chapter 16).
const INJECT_MACHINE_CHECK: &str = concat!(
    r#"{"execute": "human-monitor-command", "#,
    r#""arguments": {"command-line": "mce 0 2 0xb600000000000000 0x5 0x123000 0"}}"#
);
const QUERY_STATUS: &str = r#"{"execute": "query-status"}"#;
const QUIT: &str = r#"{"execute": "quit"}"#;

/// The event that QEMU sends whenever the machine is stopped, even by gdb.
const STOPPED: &str = r#""event": "STOP""#;

/// The states in which a machine stays stopped, because the accelerator or the file of a disk has failed.
const HOPELESS: [&str; 2] = ["internal-error", "io-error"];

/// The connection to the monitor of one QEMU process. Clones share the connection.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    stream: Arc<UnixStream>,
    stopped: Arc<OnceLock<&'static str>>,
}

impl Monitor {
    /// Connects to the QEMU at the other end of `stream`. If QEMU later stops the machine for good, it is told to exit.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        let replies = BufReader::new(stream.try_clone()?);
        let monitor = Self { stream: Arc::new(stream), stopped: Arc::default() };
        monitor.send(BEGIN)?;
        let listener = monitor.clone();
        thread::spawn(move || {
            for line in replies.lines().map_while(Result::ok) {
                listener.hear(&line);
            }
        });
        Ok(monitor)
    }

    /// Sends a non-maskable interrupt to every CPU of the machine.
    pub(crate) fn inject_nmi(&self) -> io::Result<()> {
        self.send(INJECT_NMI)
    }

    /// Makes the first CPU of the machine report a hardware error.
    pub(crate) fn inject_machine_check(&self) -> io::Result<()> {
        self.send(INJECT_MACHINE_CHECK)
    }

    /// The state in which QEMU has stopped the machine for good, if it has.
    pub(crate) fn stopped(&self) -> Option<&'static str> {
        self.stopped.get().copied()
    }

    fn hear(&self, line: &str) {
        let hopeless = HOPELESS.into_iter().find(|state| line.contains(&format!(r#""status": "{state}""#)));
        // An error of `send` means that QEMU has ended already, and is ignored.
        if line.contains(STOPPED) {
            drop(self.send(QUERY_STATUS));
        } else if let Some(state) = hopeless {
            self.stopped.get_or_init(|| state);
            drop(self.send(QUIT));
        }
    }

    fn send(&self, command: &str) -> io::Result<()> {
        // A single write, because several threads send commands.
        (&*self.stream).write_all(format!("{command}\n").as_bytes())
    }
}
