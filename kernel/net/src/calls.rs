//! What programs do with the state of a stack: listeners, new connections, and the end of both.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use gmp_sched::chan::Receiver;
use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::time::Instant;
use smoltcp::socket::tcp::State as TcpState;
use smoltcp::wire::IpCidr;

use crate::abandoned::Users;
use crate::connection::{Connection, Owner};
use crate::error::NetError;
use crate::key::{Key, Protocol, unspecified};
use crate::packet::std_duration;
use crate::readiness::{Readiness, Waits};
use crate::socket::Way;
use crate::state::{BACKLOG, HALF_OPEN, Listener, Place, SILENCE, State};

/// The ports that are chosen for connections, and for listeners without a fixed port.
const FIRST_FREE_PORT: u16 = 49_152;
const FREE_PORTS: u16 = 1 << 14;

impl<Plat: Platform> State<Plat> {
    /// Makes a listener. Returns its index, its port, and the wait queues: `accept` waits in `readable`.
    pub(crate) fn listen(&mut self, at: SocketAddr) -> Result<(usize, u16, &'static Waits<Plat>), NetError> {
        let address = at.ip();
        let is_free = |port: &u16| !self.is_listened(address, *port);
        let port = match at.port() {
            0 => (FIRST_FREE_PORT..=u16::MAX).find(is_free),
            port => Some(port).filter(is_free),
        };
        let port = port.ok_or(NetError::AddrInUse)?;
        let (mut half_open, mut ready) = (Vec::new(), VecDeque::new());
        half_open.try_reserve_exact(BACKLOG).map_err(|_| OutOfResources)?;
        ready.try_reserve_exact(BACKLOG).map_err(|_| OutOfResources)?;
        let unused = self.listeners.iter().position(|place| place.listener.is_none() && !place.is_abandoned);
        let index = unused.unwrap_or(self.listeners.len());
        if unused.is_none() {
            self.listeners.try_reserve(1).map_err(|_| OutOfResources)?;
            self.listeners.push(Place {
                listener: None,
                waits: Waits::allocate()?,
                select: Readiness::new(),
                users: Users::Nobody,
                is_abandoned: false,
            });
        }
        let place = &mut self.listeners[index];
        (place.listener, place.users) = (Some(Listener { address, port, half_open, ready }), Users::Nobody);
        Ok((index, port, self.listeners[index].waits))
    }

    /// Whether there is a listener with this port, and with this address or, if one of the two is unspecified, with any of
    /// its kind.
    fn is_listened(&self, address: IpAddr, port: u16) -> bool {
        let mut listeners = self.listeners.iter().filter_map(|place| place.listener.as_ref());
        listeners.any(|other| other.port == port && overlap(other.address, address))
    }

    /// Makes a connection for the listener of this port. Returns `None` if there is no listener.
    ///
    /// # Errors
    /// If the listener has no room, or there is no memory.
    pub(crate) fn half_open(&mut self, key: Key) -> Result<Option<usize>, OutOfResources> {
        let takes = |it: &Listener| it.port == key.port && overlap(it.address, key.local);
        let place = self.listeners.iter().position(|place: &Place<Plat>| place.listener.as_ref().is_some_and(takes));
        let Some(index) = place else { return Ok(None) };
        let Some(listener) = &mut self.listeners[index].listener else { return Ok(None) };
        if listener.half_open.len() + listener.ready.len() >= BACKLOG {
            return Err(OutOfResources);
        }
        let added = self.connections.add(key, Owner::HalfOpen(index))?;
        // There is room for the whole backlog.
        listener.half_open.push(added);
        let socket = self.connections.get(added).ok_or(OutOfResources)?.socket();
        socket.set_timeout(std_duration(HALF_OPEN));
        // The socket is new, and the port is not zero.
        let _ = socket.listen(key.port);
        Ok(Some(added))
    }

    /// Removes a connection from the half-open ones of a listener.
    pub(crate) fn leave_half_open(&mut self, listener: usize, connection: usize) {
        if let Some(listener) = &mut self.listeners[listener].listener {
            listener.half_open.retain(|&index| index != connection);
        }
    }

    /// Returns the receiver for a select that waits for a connection.
    pub(crate) fn acceptable(&mut self, listener: usize) -> Result<Receiver<(), Plat>, NetError> {
        let is_broken = self.check_link().is_err();
        let Place { listener, select, is_abandoned, .. } = &mut self.listeners[listener];
        let has_ready = listener.as_ref().is_some_and(|listener| !listener.ready.is_empty());
        select.receiver(|| is_broken || *is_abandoned || has_ready)
    }

    /// Returns the receiver for a select that waits for a read or a write of a connection or a UDP socket.
    pub(crate) fn selectable(&mut self, index: usize, way: Way) -> Result<Receiver<(), Plat>, NetError> {
        let is_broken = self.check_link().is_err();
        let (selects, is_ready) = self.connections.selects(index);
        selects[way as usize].receiver(|| is_broken || is_ready[way as usize])
    }

    /// Takes the next connection that waits for `accept`. It belongs to the caller from now on.
    pub(crate) fn accept(&mut self, listener: usize) -> Option<usize> {
        let Place { listener, select, .. } = &mut self.listeners[listener];
        let ready = &mut listener.as_mut()?.ready;
        let index = ready.pop_front()?;
        if !ready.is_empty() {
            select.announce();
        }
        self.connections.get(index)?.owner = Owner::Stream;
        Some(index)
    }

    /// Ends a listener. Its connections that no program has accepted are reset.
    pub(crate) fn unlisten(&mut self, index: usize, now: Instant) {
        (self.listeners[index].is_abandoned, self.listeners[index].select) = (false, Readiness::new());
        let Some(listener) = self.listeners[index].listener.take() else { return };
        listener.half_open.into_iter().chain(listener.ready).for_each(|connection| self.release(connection, now));
    }

    /// Makes a UDP socket. Returns its index and its port. The port 0 stands for a free one.
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

    /// Whether an address is that of at most one computer.
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
        let is_used = |port| is_own_end(port) || self.is_listened(local, port);
        let is_free = |port: &u16| !is_used(*port) && self.connections.find(key(*port)).is_none();
        let is_free = |port: &u16| is_free(port) && !self.time_waits.has(key(*port), now);
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

/// Whether two addresses are equal, or of one kind and one of them stands for all of this kind.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    one == other || ((one.is_unspecified() || other.is_unspecified()) && one.is_ipv4() == other.is_ipv4())
}
