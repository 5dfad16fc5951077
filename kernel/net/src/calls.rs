//! What programs do with the state of a shard: new connections and UDP sockets, and the end of both.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use gmp_sched::chan::Receiver;
use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::time::Instant;
use smoltcp::socket::tcp::State as TcpState;
use smoltcp::wire::IpCidr;

use crate::connection::{Connection, Owner};
use crate::error::NetError;
use crate::key::{Key, Protocol, overlap, unspecified};
use crate::listeners::ConnectionId;
use crate::packet::std_duration;
use crate::readiness::{Served as _, Waits};
use crate::socket::Way;
use crate::state::{FIRST_FREE_PORT, HALF_OPEN, SILENCE, State};

/// How many ports are chosen for connections.
const FREE_PORTS: u16 = 1 << 14;

impl<Plat: Platform> State<Plat> {
    /// Makes a connection for the listener of this port. Returns `None` if there is no listener.
    ///
    /// # Errors
    /// If the listener has no room, or there is no memory.
    pub(crate) fn half_open(&mut self, key: Key) -> Result<Option<usize>, OutOfResources> {
        let (listeners, shard) = (self.listeners, self.shard);
        let added = listeners.begin(key, |listener| {
            let index = self.connections.add(key, Owner::HalfOpen(listener))?;
            let socket = self.connections.get(index).ok_or(OutOfResources)?.socket();
            socket.set_timeout(std_duration(HALF_OPEN));
            // The socket is new, and the port is not zero.
            let _ = socket.listen(key.port);
            Ok(ConnectionId { shard, index })
        });
        added.map(|added| added.map(|id| id.index))
    }

    /// Returns the receiver for a select that waits for a read or a write of a connection or a UDP socket.
    pub(crate) fn selectable(&mut self, index: usize, way: Way) -> Result<Receiver<(), Plat>, NetError> {
        let is_broken = self.check_link().is_err();
        let (woken_by, (selects, is_ready)) = (self.woken_by(), self.connections.selects(index));
        selects[way as usize].receiver(woken_by, || is_broken || is_ready[way as usize])
    }

    /// Hands over to the program a connection that `accept` has got from the listeners.
    ///
    /// # Errors
    /// The link is broken. Then the connection was removed.
    pub(crate) fn take_over(&mut self, index: usize) -> Result<(), NetError> {
        let result = self.check_link();
        match self.connections.get(index) {
            Some(connection) if result.is_ok() => connection.owner = Owner::Stream,
            _ => self.connections.remove(index),
        }
        result
    }

    /// Resets a connection that no program has accepted, because its listener has ended.
    pub(crate) fn reset(&mut self, index: usize, listener: usize, now: Instant) {
        let owner = self.connections.get(index).map(|connection| connection.owner);
        // A half-open connection may have ended meanwhile, and another one may have the index.
        if owner == Some(Owner::HalfOpen(listener)) || owner == Some(Owner::Queued(listener)) {
            self.release(index, now);
        }
    }

    /// Makes a UDP socket. Returns its index and its port. For port 0, chooses a free port.
    pub(crate) fn bind_datagrams(&mut self, at: SocketAddr) -> Result<(usize, u16), NetError> {
        let is_free = |port: &u16| {
            let own = self.interface.ip_addrs().iter().map(|own| own.address().into());
            let mut others = own.chain([at.ip(), unspecified(at.ip())]).filter(|&other| overlap(at.ip(), other));
            others.all(|other| self.connections.find(Key::of_datagrams(other, *port)).is_none())
        };
        let port = match at.port() {
            0 => (FIRST_FREE_PORT..=u16::MAX).find(is_free).ok_or(NetError::AddrInUse)?,
            // The client of DHCP has this port.
            68 => return Err(NetError::AddrInUse),
            port => Some(port).filter(is_free).ok_or(NetError::AddrInUse)?,
        };
        let key = Key::of_datagrams(at.ip(), port);
        let index = self.connections.add(key, Owner::Datagrams)?;
        self.udp_sockets += 1;
        if let Some(connection) = self.connections.get(index) {
            // The socket is new, and the port is not zero.
            let _ = connection.datagrams().bind(key.endpoint());
        }
        Ok((index, port))
    }

