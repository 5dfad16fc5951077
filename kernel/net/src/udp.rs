//! UDP sockets.

use core::fmt;
use core::net::SocketAddr;

use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;
use gmp_sched::platform::Platform;
use gmp_sched::time;
use smoltcp::socket::udp::{SendError, UdpMetadata};
use smoltcp::wire::IpEndpoint;

use crate::abandoned::caller;
use crate::address::{ToSocketAddr, datagram_peer, lookup_name, with_each};
use crate::connections::Owner;
use crate::error::NetError;
use crate::link::FRAME_BYTES;
use crate::readiness::Waits;
use crate::stack::{Network, Stack};
use crate::state::State;

/// The largest datagram: what fits into a frame beside the headers of Ethernet, IPv4 and UDP. Datagrams are not split. The
/// header of IPv6 is 20 bytes longer, so datagrams of this kind are that much shorter.
pub const MAX_DATAGRAM: usize = FRAME_BYTES - 14 - 20 - 8;

/// Returns the length of the largest datagram of the kind of `address`.
#[must_use]
pub const fn longest_datagram(address: SocketAddr) -> usize {
    if address.is_ipv4() { MAX_DATAGRAM } else { MAX_DATAGRAM - 20 }
}

/// A UDP socket. All functions take `&self`, so several Gs can use a socket, each receiving or sending.
///
/// A datagram may be lost, also if the program does not receive for a while: a socket keeps up to 16 datagrams.
pub struct UdpSocket<Plat: Platform> {
    stack: &'static Stack<Plat>,
    index: usize,
    waits: &'static Waits<Plat>,
    address: SocketAddr,
}

impl<Plat: Platform> fmt::Debug for UdpSocket<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("address", &self.address).finish()
    }
}

impl<Plat: Network> UdpSocket<Plat> {
    /// Makes a socket with a port. The address is `0.0.0.0` for peers in the network, or `127.0.0.1` for this computer
    /// itself; for peers of the kind IPv6, `[::]` or `[::1]`. The port 0 stands for a free one.
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
            |name, port| lookup_name::<Plat>(name, port, Limit::NONE),
            |address| Self::bind_on(Plat::stack(address.ip())?, address),
        )
    }
}

impl<Plat: Platform> UdpSocket<Plat> {
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
            let (index, port) = state.bind_datagrams(address)?;
            state.note_user(index, caller::<Plat>());
            let waits = state.waits(index);
            Ok(Self { stack, index, waits, address: SocketAddr::new(address.ip(), port) })
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
        self.stack.with(|state| state.connection(self.index).map(|socket| socket.peer = Some(peer)));
        Ok(())
    }

    /// Sends a datagram to an address. Returns its length. Blocks the calling G until there is room for it, and until
    /// the computer has an address.
    ///
    /// # Errors
    ///
    /// [`NetError::MessageTooLong`] for more than [`MAX_DATAGRAM`] bytes, or 20 less with IPv6. Other
    /// errors if the address is not valid, the name has no address, or the device is broken. That nobody receives the datagram is no error.
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
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<usize, NetError> {
        let limit = limit.into();
        self.with_peer(address, limit, |peer| self.send_limited(data, Some(peer), limit))
    }

    /// Calls `act` with an address, or with the addresses of a name until it succeeds once.
    #[track_caller]
    fn with_peer<'l, R>(
        &self,
        address: impl ToSocketAddr,
        limit: Limit<'l, Plat>,
        mut act: impl FnMut(SocketAddr) -> Result<R, NetError>,
    ) -> Result<R, NetError> {
        with_each(
            address,
            |name, port| self.stack.lookup_with_port(name, port, limit),
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
        self.send_limited(data, None, Limit::NONE)
    }

    #[track_caller]
    fn send_limited(&self, data: &[u8], to: Option<SocketAddr>, limit: Limit<'_, Plat>) -> Result<usize, NetError> {
        if data.len() > longest_datagram(self.address) {
            return Err(NetError::MessageTooLong);
        }
        let user = caller::<Plat>();
        let chosen = self.stack.with(|state| state.connection(self.index).and_then(|socket| socket.peer));
        let to = to.or(chosen).ok_or(NetError::InvalidInput)?;
        self.stack.wait_for_source(to.ip(), limit)?;
        self.stack.wait(limit, &self.waits.writable, |state| {
            state.note_user(self.index, user);
            let local_address = state.source(to.ip()).filter(|_| self.address.ip().is_unspecified()).map(Into::into);
            let connection = state.connection(self.index)?;
            if connection.owner == Owner::Abandoned {
                return Some(Err(NetError::ConnectionReset));
            }
            let to = UdpMetadata { local_address, ..UdpMetadata::from(IpEndpoint::from(to)) };
            match connection.datagrams().send_slice(data, to) {
                Ok(()) => {
                    state.settle(self.index, time::now::<Plat>());
                    Some(Ok(data.len()))
                }
                Err(SendError::BufferFull) => None,
                Err(SendError::Unaddressable) => Some(Err(NetError::AddrNotAvailable)),
            }
        })
    }

    /// Receives a datagram. Returns its length and the address of its sender. What does not fit into `buffer` is
    /// dropped. Blocks the calling G until there is a datagram.
    ///
    /// # Errors
    ///
    /// If the device is broken.
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
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<(usize, SocketAddr), NetError> {
        let user = caller::<Plat>();
        self.stack.wait(limit.into(), &self.waits.readable, |state| {
            state.note_user(self.index, user);
            if state.connection(self.index)?.owner == Owner::Abandoned {
                return Some(Err(NetError::ConnectionReset));
            }
            take(state, self.index, buffer).map(Ok)
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
    pub fn readable(&self) -> Result<Receiver<(), Plat>, NetError> {
        let user = caller::<Plat>();
        self.stack.with(|state| {
            state.note_user(self.index, user);
            state.selectable(self.index, 0)
        })
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

impl<Plat: Platform> Drop for UdpSocket<Plat> {
    fn drop(&mut self) {
        self.stack.with(|state| state.remove_datagrams(self.index));
    }
}

/// Takes the next datagram of a socket, if there is one. Drops those that are not of the socket's peer.
fn take<Plat: Platform>(state: &mut State<Plat>, index: usize, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    let connection = state.connection(index)?;
    let peer = connection.peer;
    loop {
        let (data, UdpMetadata { endpoint, .. }) = connection.datagrams().recv().ok()?;
        let sender = SocketAddr::new(endpoint.addr.into(), endpoint.port);
        if peer.is_none_or(|peer| peer == sender) {
            let bytes = data.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&data[..bytes]);
            return Some((bytes, sender));
        }
    }
}
