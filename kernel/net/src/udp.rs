//! UDP sockets, as programs use them.

use core::fmt;
use core::net::SocketAddr;

use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;

use crate::address::{ToSocketAddr, datagram_peer, with_each};
use crate::error::NetError;
use crate::link::FRAME_BYTES;
use crate::socket::{DatagramSocket, Open, Way};

/// The largest datagram: what fits into a frame beside the headers of Ethernet, IPv4 and UDP. Datagrams are not split.
/// The header of IPv6 is 20 bytes longer, so the largest datagram over IPv6 is 20 bytes shorter.
pub const MAX_DATAGRAM: usize = FRAME_BYTES - 14 - 20 - 8;

/// Returns the length of the largest datagram of the kind of `address`.
const fn longest_datagram(address: SocketAddr) -> usize {
    if address.is_ipv4() { MAX_DATAGRAM } else { MAX_DATAGRAM - 20 }
}

/// A UDP socket. All functions take `&self`, so several Gs can use a socket, each receiving or sending.
///
/// A datagram may be lost, also if the program does not receive for a while: a socket keeps up to 16 datagrams.
pub struct UdpSocket<S: DatagramSocket>(pub(crate) S);

impl<S: DatagramSocket> fmt::Debug for UdpSocket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("address", &self.local_addr()).finish()
    }
}

impl<S: Open + DatagramSocket> UdpSocket<S> {
    /// Makes a socket with a port. The address is `0.0.0.0` for peers in the network, or `127.0.0.1` for this computer
    /// itself; for IPv6 peers, `[::]` or `[::1]`. For port 0, a free port is chosen.
    ///
    /// # Errors
    ///
    /// If there is no network, the address is not valid, another socket has the port, or there is no memory.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn bind(address: impl ToSocketAddr) -> Result<Self, NetError> {
        with_each(
            address,
            |name, port| <S as Open>::lookup(name, port, Limit::NONE),
            |address| S::open(address, Limit::NONE).map(Self),
        )
    }
}

impl<S: DatagramSocket> UdpSocket<S> {
    /// Returns the address and the port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Sets the peer of [`send`](Self::send) and [`recv`](Self::recv). From now on, datagrams of others are dropped. If the
    /// peer refuses a datagram, because no socket has the port, the next call that sends or receives returns
    /// [`NetError::ConnectionRefused`], once.
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
        self.0.set_peer(peer)
    }

    /// Sends a datagram to an address. Returns its length. Blocks the calling G until there is room for it, and until
    /// the computer has an address.
    ///
    /// # Errors
    ///
    /// [`NetError::MessageTooLong`] for more than [`MAX_DATAGRAM`] bytes, or with IPv6 20 bytes fewer. Other errors if
    /// the address is not valid, the name has no address, the device is broken, or the [peer](Self::connect) has refused
    /// an earlier datagram. That nobody receives this datagram is no error of this call.
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
        limit: impl Into<Limit<'l, S::Platform>>,
    ) -> Result<usize, NetError> {
        let limit = limit.into();
        self.with_peer(address, limit, |peer| self.send_limited(data, peer, limit))
    }

    /// Calls `act` with an address, or with the addresses of a name until it succeeds once.
    #[track_caller]
    fn with_peer<R>(
        &self,
        address: impl ToSocketAddr,
        limit: Limit<'_, S::Platform>,
        mut act: impl FnMut(SocketAddr) -> Result<R, NetError>,
    ) -> Result<R, NetError> {
        with_each(
            address,
            |name, port| self.0.lookup(name, port, limit),
            |peer| act(datagram_peer(self.local_addr(), peer)?),
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
        self.send_limited(data, self.0.peer().ok_or(NetError::InvalidInput)?, Limit::NONE)
    }

    #[track_caller]
    fn send_limited(&self, data: &[u8], to: SocketAddr, limit: Limit<'_, S::Platform>) -> Result<usize, NetError> {
        if data.len() > longest_datagram(self.local_addr()) {
            return Err(NetError::MessageTooLong);
        }
        self.0.send(data, to, limit)
    }

    /// Receives a datagram. Returns its length and the address of its sender. What does not fit into `buffer` is
    /// dropped. Blocks the calling G until there is a datagram.
    ///
    /// # Errors
    ///
    /// If the device is broken, or the peer has refused an earlier datagram: see [`connect`](Self::connect).
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
        limit: impl Into<Limit<'l, S::Platform>>,
    ) -> Result<(usize, SocketAddr), NetError> {
        self.0.receive(buffer, limit.into())
    }

    /// Returns a receiver for a case of a `select!`. It gets a value when a datagram has arrived. A value that is old,
    /// or that came before another G used the socket, says nothing any more: the call may have to wait. So take the
    /// receiver anew for each select, and give the call after the select a limit if other Gs use the socket. The
    /// channel is closed when the socket is dropped.
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
