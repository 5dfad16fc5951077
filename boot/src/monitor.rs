//! QEMU's monitor: by it QEMU is told to interrupt the machine, and says that it has stopped the machine by itself.
//!
//! The protocol (QMP) is lines of JSON. What is asked for here has no parts that could stand in another order, so there is
//! no need to take it apart.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread;

/// Ends the negotiation with which a connection begins.
const BEGIN: &str = r#"{"execute": "qmp_capabilities"}"#;
const INJECT_NMI: &str = r#"{"execute": "inject-nmi"}"#;
/// Bank 2 of CPU 0 holds an uncorrected error, and what CPU 0 does is corrupt (SDM 3B, chapter 16).
const INJECT_MACHINE_CHECK: &str = concat!(
    r#"{"execute": "human-monitor-command", "#,
    r#""arguments": {"command-line": "mce 0 2 0xb600000000000000 0x5 0x123000 0"}}"#
);
const QUERY_STATUS: &str = r#"{"execute": "query-status"}"#;
const QUIT: &str = r#"{"execute": "quit"}"#;

/// QEMU says this whenever the machine stands still, for gdb as well.
const STOPPED: &str = r#""event": "STOP""#;

/// States from which a machine does not come back by itself: its accelerator failed, or the file of a disk did.
const HOPELESS: [&str; 2] = ["internal-error", "io-error"];

/// The connection to the monitor of one QEMU. Clones are of the same one.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    stream: Arc<UnixStream>,
    stopped: Arc<OnceLock<&'static str>>,
}

impl Monitor {
    /// Talks to the QEMU at the other end of `stream`. One that has stopped its machine for good is told to end.
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

    /// Sends every CPU of the machine a non-maskable interrupt.
    pub(crate) fn inject_nmi(&self) -> io::Result<()> {
        self.send(INJECT_NMI)
    }

    /// Has the first CPU of the machine report an error of the hardware.
    pub(crate) fn inject_machine_check(&self) -> io::Result<()> {
        self.send(INJECT_MACHINE_CHECK)
    }

    /// The state in which QEMU has stopped the machine for good, if it has.
    pub(crate) fn stopped(&self) -> Option<&'static str> {
        self.stopped.get().copied()
    }

    fn hear(&self, line: &str) {
        let hopeless = HOPELESS.into_iter().find(|state| line.contains(&format!(r#""status": "{state}""#)));
        // A QEMU that does not take what is sent has ended already.
        if line.contains(STOPPED) {
            drop(self.send(QUERY_STATUS));
        } else if let Some(state) = hopeless {
            self.stopped.get_or_init(|| state);
            drop(self.send(QUIT));
        }
    }

    fn send(&self, command: &str) -> io::Result<()> {
        // In one piece, since commands are sent from several threads.
        (&*self.stream).write_all(format!("{command}\n").as_bytes())
    }
}
