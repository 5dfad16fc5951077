//! QEMU's monitor: sends commands to QEMU, and receives the event that it has stopped the machine.
//!
//! The protocol (QMP) is lines of JSON. The messages used here have no members whose order could vary, so they need no
//! parser.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread;

/// Ends the negotiation at the start of a connection.
const BEGIN: &str = r#"{"execute": "qmp_capabilities"}"#;
const INJECT_NMI: &str = r#"{"execute": "inject-nmi"}"#;
/// Bank 2 of CPU 0 holds an uncorrected error, and what CPU 0 does is corrupt (SDM 3B, chapter 16).
const INJECT_MACHINE_CHECK: &str = concat!(
    r#"{"execute": "human-monitor-command", "#,
    r#""arguments": {"command-line": "mce 0 2 0xb600000000000000 0x5 0x123000 0"}}"#
);
const QUERY_STATUS: &str = r#"{"execute": "query-status"}"#;
const QUIT: &str = r#"{"execute": "quit"}"#;

/// QEMU sends this whenever the machine is stopped, also by gdb.
const STOPPED: &str = r#""event": "STOP""#;

/// States from which a machine does not recover by itself: the accelerator or the file of a disk failed.
const HOPELESS: [&str; 2] = ["internal-error", "io-error"];

/// The connection to the monitor of one QEMU. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    stream: Arc<UnixStream>,
    stopped: Arc<OnceLock<&'static str>>,
}

impl Monitor {
    /// Connects to the QEMU at the other end of `stream`. A QEMU that has stopped its machine for good is told to exit.
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
        // If the write fails, QEMU has ended already.
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
