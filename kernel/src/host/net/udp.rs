//! UDP sockets of the operating system.

use core::fmt;
use core::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use kernel_net::{NetError, ToSocketAddr, datagram_peer, longest_datagram};

use super::readiness::{Watched, Way};
use super::{Counted, UDP_SOCKETS, error, lookup_name, loopback};
use crate::host::platform::{Limit, Receiver};

/// A UDP socket. See [`kernel_net::UdpSocket`], which the machine has.
pub struct UdpSocket {
    socket: Watched<mio::net::UdpSocket>,
    address: SocketAddr,
    peer: Mutex<Option<SocketAddr>>,
    _counted: Counted,
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("port", &self.address.port()).finish()
    }
}

impl UdpSocket {
    /// Makes a socket with a port of the host's loopback address. The address is `0.0.0.0` or `127.0.0.1`, which is the
    /// same here, or for peers of the kind IPv6 `[::]` or `[::1]`. The port 0 stands for a free one.
    ///
    /// # Errors
    ///
    /// If the address is not valid, another socket has the port, or the host refuses it.
    pub fn bind(address: impl ToSocketAddr) -> Result<Self, NetError> {
        kernel_net::with_each(address, |name, port| lookup_name(name, port, Limit::NONE), Self::bind_to)
    }

    fn bind_to(address: SocketAddr) -> Result<Self, NetError> {
        let socket = mio::net::UdpSocket::bind(loopback(address)?);
        let socket = socket.map_err(|it| error(&it))?;
        let address = socket.local_addr().map_err(|it| error(&it))?;
        Ok(Self {
            socket: Watched::new(socket)?,
            address,
            peer: Mutex::new(None),
            _counted: Counted::new(&UDP_SOCKETS),
        })
    }

    /// Returns the address and the port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Sets the peer of [`send`](Self::send) and [`recv`](Self::recv). From now on, datagrams of others are dropped.
    ///
    /// # Errors
    ///
    /// If the address is not valid, or of another kind than that of the socket. If the name has no such address.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn connect(&self, address: impl ToSocketAddr) -> Result<(), NetError> {
        let peer = self.with_peer(address, Limit::NONE, Ok)?;
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = Some(peer);
        Ok(())
    }

    fn peer(&self) -> Option<SocketAddr> {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a datagram to an address. Returns its length. Blocks the calling G until there is room for it.
    ///
    /// # Errors
    ///
    /// [`NetError::MessageTooLong`] for more than [`MAX_DATAGRAM`](super::MAX_DATAGRAM) bytes, or 20 less with
    /// IPv6. Other errors if the address is not valid, the name has no address, or the host refuses it. That nobody receives the datagram is no error.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn send_to(&self, data: &[u8], address: impl ToSocketAddr) -> Result<usize, NetError> {
        self.send_to_until(data, address, Limit::NONE)
    }

    /// Like [`send_to`](Self::send_to), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// In the cases of [`send_to`](Self::send_to), and if the limit ends the wait. Nothing was sent then.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn send_to_until<'l>(
        &self,
        data: &[u8],
        address: impl ToSocketAddr,
        limit: impl Into<Limit<'l>>,
    ) -> Result<usize, NetError> {
        let limit = limit.into();
        self.with_peer(address, limit, |peer| {
            if data.len() > longest_datagram(self.address) {
                return Err(NetError::MessageTooLong);
            }
            self.socket.wait(Way::Write, limit, |socket| socket.send_to(data, peer))
        })
    }

    /// Calls `act` with an address, or with the addresses of a name until it succeeds once.
    #[track_caller]
    fn with_peer<R>(
        &self,
        address: impl ToSocketAddr,
        limit: Limit<'_>,
        mut act: impl FnMut(SocketAddr) -> Result<R, NetError>,
    ) -> Result<R, NetError> {
        gmp_sched::native::assert_may_wait();
        kernel_net::with_each(
            address,
            |name, port| lookup_name(name, port, limit),
            |peer| act(datagram_peer(self.address, peer)?),
        )
    }

    /// Sends a datagram to the peer of [`connect`](Self::connect). Returns its length. Blocks like
    /// [`send_to`](Self::send_to).
    ///
    /// # Errors
    ///
    /// [`NetError::InvalidInput`] if the socket has no peer. Otherwise in the cases of [`send_to`](Self::send_to).
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn send(&self, data: &[u8]) -> Result<usize, NetError> {
        self.send_to(data, self.peer().ok_or(NetError::InvalidInput)?)
    }

    /// Receives a datagram. Returns its length and the address of its sender. What does not fit into `buffer` is
    /// dropped. Blocks the calling G until there is a datagram.
    ///
    /// # Errors
    ///
    /// If the host reports an error.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn recv_from(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), NetError> {
        self.recv_from_until(buffer, Limit::NONE)
    }

    /// Like [`recv_from`](Self::recv_from), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// In the cases of [`recv_from`](Self::recv_from), and if the limit ends the wait.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn recv_from_until<'l>(
        &self,
        buffer: &mut [u8],
        limit: impl Into<Limit<'l>>,
    ) -> Result<(usize, SocketAddr), NetError> {
        self.socket.wait(Way::Read, limit.into(), |socket| {
            loop {
                let (bytes, sender) = socket.recv_from(buffer)?;
                if self.peer().is_none_or(|peer| peer == sender) {
                    return Ok((bytes, sender));
                }
            }
        })
    }

    /// Returns a receiver for a case of a `select!`. It gets a value when a datagram has arrived. Later, or if another G uses
    /// the socket, the value may not be true any more. So take the receiver anew for each select, and give the call after
    /// it a limit if others could come first. The channel is closed when the socket is dropped.
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
        self.socket.select(Way::Read)
    }

    /// Like [`recv_from`](Self::recv_from), without the address of the sender.
    ///
    /// # Errors
    ///
    /// In the cases of [`recv_from`](Self::recv_from).
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn recv(&self, buffer: &mut [u8]) -> Result<usize, NetError> {
        self.recv_from(buffer).map(|(bytes, _)| bytes)
    }
}
