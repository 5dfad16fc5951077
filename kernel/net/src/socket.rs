//! What sockets of every kind do: those of a [`Stack`](crate::Stack), and on the host those of the operating system.
//! Programs use them through [`TcpStream`](crate::TcpStream), [`TcpListener`](crate::TcpListener) and
//! [`UdpSocket`](crate::UdpSocket), whose documentation says what each function does.

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;
use gmp_sched::platform::Platform;

use crate::error::NetError;
use crate::settings::Shutdown;

/// For what a G waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// For data, or a connection.
    Read,
    /// For room for data.
    Write,
}

/// What a read does with the bytes that it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// It takes them.
    Bytes,
    /// It leaves them to the next read.
    Nothing,
}

/// A socket. Its functions may block the calling G for a short time, so they may panic if the caller is not a G.
pub trait Socket: Sized {
    /// The platform whose Gs use the socket.
    type Platform: Platform;

    /// Returns the address of this end.
    fn local_addr(&self) -> SocketAddr;

    /// Returns the receiver for a case of a `select!`.
    ///
    /// # Errors
    ///
    /// There is no memory for the channel.
    #[track_caller]
    fn selectable(&self, way: Way) -> Result<Receiver<(), Self::Platform>, NetError>;
}

/// A socket that can be made without naming a stack.
pub trait Open: Socket {
    /// Returns the addresses of a name, with this port.
    ///
    /// # Errors
    ///
    /// If there are none, or the limit ends the wait.
    #[track_caller]
    fn lookup(name: &str, port: u16, limit: Limit<'_, Self::Platform>) -> Result<Vec<SocketAddr>, NetError>;

    /// Makes the socket: a stream that is connected to `address`, or a listener or UDP socket at `address`.
    ///
    /// # Errors
    ///
    /// Those of `connect_until` or `bind`.
    #[track_caller]
    fn open(address: SocketAddr, limit: Limit<'_, Self::Platform>) -> Result<Self, NetError>;
}

/// A TCP connection. The errors are those of [`TcpStream`](crate::TcpStream).
#[expect(clippy::missing_errors_doc, reason = "described at the type that programs use")]
pub trait StreamSocket: Socket {
    /// Returns the address of the peer.
    fn peer_addr(&self) -> SocketAddr;

    /// Reads at least one byte, unless `buffer` is empty.
    #[track_caller]
    fn receive(&self, buffer: &mut [u8], take: Take, limit: Limit<'_, Self::Platform>) -> Result<usize, NetError>;

    /// Writes at least one byte, unless `data` is empty.
    #[track_caller]
    fn send(&self, data: &[u8], limit: Limit<'_, Self::Platform>) -> Result<usize, NetError>;

    /// Shuts down one half of the connection, or both.
    fn shutdown(&self, how: Shutdown) -> Result<(), NetError>;

    /// Sets whether small writes are sent at once.
    fn set_nodelay(&self, nodelay: bool) -> Result<(), NetError>;

    /// Sets after how much silence the peer is asked. The time is [allowed](crate::check_keepalive).
    fn set_keepalive(&self, silence: Option<Duration>) -> Result<(), NetError>;
}

/// A listener.
pub trait ListenerSocket: Socket {
    /// Its connections.
    type Stream: StreamSocket<Platform = Self::Platform>;

    /// Waits for the next connection.
    ///
    /// # Errors
    ///
    /// Those of [`TcpListener::accept_until`](crate::TcpListener::accept_until).
    #[track_caller]
    fn accept(&self, limit: Limit<'_, Self::Platform>) -> Result<Self::Stream, NetError>;
}

/// A UDP socket. The errors are those of [`UdpSocket`](crate::UdpSocket).
#[expect(clippy::missing_errors_doc, reason = "described at the type that programs use")]
pub trait DatagramSocket: Socket {
    /// Returns the addresses of a name, with this port, as this socket reaches them.
    #[track_caller]
    fn lookup(&self, name: &str, port: u16, limit: Limit<'_, Self::Platform>) -> Result<Vec<SocketAddr>, NetError>;

    /// Returns the peer that [`set_peer`](Self::set_peer) has set.
    #[track_caller]
    fn peer(&self) -> Option<SocketAddr>;

    /// Sets the only peer whose datagrams are received.
    #[track_caller]
    fn set_peer(&self, peer: SocketAddr) -> Result<(), NetError>;

    /// Sends a datagram that is not too long.
    #[track_caller]
    fn send(&self, data: &[u8], to: SocketAddr, limit: Limit<'_, Self::Platform>) -> Result<usize, NetError>;

    /// Receives a datagram. Returns its length and its sender.
    #[track_caller]
    fn receive(&self, buffer: &mut [u8], limit: Limit<'_, Self::Platform>) -> Result<(usize, SocketAddr), NetError>;
}
