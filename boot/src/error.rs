//! The errors of `boot`, and their exit statuses.

use core::fmt;
use std::io;

use boot_protocol::status;

/// Why a program was not booted. The text is for the user: it says what is wrong and, if possible, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The command line names something that does not exist: an option, a program, a file.
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

    /// The exit status of `boot`: one of `sysexits.h`, a shell's for a process ended by SIGPIPE, or one of its own.
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
