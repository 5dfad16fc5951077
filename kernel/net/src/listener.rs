//! Listeners, as programs use them.

use core::fmt;
use core::net::SocketAddr;

use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;

use crate::address::{ToSocketAddr, with_each};
use crate::error::NetError;
use crate::socket::{ListenerSocket, Open, StreamSocket as _, Way};
use crate::stream::TcpStream;

/// A port on which peers can connect. Up to 128 peers can connect before the program accepts their connections.
/// Dropping the listener resets the connections that the program has not accepted.
pub struct TcpListener<S: ListenerSocket>(pub(crate) S);

impl<S: ListenerSocket> fmt::Debug for TcpListener<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("address", &self.local_addr()).finish()
    }
}

impl<S: Open + ListenerSocket> TcpListener<S> {
    /// Listens on a port. The address is `0.0.0.0` for peers in the network, or `127.0.0.1` for this computer itself; for
    /// IPv6 connections, `[::]` or `[::1]`. A listener at `[::]` takes only IPv6 connections, so a server for both kinds
    /// has two listeners. For port 0, a free port is chosen.
    ///
    /// # Errors
    ///
    /// If there is no network, the address is not valid, another listener has the port, or there is no memory.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn bind(address: impl ToSocketAddr) -> Result<Self, NetError> {
        with_each(
            address,
            |name, port| S::lookup(name, port, Limit::NONE),
            |address| S::open(address, Limit::NONE).map(Self),
        )
    }
}

impl<S: ListenerSocket> TcpListener<S> {
    /// Returns the address and the port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Returns the next connection, and the address of its peer. Blocks the calling G until a peer has connected.
    ///
    /// # Errors
    ///
    /// If the device is broken. On the host, [`NetError::OutOfResources`] if the process may not have one more
    /// connection, which then waits for a later call.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn accept(&self) -> Result<(TcpStream<S::Stream>, SocketAddr), NetError> {
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
    pub fn accept_until<'l>(
        &self,
        limit: impl Into<Limit<'l, S::Platform>>,
    ) -> Result<(TcpStream<S::Stream>, SocketAddr), NetError> {
        let stream = self.0.accept(limit.into())?;
        let peer = stream.peer_addr();
        Ok((TcpStream(stream), peer))
    }

    /// Returns a receiver for a case of a `select!`. It gets a value when a connection can be accepted. A value that is
    /// old, or that came before another G used the listener, says nothing any more: the call may have to wait. So take
    /// the receiver anew for each select, and give the call after the select a limit if other Gs use the listener. The
    /// channel is closed when the listener is dropped.
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

    /// Returns an iterator over the connections, which never ends. A call of `next` returns errors, blocks and panics
    /// like [`accept`](Self::accept).
    #[must_use]
    pub fn incoming(&self) -> Incoming<'_, S> {
        Incoming(self)
    }
}

/// An iterator over the connections of a listener: [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a, S: ListenerSocket>(&'a TcpListener<S>);

impl<S: ListenerSocket> Iterator for Incoming<'_, S> {
    type Item = Result<TcpStream<S::Stream>, NetError>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}
