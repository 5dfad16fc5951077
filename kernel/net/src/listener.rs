//! Listeners.

use core::fmt;
use core::net::SocketAddr;

use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;
use gmp_sched::platform::Platform;
use gmp_sched::time;

use crate::abandoned::caller;
use crate::address::{ToSocketAddr, lookup_name, with_each};
use crate::error::NetError;
use crate::readiness::Waits;
use crate::stack::{Network, Stack};
use crate::stream::TcpStream;

/// A port on which peers can connect. The peers of up to 128 connections can be confirmed before the program accepts
/// them. Dropping the listener resets those that it has not accepted.
pub struct TcpListener<Plat: Platform> {
    stack: &'static Stack<Plat>,
    index: usize,
    address: SocketAddr,
    waits: &'static Waits<Plat>,
}

impl<Plat: Platform> fmt::Debug for TcpListener<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("address", &self.address).finish()
    }
}

impl<Plat: Network> TcpListener<Plat> {
    /// Listens on a port. The address is `0.0.0.0` for peers in the network, or `127.0.0.1` for this computer itself; for
    /// connections of the kind IPv6, `[::]` or `[::1]`. A listener at `[::]` takes only those of this kind, so a server for
    /// both kinds has two listeners. The port 0 stands for a free one.
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
            |name, port| lookup_name::<Plat>(name, port, Limit::NONE),
            |address| Self::bind_on(Plat::stack(address.ip())?, address),
        )
    }
}

impl<Plat: Platform> TcpListener<Plat> {
    /// Like [`bind`](Self::bind), on this stack. The address is `0.0.0.0`, `[::]`, or one of the stack.
    ///
    /// # Errors
    ///
    /// In the cases of [`bind`](Self::bind).
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn bind_on(stack: &'static Stack<Plat>, address: impl ToSocketAddr) -> Result<Self, NetError> {
        let address = address.to_socket_addr()?;
        if !stack.can_bind(address.ip()) {
            return Err(NetError::AddrNotAvailable);
        }
        stack.with(|state| {
            state.check_link()?;
            let (index, port, waits) = state.listen(address)?;
            Ok(Self { stack, index, address: SocketAddr::new(address.ip(), port), waits })
        })
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
    /// If the device is broken.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn accept(&self) -> Result<(TcpStream<Plat>, SocketAddr), NetError> {
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
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<(TcpStream<Plat>, SocketAddr), NetError> {
        let user = caller::<Plat>();
        let stream = self.stack.wait(limit.into(), &self.waits.readable, |state| {
            let place = &mut state.listeners[self.index];
            if place.is_abandoned {
                return Some(Err(NetError::ConnectionReset));
            }
            place.users.add(user);
            let index = state.accept(self.index)?;
            Some(Ok(TcpStream::new(self.stack, state, index, user)))
        })?;
        let peer = stream.peer_addr();
        Ok((stream, peer))
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
    pub fn readable(&self) -> Result<Receiver<(), Plat>, NetError> {
        let user = caller::<Plat>();
        self.stack.with(|state| {
            state.listeners[self.index].users.add(user);
            state.acceptable(self.index)
        })
    }

    /// Returns an iterator over the connections, which never ends. A call of `next` returns errors, blocks and panics
    /// like [`accept`](Self::accept).
    #[must_use]
    pub fn incoming(&self) -> Incoming<'_, Plat> {
        Incoming(self)
    }
}

impl<Plat: Platform> Drop for TcpListener<Plat> {
    fn drop(&mut self) {
        self.stack.with(|state| state.unlisten(self.index, time::now::<Plat>()));
    }
}

/// An iterator over the connections of a listener: [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a, Plat: Platform>(&'a TcpListener<Plat>);

impl<Plat: Platform> Iterator for Incoming<'_, Plat> {
    type Item = Result<TcpStream<Plat>, NetError>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}
