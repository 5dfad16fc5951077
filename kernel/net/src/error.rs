//! Why a call failed.

use core::fmt;

use embedded_io::ErrorKind;
use gmp_sched::cancel::ContextError;
use gmp_sched::platform::OutOfResources;

/// Why a call of the network failed. The names are those of `std::io::ErrorKind` where it has such a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetError {
    /// Another listener has the port, or there is no free port for a connection.
    AddrInUse,
    /// The address is not one of this computer, or of a kind that the network does not have.
    AddrNotAvailable,
    /// The peer has no listener, or no UDP socket, on this port.
    ConnectionRefused,
    /// A router, or the peer's neighbour, says that there is no route to the peer.
    HostUnreachable,
    /// A router says that there is no route to the peer's network.
    NetworkUnreachable,
    /// The peer has ended the connection, or has not answered for so long that the connection was given up.
    ConnectionReset,
    /// The program has shut down the writing half of the connection.
    BrokenPipe,
    /// A datagram is larger than [`MAX_DATAGRAM`](crate::MAX_DATAGRAM), or than the MTU of the path to the peer allows.
    MessageTooLong,
    /// The address is not valid, or a UDP socket has no peer.
    InvalidInput,
    /// No server knows the name.
    NameNotFound,
    /// The peer does not answer.
    TimedOut,
    /// The limit (a deadline or a context) was over before the call was done.
    Limit(ContextError),
    /// There was no memory, or no M for the call. On the host also if the process has as many files and sockets as it
    /// may have.
    OutOfResources,
    /// The computer has no network device. (The option `--net` of `boot` adds one.)
    NoNetwork,
    /// The network device cannot be used, or has broken its protocol.
    Device,
    /// Another error of the host.
    Other,
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddrInUse => "the port is in use",
            Self::AddrNotAvailable => "the address is not available",
            Self::ConnectionRefused => "connection refused",
            Self::HostUnreachable => "no route to the peer",
            Self::NetworkUnreachable => "no route to the network of the peer",
            Self::ConnectionReset => "connection reset by the peer",
            Self::BrokenPipe => "the connection is shut down for writing",
            Self::MessageTooLong => "the datagram is too long",
            Self::InvalidInput => "not an IP address with a port",
            Self::NameNotFound => "the name is not known",
            Self::TimedOut => "the peer does not answer",
            Self::Limit(error) => return error.fmt(f),
            Self::OutOfResources => return OutOfResources.fmt(f),
            Self::NoNetwork => "the machine has no network device: start it with `boot --net user`",
            Self::Device => "the network device cannot be used",
            Self::Other => "the host reports an error",
        })
    }
}

impl core::error::Error for NetError {}

impl embedded_io::Error for NetError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::AddrInUse => ErrorKind::AddrInUse,
            Self::AddrNotAvailable => ErrorKind::AddrNotAvailable,
            Self::ConnectionRefused => ErrorKind::ConnectionRefused,
            Self::ConnectionReset => ErrorKind::ConnectionReset,
            Self::BrokenPipe => ErrorKind::BrokenPipe,
            Self::InvalidInput | Self::MessageTooLong => ErrorKind::InvalidInput,
            Self::TimedOut | Self::Limit(ContextError::DeadlineExceeded) => ErrorKind::TimedOut,
            Self::OutOfResources => ErrorKind::OutOfMemory,
            Self::NoNetwork | Self::NameNotFound => ErrorKind::NotFound,
            Self::HostUnreachable | Self::NetworkUnreachable => ErrorKind::Other,
            Self::Limit(ContextError::Canceled) | Self::Device | Self::Other => ErrorKind::Other,
        }
    }
}

impl From<ContextError> for NetError {
    fn from(error: ContextError) -> Self {
        Self::Limit(error)
    }
}

impl From<OutOfResources> for NetError {
    fn from(_: OutOfResources) -> Self {
        Self::OutOfResources
    }
}
