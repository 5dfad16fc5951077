//! What the lock of a stack guards: the link, the connections, and the listeners.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;

use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::time::Instant;
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::dhcpv4;
use smoltcp::socket::tcp::State as TcpState;
use smoltcp::wire::{EthernetAddress, IpCidr, Ipv4Cidr};

use crate::connections::{Connection, Connections, Key, Owner, Waits};
use crate::error::NetError;
use crate::link::{FRAME_BYTES, Link};
use crate::packet::{Class, Packet, classify};
use crate::stack::{Configuration, Usage};

/// The largest number of connections of a listener that are half-open or wait for `accept`.
pub(crate) const BACKLOG: usize = 128;
/// How long a peer may take to confirm a connection.
const HALF_OPEN: Duration = Duration::from_secs(10);
/// How long a peer may leave data without an answer.
const SILENCE: Duration = Duration::from_secs(120);
/// How long a peer may be silent after the program has dropped its stream.
const CLOSING: Duration = Duration::from_secs(30);
/// How long to wait if smoltcp has something to do at once, and has not done it although the link can send.
const PAUSE: Duration = Duration::from_millis(1);

/// A listener.
pub(crate) struct Listener {
    pub(crate) port: u16,
    pub(crate) half_open: usize,
    /// The connections that wait for `accept`.
    pub(crate) ready: VecDeque<usize>,
}

/// A place for a listener. `accept` waits in the queue `readable`.
pub(crate) struct Place<Plat: Platform> {
    pub(crate) listener: Option<Listener>,
    pub(crate) waits: &'static Waits<Plat>,
}

pub(crate) struct State<Plat: Platform> {
    pub(crate) interface: Interface,
    link: Box<dyn Link>,
    pub(crate) connections: Connections<Plat>,
    pub(crate) listeners: Vec<Place<Plat>>,
    /// The client of DHCP. This set also gets the frames that are for no connection.
    services: SocketSet<'static>,
    dhcp: Option<SocketHandle>,
    dhcp_due: Instant,
    /// No connection and no service needs attention before this time.
    first_due: Instant,
    /// The G that serves the link sleeps until this time.
    asleep_until: Instant,
    /// Whether that G waits until the link can send.
    is_stalled: bool,
    /// Whether a packet waits for the address of a neighbour.
    has_asked: bool,
    pub(crate) last_port: u16,
    /// For `connect`, which waits for an address of this computer.
    configured: &'static Waits<Plat>,
    received: Box<[u8; FRAME_BYTES]>,
    room: Box<[u8; FRAME_BYTES]>,
}

/// Returns a time of the scheduler's clock as smoltcp counts it: rounded down, so that nothing happens too early.
fn micros(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros((now.as_nanos() / 1_000) as i64)
}

fn from_micros(at: Option<smoltcp::time::Instant>) -> Instant {
    at.map_or(Instant::NEVER, |at| Instant::from_nanos(u64::try_from(at.total_micros()).unwrap_or(0) * 1_000))
}

fn std_duration(time: Duration) -> Option<smoltcp::time::Duration> {
    Some(smoltcp::time::Duration::from_micros(time.as_micros() as u64))
}

impl<Plat: Platform> State<Plat> {
    pub(crate) fn new(
        mut link: Box<dyn Link>,
        configuration: &Configuration,
        now: Instant,
    ) -> Result<Self, OutOfResources> {
        let mut config = Config::new(EthernetAddress(link.mac()).into());
        config.random_seed = configuration.seed;
        let (mut room, mut has_asked) = (Box::new([0; FRAME_BYTES]), false);
        let mut packet = Packet { link: &mut *link, received: None, room: &mut room, has_asked: &mut has_asked };
        let interface = Interface::new(config, &mut packet, micros(now));
        let mut services = SocketSet::new(Vec::new());
        let dhcp = configuration.address.is_none().then(|| services.add(dhcpv4::Socket::new()));
        let mut state = Self {
            interface,
            link,
            connections: Connections::new(configuration.seed.rotate_left(32)),
            listeners: Vec::new(),
            services,
            dhcp,
            dhcp_due: if dhcp.is_some() { now } else { Instant::NEVER },
            first_due: now,
            asleep_until: Instant::NEVER,
            is_stalled: false,
            has_asked,
            last_port: (configuration.seed >> 16) as u16,
            configured: Waits::allocate()?,
            received: Box::new([0; FRAME_BYTES]),
            room,
        };
        if let Some((address, prefix)) = configuration.address {
            state.configure(Some(Ipv4Cidr::new(address, prefix.min(32))), configuration.gateway);
        }
        Ok(state)
    }

    fn configure(&mut self, address: Option<Ipv4Cidr>, gateway: Option<Ipv4Addr>) {
        self.interface.update_ip_addrs(|addresses| {
            addresses.clear();
            // There is room for two addresses.
            let _ = address.map(|address| addresses.push(IpCidr::Ipv4(address)));
        });
        self.interface.routes_mut().remove_default_ipv4_route();
        if let Some(gateway) = gateway {
            // There is room for a route, because the last one was removed.
            let _ = self.interface.routes_mut().add_default_ipv4_route(gateway);
        }
        self.configured.readable.notify_all();
    }

