//! Listeners on the host.

use core::fmt;
use core::net::SocketAddr;

use kernel_net::{NetError, ToSocketAddr};

use super::readiness::{Watched, Way};
use super::{Counted, LISTENERS, TcpStream, error, lookup_name, loopback};
use crate::host::platform::{Limit, Receiver};

/// A port on which peers can connect. See [`kernel_net::TcpListener`], which the machine has.
pub struct TcpListener {
    listener: Watched<mio::net::TcpListener>,
    address: SocketAddr,
    _counted: Counted,
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("port", &self.address.port()).finish()
    }
}

impl TcpListener {
    /// Listens on a port of the host's loopback address. The address is `0.0.0.0` or `127.0.0.1`, which mean the same
    /// here, or for connections of the kind IPv6 `[::]` or `[::1]`. (On the machine, `0.0.0.0` and `[::]` listen in the
    /// network.) A listener takes only connections of its kind. If the port is 0, a free port is chosen.
    ///
    /// # Errors
    ///
    /// If the address is not valid, another program has the port, or the host refuses it.
    pub fn bind(address: impl ToSocketAddr) -> Result<Self, NetError> {
        kernel_net::with_each(address, |name, port| lookup_name(name, port, Limit::NONE), Self::bind_to)
    }

    fn bind_to(address: SocketAddr) -> Result<Self, NetError> {
        let listener = mio::net::TcpListener::bind(loopback(address)?);
        let listener = listener.map_err(|it| error(&it))?;
        let address = listener.local_addr().map_err(|it| error(&it))?;
        Ok(Self { listener: Watched::new(listener)?, address, _counted: Counted::new(&LISTENERS) })
    }

    /// Returns the address and the port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the next connection, and the address of its peer. Blocks the calling G until a peer has connected.
    ///
    /// # Errors
    ///
    /// If the host has no resources for the connection.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn accept(&self) -> Result<(TcpStream, SocketAddr), NetError> {
        self.accept_until(Limit::NONE)
    }

    /// Like [`accept`](Self::accept), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// In the cases of [`accept`](Self::accept), and if the limit ends the wait.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn accept_until<'l>(&self, limit: impl Into<Limit<'l>>) -> Result<(TcpStream, SocketAddr), NetError> {
        let (stream, peer) = self.listener.wait(Way::Read, limit.into(), mio::net::TcpListener::accept)?;
        Ok((TcpStream::new(Watched::new(stream)?)?, peer))
    }

    /// Returns a receiver for a case of a `select!`. It gets a value when a connection can be accepted. Later, or if another G uses
    /// the listener, the value may not be true any more. So take the receiver anew for each select, and give the call after
    /// it a limit if others could come first. The channel is closed when the listener is dropped.
    ///
    /// # Errors
    ///
    /// There is no memory for the channel.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn readable(&self) -> Result<Receiver<()>, NetError> {
        self.listener.select(Way::Read)
    }

    /// Returns an iterator over the connections, which never ends. A call of `next` returns errors, blocks and panics
    /// like [`accept`](Self::accept).
    #[must_use]
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }
}

/// An iterator over the connections of a listener: [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a>(&'a TcpListener);

impl Iterator for Incoming<'_> {
    type Item = Result<TcpStream, NetError>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}
