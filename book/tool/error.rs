//! What can go wrong with a command of `cargo book`.

use std::fmt;
use std::io;
use std::path::Path;

/// An error, with what to do about it.
#[derive(Debug)]
pub(crate) struct Error(String);

pub(crate) type Result<T> = core::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// A file or folder could not be accessed: `verb` says what was tried.
    pub(crate) fn file(verb: &str, path: &Path, error: &io::Error) -> Self {
        Self(format!("cannot {verb} {}: {error}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
