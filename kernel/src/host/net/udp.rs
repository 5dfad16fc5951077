//! UDP sockets of the operating system.

use alloc::vec::Vec;
use core::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use kernel_net::{DatagramSocket, NetError, Open, Socket, Way};

use super::readiness::Watched;
use super::{Counted, UDP_SOCKETS, assert_may_block, error, lookup_name, loopback};
use crate::host::platform::{Kernel, Limit, Receiver};

/// A UDP socket.
#[expect(missing_debug_implementations, reason = "the type that programs use implements it")]
pub struct Datagrams {
    socket: Watched<mio::net::UdpSocket>,
    address: SocketAddr,
    peer: Mutex<Option<SocketAddr>>,
    _counted: Counted,
}

impl Socket for Datagrams {
    type Platform = Kernel;

    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn selectable(&self, way: Way) -> Result<Receiver<()>, NetError> {
        self.socket.select(way)
    }
}

impl Open for Datagrams {
    fn lookup(name: &str, port: u16, limit: Limit<'_>) -> Result<Vec<SocketAddr>, NetError> {
        lookup_name(name, port, limit)
    }

    fn open(address: SocketAddr, _: Limit<'_>) -> Result<Self, NetError> {
        assert_may_block();
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
}

impl DatagramSocket for Datagrams {
    fn lookup(&self, name: &str, port: u16, limit: Limit<'_>) -> Result<Vec<SocketAddr>, NetError> {
        lookup_name(name, port, limit)
    }

    fn peer(&self) -> Option<SocketAddr> {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the host reports errors of the peer to the socket, and drops datagrams of other senders. Such
    /// datagrams that have arrived before are dropped by `receive`.
    fn set_peer(&self, peer: SocketAddr) -> Result<(), NetError> {
        assert_may_block();
        self.socket.socket().connect(peer).map_err(|it| error(&it))?;
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = Some(peer);
        Ok(())
    }

    fn send(&self, data: &[u8], to: SocketAddr, limit: Limit<'_>) -> Result<usize, NetError> {
        self.socket.wait(Way::Write, limit, |socket| {
            // On some systems `send_to` fails if the socket has a peer.
            if self.peer() == Some(to) { socket.send(data) } else { socket.send_to(data, to) }
        })
    }

    fn receive(&self, buffer: &mut [u8], limit: Limit<'_>) -> Result<(usize, SocketAddr), NetError> {
        self.socket.wait(Way::Read, limit, |socket| {
            loop {
                let (bytes, sender) = socket.recv_from(buffer)?;
                if self.peer().is_none_or(|peer| peer == sender) {
                    return Ok((bytes, sender));
                }
            }
        })
    }
}
