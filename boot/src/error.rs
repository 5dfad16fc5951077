//! The errors of `boot`, and their exit statuses.

use core::fmt;
use std::io;

use boot_protocol::status;

/// The reason why a program was not booted or did not run to its end. The text describes what is wrong and, if
/// possible, what the user can do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The command line is wrong, or a file that the command line names cannot be used. For example, the command line
    /// names an option, a program or a file that does not exist.
    Usage(String),
    /// The program does not build, its disk image cannot be written, or a peer of `compare` cannot be built or run.
    Build(String),
    /// Writing to standard output, to the terminal, or to a file with a result failed.
    Output(String),
    /// The reader has closed standard output. `boot` then ends without a message, as most programs do.
    Closed,
    /// QEMU, or something that QEMU needs, is missing or has failed. Or QEMU was ended by gdb or by a command to its
    /// monitor.
    Qemu(String),
}

impl Error {
    /// Converts an I/O error that happened while writing to standard output.
    pub fn writing(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Output(format!("cannot write to standard output: {error}")),
        }
    }

    /// Returns the exit status of `boot`. It is one of the statuses in `sysexits.h`, or one of [`status`]. For
    /// [`Closed`](Self::Closed) it is 141, which a shell reports for a process that SIGPIPE has ended.
    pub fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => 64,
            Self::Build(_) => 65,
            Self::Output(_) => 74,
            Self::Closed => 141,
            Self::Qemu(_) => status::QEMU_FAILED,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Usage(text) | Self::Build(text) | Self::Output(text) | Self::Qemu(text) => text,
            Self::Closed => "standard output was closed",
        })
    }
}

impl core::error::Error for Error {}