    /// Returns the UDP socket that gets a datagram for the address and port of `key`.
    pub(crate) fn find_datagrams(&self, key: Key) -> Option<usize> {
        let for_all = || self.connections.find(Key { local: unspecified(key.local), ..key });
        self.connections.find(key).or_else(for_all)
    }

    /// Ends a UDP socket.
    pub(crate) fn remove_datagrams(&mut self, index: usize) {
        if !self.remove_abandoned(index) {
            self.connections.remove(index);
            self.udp_sockets -= 1;
        }
    }

    pub(crate) fn connection(&mut self, index: usize) -> Option<&mut Connection> {
        self.connections.get(index)
    }

    pub(crate) fn waits(&self, index: usize) -> &'static Waits<Plat> {
        self.connections.waits(index)
    }

    /// Whether at most one computer has this address: it is neither unspecified nor a multicast or broadcast address.
    fn is_one_computer(&self, address: IpAddr) -> bool {
        let of_network = |network: &IpCidr| match network {
            IpCidr::Ipv4(network) => network.broadcast().map(IpAddr::V4) == Some(address),
            IpCidr::Ipv6(_) => false,
        };
        let is_for_all = address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST);
        !address.is_unspecified() && !is_for_all && !self.interface.ip_addrs().iter().any(of_network)
    }

    /// Begins a connection to a peer. Returns its index.
    pub(crate) fn connect(&mut self, to: SocketAddr, now: Instant) -> Result<usize, NetError> {
        let (peer, peer_port) = (to.ip(), to.port());
        let local = self.source(peer).filter(|_| self.is_one_computer(peer) && peer_port != 0);
        let local = local.ok_or(NetError::AddrNotAvailable)?;
        let key = |port| Key { protocol: Protocol::Tcp, local, peer, peer_port, port };
        let mut ports = (0..FREE_PORTS).map(|step| FIRST_FREE_PORT + self.last_port.wrapping_add(step) % FREE_PORTS);
        // A connection from this computer to itself with the same port at both ends would get its own segments.
        let is_own_end = |port| port == peer_port && local == peer;
        let is_mine = |port| self.flows.shard_of(&key(port)) == self.shard && !is_own_end(port);
        let is_used = |port| self.connections.find(key(port)).is_some() || self.time_waits.has(key(port), now);
        let is_free = |&port: &u16| is_mine(port) && !is_used(port) && !self.listeners.is_listened(local, port);
        let port = ports.find(is_free).ok_or(NetError::AddrInUse)?;
        self.last_port = port - FIRST_FREE_PORT + 1;
        let index = self.connections.add(key(port), Owner::Stream)?;
        let Some(connection) = self.connections.get(index) else { return Err(NetError::Other) };
        if connection.socket().connect(self.interface.context(), (peer, peer_port), (local, port)).is_err() {
            self.connections.remove(index);
            return Err(NetError::AddrNotAvailable);
        }
        self.settle(index, now);
        Ok(index)
    }

    /// Ends the use of a connection by the program. What was written is still sent. If the program has not read all
    /// data, or has never got the connection, the peer gets a reset.
    pub(crate) fn release(&mut self, index: usize, now: Instant) {
        if self.remove_abandoned(index) {
            return;
        }
        let Some(connection) = self.connections.get(index) else { return };
        let was_used = connection.owner == Owner::Stream;
        (connection.owner, connection.end) = (Owner::Closing, now + SILENCE);
        let socket = connection.socket();
        if was_used && !socket.can_recv() && socket.state() != TcpState::SynSent {
            socket.close();
        } else {
            socket.abort();
        }
        self.connections.close_selects(index);
        self.settle(index, now);
    }
}
