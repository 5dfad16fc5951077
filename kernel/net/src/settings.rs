//! What programs set on a stream, and the limit of a `connect`.

use core::time::Duration;

use crate::error::NetError;

/// How long a peer may leave a `connect` without an answer.
pub const CONNECTING: Duration = Duration::from_secs(30);

/// Which half of a connection [`TcpStream::shutdown`](crate::TcpStream::shutdown) ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    /// The half for reading. Reads return 0 from now on.
    Read,
    /// The half for writing. When the peer has read what was written before, it reads the end.
    Write,
    /// Both halves.
    Both,
}

/// Checks the argument of `set_keepalive`. The host counts seconds, and no more than 32,767 of them.
///
/// # Errors
///
/// [`NetError::InvalidInput`] if `silence` is shorter than a second or longer than nine hours.
pub fn check_keepalive(silence: Option<Duration>) -> Result<(), NetError> {
    let allowed = Duration::from_secs(1)..=Duration::from_hours(9);
    let is_allowed = silence.is_none_or(|silence| allowed.contains(&silence));
    if is_allowed { Ok(()) } else { Err(NetError::InvalidInput) }
}
