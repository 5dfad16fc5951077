//! What keeps a program from being booted, and the exit status that tells so.

use core::fmt;
use std::io;

use boot_protocol::status;

/// Why a program was not booted. The text is for the user: it says what is wrong and, where there is one, the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The command line asks for what there is not: an option, a program, a file.
    Usage(String),
    /// The program does not build.
    Build(String),
    /// The console cannot be shown: standard output does not take it.
    Output(String),
    /// Whoever read standard output has closed it, which ends `boot` without a word, as it would most programs.
    Closed,
    /// QEMU is missing or failed.
    Qemu(String),
}

impl Error {
    /// What it means that standard output could not be written to.
    pub fn writing(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Output(format!("cannot write to standard output: {error}")),
        }
    }

    /// The exit status of `boot`: those of `sysexits.h`, of a shell for a process ended by SIGPIPE, and its own.
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
