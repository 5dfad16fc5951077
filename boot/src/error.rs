//! The errors of `boot`, and their exit statuses.

use core::fmt;
use std::io;

use boot_protocol::status;

/// The reason why a program was not booted or did not run to its end. The text tells the user what is wrong and, if
/// possible, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The command line is wrong: for example, it names an option, a program or a file that does not exist.
    Usage(String),
    /// The program does not build.
    Build(String),
    /// Writing to standard output failed.
    Output(String),
    /// The reader of standard output has closed it, which ends `boot` silently, like most programs.
    Closed,
    /// QEMU is missing or failed.
    Qemu(String),
}

impl Error {
    /// Converts an error of writing to standard output.
    pub fn writing(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Output(format!("cannot write to standard output: {error}")),
        }
    }

    /// The exit status of `boot`: one of `sysexits.h`; 141, as shells report a process that SIGPIPE has ended; or one of
    /// [`status`].
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