    pub(crate) fn address(&self) -> Option<Ipv4Addr> {
        self.interface.ipv4_addr()
    }

    pub(crate) fn configured(&self) -> &'static Waits<Plat> {
        self.configured
    }

    pub(crate) fn is_link_up(&self) -> bool {
        self.link.is_up()
    }

    /// # Errors
    /// If the link is broken.
    pub(crate) fn check_link(&self) -> Result<(), NetError> {
        if self.link.is_broken() { Err(NetError::Device) } else { Ok(()) }
    }

    pub(crate) fn usage(&self) -> Usage {
        let listeners = self.listeners.iter().filter_map(|place| place.listener.as_ref());
        Usage {
            connections: self.connections.count(),
            half_open: listeners.clone().map(|listener| listener.half_open).sum(),
            listeners: listeners.count(),
        }
    }

    /// Passes on up to `most` frames that have arrived. Returns whether there may be more.
    pub(crate) fn receive(&mut self, most: usize, now: Instant) -> bool {
        for _ in 0..most {
            // smoltcp may answer a frame at once.
            if !self.link.can_send() {
                return false;
            }
            let Some(bytes) = self.link.receive(&mut self.received) else { return false };
            self.pass_on(bytes, now);
        }
        true
    }

    fn pass_on(&mut self, bytes: usize, now: Instant) {
        let class = classify(&self.received[..bytes]);
        let connection = match class {
            Class::Connection(key, begins) => match self.connections.find(key) {
                None if begins => match self.half_open(key) {
                    Ok(connection) => connection,
                    // The peer tries again.
                    Err(OutOfResources) => return,
                },
                connection => connection,
            },
            _ => None,
        };
        let sockets = match connection.and_then(|index| self.connections.get(index)) {
            Some(connection) => &mut connection.sockets,
            None => &mut self.services,
        };
        let received = Some(&self.received[..bytes]);
        let (link, room, has_asked) = (&mut *self.link, &mut *self.room, &mut self.has_asked);
        self.interface.poll_ingress_single(micros(now), &mut Packet { link, received, room, has_asked }, sockets);
        match (connection, class) {
            (Some(index), _) => self.settle(index, now),
            (None, Class::Neighbour) if core::mem::take(&mut self.has_asked) => {
                self.connections.indices().for_each(|index| self.settle(index, now));
            }
            (None, Class::Other) if self.dhcp.is_some() => self.settle_services(now),
            _ => {}
        }
    }

    /// Makes a connection for the listener of this port. Returns `None` if there is no listener.
    ///
    /// # Errors
    /// If the listener has no room, or there is no memory.
    fn half_open(&mut self, key: Key) -> Result<Option<usize>, OutOfResources> {
        let of_port = |place: &Place<Plat>| place.listener.as_ref().is_some_and(|it| it.port == key.port);
        let Some(index) = self.listeners.iter().position(of_port) else { return Ok(None) };
        let Some(listener) = &mut self.listeners[index].listener else { return Ok(None) };
        if listener.half_open + listener.ready.len() >= BACKLOG {
            return Err(OutOfResources);
        }
        let added = self.connections.add(key, Owner::HalfOpen(index))?;
        listener.half_open += 1;
        let socket = self.connections.get(added).ok_or(OutOfResources)?.socket();
        socket.set_timeout(std_duration(HALF_OPEN));
        // The socket is new, and the port is not zero.
        let _ = socket.listen(key.port);
        Ok(Some(added))
    }

    /// Sends what a connection has to send, and does what the state of its socket requires. Called after each change
    /// of the socket.
    pub(crate) fn settle(&mut self, index: usize, now: Instant) {
        let Some(connection) = self.connections.get(index) else { return };
        limit_silence(connection);
        let (link, room, has_asked) = (&mut *self.link, &mut *self.room, &mut self.has_asked);
        let mut packet = Packet { link, received: None, room, has_asked };
        let at = micros(now);
        while self.interface.poll_egress(at, &mut packet, &mut connection.sockets) != PollResult::None {}
        connection.due = from_micros(self.interface.poll_at(at, &connection.sockets));
        if connection.due <= now && self.link.can_send() {
            connection.due = now + PAUSE;
        }
        self.first_due = self.first_due.min(connection.due);
        self.follow(index);
    }

    /// Does what the state of a connection's socket requires: readies Gs, removes what has ended.
    fn follow(&mut self, index: usize) {
        let Some(connection) = self.connections.get(index) else { return };
        let owner = connection.owner;
        let socket = connection.socket();
        let (state, is_over) = (socket.state(), socket.remote_endpoint().is_none());
        let (can_read, can_write) = (socket.can_recv() || !socket.may_recv(), socket.can_send() || !socket.may_send());
        match owner {
            Owner::HalfOpen(listener) => match state {
                TcpState::SynReceived => {}
                TcpState::Listen | TcpState::Closed => {
                    self.leave_half_open(listener);
                    self.connections.remove(index);
                }
                _ => {
                    connection.owner = Owner::Queued(listener);
                    self.leave_half_open(listener);
                    let place = &mut self.listeners[listener];
                    if let Some(listener) = &mut place.listener {
                        // There is room for the whole backlog.
                        listener.ready.push_back(index);
                        place.waits.readable.notify_one();
                    }
                }
            },
            Owner::Queued(_) | Owner::Stream => {
                if is_over {
                    self.connections.forget_key(index);
                }
                let waits = self.connections.waits(index);
                if can_read {
                    waits.readable.notify_all();
                }
                if can_write {
                    waits.writable.notify_all();
                }
            }
            // A reset is sent once, if it can be sent now. If the peer does not get it, its next segment is answered
            // with one.
            Owner::Closing if matches!(state, TcpState::Closed | TcpState::TimeWait) => self.connections.remove(index),
            Owner::Closing => {}
        }
    }

    fn leave_half_open(&mut self, listener: usize) {
        if let Some(listener) = &mut self.listeners[listener].listener {
            listener.half_open -= 1;
        }
    }

    /// Lets the services send what they have to send, and takes over what DHCP has found out.
    fn settle_services(&mut self, now: Instant) {
        let (link, room, has_asked) = (&mut *self.link, &mut *self.room, &mut self.has_asked);
        let mut packet = Packet { link, received: None, room, has_asked };
        let at = micros(now);
        while self.interface.poll_egress(at, &mut packet, &mut self.services) != PollResult::None {}
        let Some(dhcp) = self.dhcp else { return };
        match self.services.get_mut::<dhcpv4::Socket<'_>>(dhcp).poll() {
            None => {}
            Some(dhcpv4::Event::Deconfigured) => self.configure(None, None),
            Some(dhcpv4::Event::Configured(config)) => {
                let (address, router) = (config.address, config.router);
                self.configure(Some(address), router);
            }
        }
        self.dhcp_due = from_micros(self.interface.poll_at(at, &self.services));
        if self.dhcp_due <= now && self.link.can_send() {
            self.dhcp_due = now + PAUSE;
        }
        self.first_due = self.first_due.min(self.dhcp_due);
    }

    /// Does what is due. Called by the G that serves the link.
    pub(crate) fn run_timers(&mut self, now: Instant) {
        if now < self.first_due || !self.link.can_send() {
            return;
        }
        self.first_due = Instant::NEVER;
        if self.dhcp_due <= now {
            self.settle_services(now);
        }
        for index in self.connections.indices() {
            if self.connections.get(index).is_some_and(|connection| connection.due <= now) {
                self.settle(index, now);
            }
        }
        self.first_due = self.first_due.min(self.dhcp_due).min(self.connections.first_due());
    }

    /// Ends a piece of work of the G that serves the link. Returns the time until which it may sleep.
    pub(crate) fn sleep(&mut self) -> Instant {
        self.link.flush();
        if self.link.is_broken() {
            self.wake_all();
            self.asleep_until = Instant::NEVER;
        } else if self.link.can_send() {
            self.asleep_until = self.first_due;
        } else {
            // The interrupt of the link ends the sleep. What is due has to wait for that.
            (self.is_stalled, self.asleep_until) = (true, Instant::NEVER);
        }
        self.asleep_until
    }

    /// The link is broken, so no call will succeed.
    fn wake_all(&self) {
        self.configured.readable.notify_all();
        for place in &self.listeners {
            place.waits.readable.notify_all();
        }
        for index in self.connections.indices() {
            self.connections.waits(index).readable.notify_all();
            self.connections.waits(index).writable.notify_all();
        }
    }

    /// Ends a piece of work of another G. Returns whether the G that serves the link has to wake, because it has to be
    /// awake earlier than it knows.
    pub(crate) fn finish(&mut self) -> bool {
        self.link.flush();
        let is_needed = self.first_due < self.asleep_until || (self.is_stalled && self.link.can_send());
        if is_needed {
            // It is not woken twice.
            (self.is_stalled, self.asleep_until) = (false, self.first_due);
        }
        is_needed
    }
}

/// Sets how long the peer may be silent.
fn limit_silence(connection: &mut Connection) {
    let owner = connection.owner;
    let socket = connection.socket();
    let limit = match (owner, socket.state()) {
        // Nobody reads the data that arrives.
        (Owner::Closing, _) if socket.can_recv() => {
            socket.abort();
            None
        }
        (Owner::Closing, _) => {
            // The connection may be removed as soon as its peer has closed it, too.
            socket.set_ack_delay(None);
            Some(CLOSING)
        }
        (Owner::HalfOpen(_), _) => Some(HALF_OPEN),
        (_, TcpState::SynSent) => Some(CLOSING),
        // smoltcp would also end a connection in which both sides are silent.
        _ if socket.send_queue() != 0 => Some(SILENCE),
        _ => None,
    };
    socket.set_timeout(limit.and_then(std_duration));
}
