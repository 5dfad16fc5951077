//! Connections, as programs use them.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use embedded_io::{ErrorType, Read, Write};
use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;

use crate::address::{ToSocketAddr, with_each};
use crate::error::NetError;
use crate::settings::{Shutdown, check_keepalive};
use crate::socket::{Open, StreamSocket, Take, Way};

/// A TCP connection. All functions take `&self`, so several Gs can use a connection, each reading or writing.
///
/// Dropping the stream closes the connection. What was written is still sent, and no G waits for that. If data has
/// arrived that was not read, the peer gets a reset.
pub struct TcpStream<S: StreamSocket>(pub(crate) S);

impl<S: StreamSocket> fmt::Debug for TcpStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream").field("local", &self.local_addr()).field("peer", &self.peer_addr()).finish()
    }
}

impl<S: Open + StreamSocket> TcpStream<S> {
    /// Connects to an address. Blocks the calling G until the peer has answered.
    ///
    /// # Errors
    ///
    /// In the cases of [`connect_until`](Self::connect_until), except for the limit.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn connect(address: impl ToSocketAddr) -> Result<Self, NetError> {
        Self::connect_until(address, Limit::NONE)
    }

    /// Like [`connect`](Self::connect), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// If there is no network, the address is not valid, the name has no address, nobody listens there, a router knows no
    /// route to the peer, or the peer does not answer within 30 seconds. If the limit ends the wait.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn connect_until<'l>(
        address: impl ToSocketAddr,
        limit: impl Into<Limit<'l, S::Platform>>,
    ) -> Result<Self, NetError> {
        let limit = limit.into();
        with_each(address, |name, port| S::lookup(name, port, limit), |address| S::open(address, limit).map(Self))
    }
}

impl<S: StreamSocket> TcpStream<S> {
    /// Returns the address of this end.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Returns the address of the peer.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.0.peer_addr()
    }

    /// Reads bytes that have arrived, at least one. Returns their number, which is 0 at the end of the data, or if
    /// `buffer` is empty. Blocks the calling G until there are bytes.
    ///
    /// # Errors
    ///
    /// [`NetError::ConnectionReset`] if the peer has ended the connection before the end of its data.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, NetError> {
        self.read_until(buffer, Limit::NONE)
    }

    /// Like [`read`](Self::read), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// In the cases of [`read`](Self::read), and if the limit ends the wait. No data is lost.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn read_until<'l>(
        &self,
        buffer: &mut [u8],
        limit: impl Into<Limit<'l, S::Platform>>,
    ) -> Result<usize, NetError> {
        self.0.receive(buffer, Take::Bytes, limit.into())
    }

    /// Like [`read`](Self::read), but leaves the bytes to the next read.
    ///
    /// # Errors
    ///
    /// In the cases of [`read`](Self::read).
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn peek(&self, buffer: &mut [u8]) -> Result<usize, NetError> {
        self.0.receive(buffer, Take::Nothing, Limit::NONE)
    }

    /// Returns a receiver for a case of a `select!`. It gets a value when a read need not wait. A value that is old, or
    /// that came before another G used the stream, says nothing any more: the call may have to wait. So take the
    /// receiver anew for each select, and give the call after the select a limit if other Gs use the stream. The
    /// channel is closed when the stream is dropped.
    ///
    /// # Errors
    ///
    /// There is no memory for the channel.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn readable(&self) -> Result<Receiver<(), S::Platform>, NetError> {
        self.0.selectable(Way::Read)
    }

    /// Like [`readable`](Self::readable), for writes.
    ///
    /// # Errors
    ///
    /// There is no memory for the channel.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn writable(&self) -> Result<Receiver<(), S::Platform>, NetError> {
        self.0.selectable(Way::Write)
    }

    /// Writes bytes, at least one. Returns how many of them will be sent. Blocks the calling G until there is room.
    ///
    /// # Errors
    ///
    /// [`NetError::BrokenPipe`] after a shutdown, and [`NetError::ConnectionReset`] if the connection has ended. Bytes
    /// that were written before may be lost then. [`NetError::OutOfResources`] if there is no memory for the bytes.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn write(&self, data: &[u8]) -> Result<usize, NetError> {
        self.write_until(data, Limit::NONE)
    }

    /// Like [`write`](Self::write), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// In the cases of [`write`](Self::write), and if the limit ends the wait. Nothing was written then.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn write_until<'l>(&self, data: &[u8], limit: impl Into<Limit<'l, S::Platform>>) -> Result<usize, NetError> {
        self.0.send(data, limit.into())
    }

    /// Writes all bytes. Blocks the calling G until there was room for the last one.
    ///
    /// # Errors
    ///
    /// In the cases of [`write`](Self::write).
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn write_all(&self, data: &[u8]) -> Result<(), NetError> {
        self.write_all_until(data, Limit::NONE)
    }

    /// Like [`write_all`](Self::write_all), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// In the cases of [`write`](Self::write), and if the limit ends a wait. A part of the data may have been written.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn write_all_until<'l>(&self, data: &[u8], limit: impl Into<Limit<'l, S::Platform>>) -> Result<(), NetError> {
        let (limit, mut rest) = (limit.into(), data);
        while !rest.is_empty() {
            rest = &rest[self.write_until(rest, limit)?..];
        }
        Ok(())
    }

    /// Shuts down one half of the connection, or both. Gs that wait in that half return. Does not block for long.
    ///
    /// # Errors
    ///
    /// If the device is broken.
    pub fn shutdown(&self, how: Shutdown) -> Result<(), NetError> {
        self.0.shutdown(how)
    }

    /// Sets whether small writes are sent at once. Otherwise a small write may wait for the answer to an earlier one
    /// (Nagle's algorithm). The default is `false`.
    ///
    /// # Errors
    ///
    /// If the device is broken.
    pub fn set_nodelay(&self, nodelay: bool) -> Result<(), NetError> {
        self.0.set_nodelay(nodelay)
    }

    /// Sets after how much silence an empty segment asks the peer whether it is still there. If the peer is silent for
    /// three times as long, the connection has ended: reads and writes return an error. `None`, the default, never
    /// asks.
    ///
    /// # Errors
    ///
    /// [`NetError::InvalidInput`] if `silence` is shorter than a second or longer than nine hours. If the device is
    /// broken.
    pub fn set_keepalive(&self, silence: Option<Duration>) -> Result<(), NetError> {
        check_keepalive(silence)?;
        self.0.set_keepalive(silence)
    }
}

impl<S: StreamSocket> ErrorType for TcpStream<S> {
    type Error = NetError;
}

impl<S: StreamSocket> Read for TcpStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, NetError> {
        Self::read(self, buffer)
    }
}

impl<S: StreamSocket> Write for TcpStream<S> {
    fn write(&mut self, data: &[u8]) -> Result<usize, NetError> {
        Self::write(self, data)
    }

    /// Does nothing: what was written is being sent.
    fn flush(&mut self) -> Result<(), NetError> {
        Ok(())
    }
}
