//! UDP sockets of a stack.

use alloc::vec::Vec;
use core::net::SocketAddr;

use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;
use gmp_sched::platform::Platform;
use smoltcp::socket::udp::{SendError, UdpMetadata};
use smoltcp::wire::IpEndpoint;

use super::{Network, Stack};
use crate::abandoned::caller;
use crate::address::{ToSocketAddr, lookup_name};
use crate::error::NetError;
use crate::readiness::Waits;
use crate::socket::{DatagramSocket, Open, Socket, Way};
use crate::state::State;
use crate::udp::UdpSocket;

/// A UDP socket of a stack.
#[expect(missing_debug_implementations, reason = "the type that programs use implements it")]
pub struct StackDatagrams<Plat: Platform> {
    stack: &'static Stack<Plat>,
    index: usize,
    waits: &'static Waits<Plat>,
    address: SocketAddr,
}

impl<Plat: Platform> UdpSocket<StackDatagrams<Plat>> {
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
        StackDatagrams::bind(stack, address.to_socket_addr()?).map(Self)
    }
}

impl<Plat: Platform> StackDatagrams<Plat> {
    #[track_caller]
    fn bind(stack: &'static Stack<Plat>, address: SocketAddr) -> Result<Self, NetError> {
        stack.bind(address.ip(), |state| {
            let (index, port) = state.bind_datagrams(address)?;
            state.note_user(index, caller::<Plat>());
            let waits = state.waits(index);
            Ok(Self { stack, index, waits, address: SocketAddr::new(address.ip(), port) })
        })
    }
}

impl<Plat: Platform> Socket for StackDatagrams<Plat> {
    type Platform = Plat;

    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn selectable(&self, way: Way) -> Result<Receiver<(), Plat>, NetError> {
        let user = caller::<Plat>();
        self.stack.owner().with(|state| {
            state.note_user(self.index, user);
            state.selectable(self.index, way)
        })
    }
}

impl<Plat: Network> Open for StackDatagrams<Plat> {
    fn lookup(name: &str, port: u16, limit: Limit<'_, Plat>) -> Result<Vec<SocketAddr>, NetError> {
        lookup_name(name, port, limit)
    }

    fn open(address: SocketAddr, _: Limit<'_, Plat>) -> Result<Self, NetError> {
        Self::bind(Plat::stack(address.ip())?, address)
    }
}

impl<Plat: Platform> DatagramSocket for StackDatagrams<Plat> {
    fn lookup(&self, name: &str, port: u16, limit: Limit<'_, Plat>) -> Result<Vec<SocketAddr>, NetError> {
        self.stack.lookup_with_port(name, port, limit)
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.stack.owner().with(|state| state.connection(self.index).and_then(|socket| socket.peer))
    }

    fn set_peer(&self, peer: SocketAddr) -> Result<(), NetError> {
        self.stack.owner().with(|state| {
            if let Some(socket) = state.connection(self.index) {
                (socket.peer, socket.refusal) = (Some(peer), None);
            }
        });
        Ok(())
    }

    fn send(&self, data: &[u8], to: SocketAddr, limit: Limit<'_, Plat>) -> Result<usize, NetError> {
        let user = caller::<Plat>();
        self.stack.wait_for_source(to.ip(), limit)?;
        self.stack.owner().wait(limit, &self.waits.writable, |state| {
            state.note_user(self.index, user);
            let local_address = state.source(to.ip()).filter(|_| self.address.ip().is_unspecified()).map(Into::into);
            let connection = state.connection(self.index)?;
            if let Err(error) = connection.check_datagrams() {
                return Some(Err(error));
            }
            let to = UdpMetadata { local_address, ..UdpMetadata::from(IpEndpoint::from(to)) };
            match connection.datagrams().send_slice(data, to) {
                Ok(()) => {
                    state.settle(self.index, state.now());
                    Some(Ok(data.len()))
                }
                Err(SendError::BufferFull) => None,
                Err(SendError::Unaddressable) => Some(Err(NetError::AddrNotAvailable)),
            }
        })
    }

    fn receive(&self, buffer: &mut [u8], limit: Limit<'_, Plat>) -> Result<(usize, SocketAddr), NetError> {
        let user = caller::<Plat>();
        self.stack.owner().wait(limit, &self.waits.readable, |state| {
            state.note_user(self.index, user);
            if let Err(error) = state.connection(self.index)?.check_datagrams() {
                return Some(Err(error));
            }
            take(state, self.index, buffer).map(Ok)
        })
    }
}

impl<Plat: Platform> Drop for StackDatagrams<Plat> {
    fn drop(&mut self) {
        self.stack.owner().with(|state| state.remove_datagrams(self.index));
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
