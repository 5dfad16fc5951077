//! Connections on the host.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, Read as _, Write as _};

use embedded_io::ErrorType;
use kernel_net::{NetError, Shutdown, ToSocketAddr};
use socket2::{SockRef, TcpKeepalive};

use super::readiness::{Watched, Way};
use super::{CONNECTIONS, Counted, error, lookup_name};
use crate::host::platform::{Limit, Receiver};

/// A TCP connection. See [`kernel_net::TcpStream`], which the machine has.
pub struct TcpStream {
    stream: Watched<mio::net::TcpStream>,
    local: SocketAddr,
    peer: SocketAddr,
    _counted: Counted,
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream").field("local", &self.local).field("peer", &self.peer).finish()
    }
}

impl TcpStream {
    pub(super) fn new(stream: Watched<mio::net::TcpStream>) -> Result<Self, NetError> {
        let local = stream.socket().local_addr().map_err(|it| error(&it))?;
        let peer = stream.socket().peer_addr().map_err(|it| error(&it))?;
        Ok(Self { stream, local, peer, _counted: Counted::new(&CONNECTIONS) })
    }

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
    /// If the address is not valid, the name has no address, nobody listens there, or the peer does not answer. If the
    /// limit ends the wait.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn connect_until<'l>(address: impl ToSocketAddr, limit: impl Into<Limit<'l>>) -> Result<Self, NetError> {
        let limit = limit.into();
        kernel_net::with_each(
            address,
            |name, port| lookup_name(name, port, limit),
            |address| Self::connect_to(address, limit),
        )
    }

    #[track_caller]
    fn connect_to(address: SocketAddr, limit: Limit<'_>) -> Result<Self, NetError> {
        let stream = Watched::new(mio::net::TcpStream::connect(address).map_err(|it| error(&it))?)?;
        stream.wait(Way::Write, limit, |stream| {
            // The attempt is over when the socket has an error or a peer (the manual of `mio`).
            match (stream.take_error()?, stream.peer_addr()) {
                (Some(error), _) => Err(error),
                (None, Ok(_)) => Ok(()),
                (None, Err(_)) => Err(io::ErrorKind::WouldBlock.into()),
            }
        })?;
        Self::new(stream)
    }

    /// Returns the address of this end.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the address of the peer.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
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
    pub fn read_until<'l>(&self, buffer: &mut [u8], limit: impl Into<Limit<'l>>) -> Result<usize, NetError> {
        self.stream.wait(Way::Read, limit.into(), |mut stream| stream.read(buffer))
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
        self.stream.wait(Way::Read, Limit::NONE, |stream| stream.peek(buffer))
    }

    /// Returns a receiver for a case of a `select!`. It gets a value when a read need not wait. Later, or if another G uses
    /// the stream, the value may not be true any more. So take the receiver anew for each select, and give the call after
    /// it a limit if others could come first. The channel is closed when the stream is dropped.
    ///
    /// # Errors
    ///
    /// There is no memory for the channel.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    ///
    /// ```
    /// # #![no_std]
    /// # #![cfg_attr(not(test), no_main)]
    /// # kernel::main!(main);
    /// # fn main(_: &[&str]) { talk().unwrap(); }
    /// use kernel::net::{NetError, TcpListener, TcpStream};
    /// use kernel::prelude::*;
    ///
    /// /// Reads what the peer sends, until another G ends that.
    /// fn read(stream: &TcpStream, end: &Receiver<()>) -> Result<usize, NetError> {
    ///     let (mut buffer, mut total) = ([0; 100], 0);
    ///     loop {
    ///         let readable = stream.readable()?;
    ///         select! {
    ///             recv(readable) -> _ => match stream.read(&mut buffer)? {
    ///                 0 => return Ok(total),
    ///                 count => total += count,
    ///             },
    ///             recv(end) -> _ => return Ok(total),
    ///             timeout(Duration::from_secs(60)) => return Ok(total),
    ///         }
    ///     }
    /// }
    /// # fn talk() -> Result<(), NetError> {
    /// #     let listener = TcpListener::bind("[::1]:0")?;
    /// #     let near = TcpStream::connect(listener.local_addr())?;
    /// #     let (far, _) = listener.accept()?;
    /// #     near.write_all(b"data")?;
    /// #     let (end, ended) = channel(1);
    /// #     let reads = go(move || read(&far, &ended));
    /// #     sleep(Duration::from_millis(5));
    /// #     end.send(()).unwrap();
    /// #     assert_eq!(reads.join().unwrap(), Ok(4));
    /// #     Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn readable(&self) -> Result<Receiver<()>, NetError> {
        self.stream.select(Way::Read)
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
    pub fn writable(&self) -> Result<Receiver<()>, NetError> {
        self.stream.select(Way::Write)
    }

    /// Writes bytes, at least one. Returns how many of them will be sent. Blocks the calling G until there is room.
    ///
    /// # Errors
    ///
    /// [`NetError::BrokenPipe`] after a shutdown, and also if the connection has ended.
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
    pub fn write_until<'l>(&self, data: &[u8], limit: impl Into<Limit<'l>>) -> Result<usize, NetError> {
        self.stream.wait(Way::Write, limit.into(), |mut stream| stream.write(data))
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
    pub fn write_all_until<'l>(&self, data: &[u8], limit: impl Into<Limit<'l>>) -> Result<(), NetError> {
        let (limit, mut rest) = (limit.into(), data);
        while !rest.is_empty() {
            rest = &rest[self.write_until(rest, limit)?..];
        }
        Ok(())
    }

    /// Shuts down one half of the connection, or both. Gs that wait in that half return. Does not block.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn shutdown(&self, how: Shutdown) -> Result<(), NetError> {
        let how = match how {
            Shutdown::Read => std::net::Shutdown::Read,
            Shutdown::Write => std::net::Shutdown::Write,
            Shutdown::Both => std::net::Shutdown::Both,
        };
        self.stream.socket().shutdown(how).map_err(|it| error(&it))
    }

    /// Sets whether small writes are sent at once. Otherwise a small write may wait for the answer to an earlier one
    /// (Nagle's algorithm). The default is `false`.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn set_nodelay(&self, nodelay: bool) -> Result<(), NetError> {
        self.stream.socket().set_nodelay(nodelay).map_err(|it| error(&it))
    }

    /// Sets after how much silence an empty segment asks the peer whether it is still there. If the peer is silent for
    /// three times as long, the connection has ended: reads and writes return an error. `None`, the default, asks never.
    ///
    /// # Errors
    ///
    /// [`NetError::InvalidInput`] if `silence` is shorter than a second or longer than nine hours. If the connection has
    /// ended.
    pub fn set_keepalive(&self, silence: Option<Duration>) -> Result<(), NetError> {
        kernel_net::check_keepalive(silence)?;
        let socket = SockRef::from(self.stream.socket());
        let result = match silence {
            None => socket.set_keepalive(false),
            Some(silence) => {
                let asks = TcpKeepalive::new().with_time(silence).with_interval(silence).with_retries(2);
                socket.set_tcp_keepalive(&asks)
            }
        };
        result.map_err(|it| error(&it))
    }
}

impl ErrorType for TcpStream {
    type Error = NetError;
}

impl embedded_io::Read for TcpStream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, NetError> {
        Self::read(self, buffer)
    }
}

impl embedded_io::Write for TcpStream {
    fn write(&mut self, data: &[u8]) -> Result<usize, NetError> {
        Self::write(self, data)
    }

    /// Does nothing: what was written is being sent.
    fn flush(&mut self) -> Result<(), NetError> {
        Ok(())
    }
}
