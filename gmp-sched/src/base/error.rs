//! The errors that every layer returns.

use core::fmt;

/// There is no memory, thread or other resource for the request; nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfResources;

impl fmt::Display for OutOfResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory or threads")
    }
}

impl core::error::Error for OutOfResources {}

/// Why a G ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// Its body panicked.
    Panicked,
    /// It overflowed its stack, on a platform on which that ends the G alone.
    StackOverflow,
    /// It called [`goexit`](crate::lifecycle::exit::goexit).
    Exited,
}

impl JoinError {
    /// Whether the joiner or scope must be told of it as an error.
    pub(crate) fn is_failure(self) -> bool {
        self != Self::Exited
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked => f.write_str("the G panicked"),
            Self::StackOverflow => f.write_str("the G overflowed its stack"),
            Self::Exited => f.write_str("the G ended itself without a result"),
        }
    }
}

impl core::error::Error for JoinError {}
