//! What can go wrong with a command of `cargo lab` or `cargo book`, for the person who has typed it.

use std::fmt;
use std::io;
use std::path::Path;

/// An error, with what to do about it.
#[derive(Debug)]
pub struct Error(String);

/// What a command returns.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// A file or folder could not be accessed: `verb` says what was tried.
    pub fn file(verb: &str, path: &Path, error: &io::Error) -> Self {
        Self(format!("cannot {verb} {}: {error}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
