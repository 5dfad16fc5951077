//! What the lock of a shard guards: its link, and its connections.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::time::Instant;
use smoltcp::iface::{Config, Interface};
use smoltcp::socket::tcp::State as TcpState;
use smoltcp::wire::EthernetAddress;

use crate::buffers::{MakeRoom, WINDOW_BYTES};
use crate::checksums::is_intact;
use crate::connection::{Connection, Owner};
use crate::connections::Connections;
use crate::error::NetError;
use crate::ipv6::Addresses;
use crate::key::{Flows, Key};
use crate::link::Link;
use crate::listeners::{ConnectionId, Listeners};
use crate::memory::Reserved;
use crate::own::Own;
use crate::packet::{Class, Packet, Segment, Wire, can_answer, classify, micros, room_for_frame, send};
use crate::readiness::{Served, Waits};
use crate::sequence::{self, Sent};
use crate::services::{self, Services};
use crate::stack::{Configuration, Ipv6, OWNER};
use crate::time_wait::{self, TimeWaits};
use crate::wake::WokenBy;

/// The ports that are chosen for connections, and for listeners without a fixed port.
pub(crate) const FIRST_FREE_PORT: u16 = 49_152;
/// How long a neighbour may take to name its MAC address, for datagrams.
const NO_NEIGHBOUR: Duration = Duration::from_secs(3);
/// How long a peer may take to confirm a connection.
pub(crate) const HALF_OPEN: Duration = Duration::from_secs(10);
/// How long a peer may leave data without an answer, or the end of the data. smoltcp doubles the time between attempts
/// with each loss, up to a minute, and shortens it only when data that was sent only once is confirmed (RFC 9293,
/// 3.8.1). So after heavy losses there may be only one attempt a minute, and this time must suffice for several.
pub(crate) const SILENCE: Duration = Duration::from_secs(300);
/// Data that has arrived is acknowledged, and its reader readied, after so many bytes at the latest, even if more has arrived.
/// This is only a part of the window, so that the peer goes on sending. The two longest frames of a loopback have more, and may
/// wait for each other, because the peer, which is in the same shard, sends nothing meanwhile.
const UNSETTLED_BYTES: usize = WINDOW_BYTES / 4;
/// How long a peer may keep its half of a connection open after the program has dropped the connection.
pub(crate) const CLOSING: Duration = Duration::from_secs(30);

pub(crate) struct State<Plat: Platform> {
    /// The number of this shard, and which shard has which connections.
    pub(crate) shard: usize,
    pub(crate) flows: Flows,
    pub(crate) listeners: &'static Listeners<Plat>,
    pub(crate) own: Own,
    /// Whether `own` has changed, and the G that serves this shard has to tell the other shards.
    pub(crate) has_news: bool,
    pub(crate) interface: Interface,
    pub(crate) wire: Wire,
    pub(crate) ipv6: Addresses,
    pub(crate) connections: Connections<Plat>,
    /// What is left of connections that this computer has closed first.
    pub(crate) time_waits: TimeWaits,
    pub(crate) services: Services,
    pub(crate) udp_sockets: usize,
    /// How many of the connections and UDP sockets were abandoned.
    pub(crate) abandoned: usize,
    /// The G that serves the link sleeps until this time.
    asleep_until: Instant,
    /// Whether the G that serves the link waits until the link can send.
    is_stalled: bool,
    /// The connection that has still to be [settled](Self::settle), and how many bytes it has received since it was. There is
    /// none when the state is unlocked.
    unsettled: Option<(usize, usize)>,
    woken_by: WokenBy,
    pub(crate) last_port: u16,
    /// Where calls wait for an address of this computer, or for the addresses of a name.
    pub(crate) configured: &'static Waits<Plat>,
    pub(crate) received: Vec<u8>,
}

/// The memory of the state of a shard.
pub(crate) struct Memory<Plat: Platform> {
    to_send: Vec<u8>,
    received: Vec<u8>,
    configured: Reserved<Waits<Plat>>,
    services: services::Memory,
}

impl<Plat: Platform> Memory<Plat> {
    /// Allocates the memory of the shard with this number, for a link such as this one.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(shard: usize, link: &dyn Link) -> Result<Self, OutOfResources> {
        let largest_to_send = link.largest_to_cut().unwrap_or(link.largest_to_send());
        let [to_send, received] = [largest_to_send, link.largest()].map(room_for_frame);
        let services = services::Memory::new(shard == OWNER)?;
        Ok(Self { to_send: to_send?, received: received?, configured: Reserved::new()?, services })
    }
}

/// What the states of a stack are made of, besides their memory and their links.
pub(crate) struct Common<'c, Plat: Platform> {
    pub(crate) flows: Flows,
    pub(crate) listeners: &'static Listeners<Plat>,
    pub(crate) make_room: MakeRoom,
    pub(crate) woken_by: WokenBy,
    /// Only the [owner](OWNER) of the services needs the configuration. The other shards [adopt](State::adopt) the
    /// addresses that the owner finds.
    pub(crate) configuration: &'c Configuration,
    pub(crate) now: Instant,
}

impl<Plat: Platform> Served for State<Plat> {
    fn woken_by(&self) -> WokenBy {
        self.woken_by
    }
}

impl<Plat: Platform> State<Plat> {
    /// Makes the state of the shard with this number.
    pub(crate) fn new(
        shard: usize,
        memory: Memory<Plat>,
        link: &'static mut dyn Link,
        common: &Common<'_, Plat>,
    ) -> Self {
        let &Common { ref flows, listeners, make_room, woken_by, configuration, now } = common;
        let seed = configuration.seed.wrapping_add((shard as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mac = EthernetAddress(link.mac());
        let mut config = Config::new(mac.into());
        config.random_seed = seed;
        let mut wire = Wire::new(link, memory.to_send);
        let mut device = Packet { wire: &mut wire, sent: &mut Sent::new(), received: None };
        let interface = Interface::new(config, &mut device, micros(now));
        let own_configuration = Some(configuration).filter(|_| shard == OWNER);
        let kind = own_configuration.map_or(Ipv6::Off, |it| it.ipv6);
        let mut state = Self {
            shard,
            flows: flows.clone(),
            listeners,
            own: Own::default(),
            has_news: false,
            interface,
            wire,
            ipv6: Addresses::new(kind, mac, now),
            connections: Connections::new(seed.rotate_left(32), make_room),
            time_waits: TimeWaits::new(seed.rotate_left(16), time_wait::MOST / flows.shards()),
            services: Services::new(memory.services, own_configuration, now),
            udp_sockets: 0,
            abandoned: 0,
            asleep_until: Instant::NEVER,
            is_stalled: false,
            unsettled: None,
            woken_by,
            last_port: (seed >> 16) as u16,
            configured: memory.configured.fill(Waits::new()),
            received: memory.received,
        };
        state.services.due = state.services.due.min(state.ipv6.due());
        state.note_own(now);
        state
    }

    /// Returns the time of the network. The calling G may be in a bubble, whose clock is another one.
    pub(crate) fn now(&self) -> Instant {
        self.woken_by.now::<Plat>()
    }

    pub(crate) fn is_link_up(&self) -> bool {
        self.wire.link.is_up()
    }

    /// # Errors
    /// If the link is broken.
    pub(crate) fn check_link(&self) -> Result<(), NetError> {
        if self.wire.link.is_broken() { Err(NetError::Device) } else { Ok(()) }
    }

    /// Returns the number of connections, and that of UDP sockets.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.connections.count() - self.udp_sockets - self.abandoned, self.udp_sockets)
    }

    /// Returns what names a connection of this shard.
    fn id(&self, index: usize) -> ConnectionId {
        ConnectionId { shard: self.shard, index }
    }

    /// Passes on up to `most` frames that have arrived. Returns whether there may be more.
    pub(crate) fn receive(&mut self, most: usize, now: Instant) -> bool {
        let mut has_more = true;
        for _ in 0..most {
            let Some(bytes) = self.wire.link.receive(&mut self.received) else {
                has_more = false;
                break;
            };
            if self.wire.link.is_checked() || is_intact(&self.received[..bytes]) {
                self.pass_on(bytes, now);
            }
        }
        self.settle_received(now);
        has_more
    }

    /// Whether a connection that has got a segment need not be settled before the next frame, which has arrived already. So
    /// the segments of a stream that arrive together are acknowledged together, and ready the reader once.
    fn may_settle_later(&mut self, index: usize, class: Class) -> bool {
        let Class::Connection(_, segment) = class else { return false };
        let is_streaming = self.connections.get(index).is_some_and(|it| it.owner == Owner::Stream);
        let bytes = segment.bytes + self.unsettled.map_or(0, |(_, bytes)| bytes);
        let most = UNSETTLED_BYTES.max(2 * self.wire.largest_frame());
        let may_wait = segment.is_data() && is_streaming && bytes < most;
        if may_wait {
            self.unsettled = Some((index, bytes));
        }
        may_wait
    }

    /// Whether a frame has only further data of a connection.
    fn continues(&mut self, index: usize, class: Class) -> bool {
        let Class::Connection(key, segment) = class else { return false };
        segment.is_data() && self.connections.get(index).is_some_and(|connection| connection.key == key)
    }

    /// Settles the connection that [`may_settle_later`](Self::may_settle_later) has left unsettled.
    fn settle_received(&mut self, now: Instant) {
        if let Some((index, _)) = self.unsettled.take() {
            self.settle(index, now);
        }
    }

    fn pass_on(&mut self, bytes: usize, now: Instant) {
        let class = classify(&self.received[..bytes]);
        if let Some((index, _)) = self.unsettled
            && !self.continues(index, class)
        {
            self.settle_received(now);
        }
        if class == Class::Neighbour {
            self.answer_own_question(bytes);
        }
        let connection = match class {
            Class::Connection(key, segment) => match self.connections.find(key) {
                // smoltcp would answer a segment to a broadcast address with a reset.
                None if !self.interface.has_ip_addr(key.local) => return,
                None if self.time_waits.has(key, now) && !self.begins_anew(key, segment, now) => return,
                None if segment.begins => match self.half_open(key) {
                    Ok(connection) => connection,
                    // The segment is dropped, and the peer tries again.
                    Err(OutOfResources) => return,
                },
                connection => connection,
            },
            // smoltcp also takes packets for other addresses whose last two bytes are those of an address of this
            // computer.
            Class::Datagram(Key { local: local @ IpAddr::V6(_), .. })
                if !local.is_multicast() && !self.interface.has_ip_addr(local) =>
            {
                return;
            }
            Class::Datagram(key) => self.find_datagrams(key),
            Class::Refusal(key, refusal) => return self.refuse(key, refusal, bytes),
            _ => None,
        };
        let mut by_none = Sent::new();
        let (sockets, sent) = match connection.and_then(|index| self.connections.get(index)) {
            Some(connection) => {
                if connection.end != Instant::NEVER && connection.owner != Owner::Datagrams {
                    connection.end = now + SILENCE;
                }
                // Without memory, the segment is dropped, and the peer sends it again.
                if let (Some(buffers), Class::Connection(_, segment)) = (&mut connection.buffers, class)
                    && buffers.prepare_to_receive(segment).is_err()
                {
                    return;
                }
                if let Class::Connection(_, segment) = class {
                    connection.refusal = None;
                    // At the third repetition, smoltcp stops its timer and sends data again. But it does not send the end of the
                    // data alone, and forgets data that it cannot send now. So it does not get the segment then, and sends again
                    // when its timer ends.
                    if connection.sent.is_third_repetition(segment) {
                        let lacks_only_end = !segment.is_fin && connection.has_only_end_under_way();
                        let (interface, wire) = (&mut self.interface, &mut self.wire);
                        let (sockets, frame) = (&mut self.services.sockets, &self.received[..bytes]);
                        if lacks_only_end || !can_answer(interface, wire, sockets, frame, now) {
                            return;
                        }
                    }
                    if let Some(acknowledged) = segment.acknowledged
                        && connection.sent.hear(acknowledged, segment.window)
                    {
                        sequence::open_window(&mut self.received[..bytes]);
                    }
                    connection.acknowledge(segment);
                }
                (&mut connection.sockets, &mut connection.sent)
            }
            None => (&mut self.services.sockets, &mut by_none),
        };
        let mut packet = Packet { wire: &mut self.wire, sent, received: Some(&self.received[..bytes]) };
        self.interface.poll_ingress_single(micros(now), &mut packet, sockets);
        match (connection, class) {
            (Some(index), class) => {
                if let Class::Connection(_, segment @ Segment { is_syn: true, .. }) = class
                    && let Some(connection) = self.connections.get(index)
                {
                    connection.begin(segment.sequence);
                }
                if self.wire.link.has_arrived() && self.may_settle_later(index, class) {
                    return;
                }
                self.unsettled = None;
                self.settle(index, now);
            }
            (None, Class::Neighbour) => {
                self.hear_router(bytes, now);
                for _ in 0..self.connections.unresolved() {
                    let Some(index) = self.connections.take_unresolved() else { break };
                    self.settle(index, now);
                }
                self.settle_services(now);
            }
            (None, Class::Other | Class::Datagram(_)) => self.settle_services(now),
            (None, Class::Connection(..) | Class::Refusal(..)) => {}
        }
    }

    /// Sends what a connection has to send, and does what the state of its socket requires. Called after each change
    /// of the socket.
    pub(crate) fn settle(&mut self, index: usize, now: Instant) {
        let Some(mut connection) = self.connections.get(index) else { return };
        if matches!(connection.owner, Owner::Queued(_) | Owner::Stream)
            && connection.socket().state() == TcpState::TimeWait
        {
            // If `time_waits` answers for it now, its socket is left alone. At the end of its own TIME-WAIT, smoltcp
            // would forget the data that the program has not read yet, and would also forget that the peer has ended
            // its data.
            let key = connection.key;
            if self.connections.find(key) != Some(index) {
                return self.connections.note(index, Instant::NEVER);
            }
            let Some(again) = self.connections.get(index) else { return };
            connection = again;
        }
        connection.limit_silence(now);
        let (was_unresolved, largest_frame) = (connection.sent.is_unresolved, self.wire.largest_frame());
        let mut send = |connection: &mut Connection, has_written| {
            send(&mut self.interface, &mut self.wire, &mut connection.sockets, &mut connection.sent, has_written, now)
        };
        let has_written = core::mem::take(&mut connection.has_written);
        let mut due = send(connection, has_written);
        if connection.keeps_rest(largest_frame) {
            connection.socket().set_nagle_enabled(false);
            due = send(connection, true);
            connection.socket().set_nagle_enabled(true);
        }
        // If `poll_at` says that a TCP socket has something to do now, `dispatch` also does it. A UDP socket may have
        // more to do: if the computer has lost its address, it drops one datagram at a time.
        let is_done = due > now || self.wire.was_full || connection.owner == Owner::Datagrams;
        debug_assert!(is_done, "a connection has something to send, and does not send it");
        let end = match connection.owner {
            Owner::Closing | Owner::Stream => connection.end,
            Owner::Datagrams if connection.sent.is_unresolved => {
                if !was_unresolved {
                    connection.end = now + NO_NEIGHBOUR;
                }
                connection.end
            }
            _ => Instant::NEVER,
        };
        self.connections.note(index, due.min(end));
        self.follow(index, due, now);
    }

    /// Does after a read of `bytes` bytes what [`settle`](Self::settle) does after another change. A read changes neither
    /// what the socket waits for nor who may go on. But the peer has to know if the window has grown by much.
    pub(crate) fn settle_read(&mut self, index: usize, bytes: usize) {
        let Some(connection) = self.connections.get(index) else { return };
        // If less was stored, at least three quarters of the window were free before the read. The peer knows of at least half
        // of these, because otherwise smoltcp would have announced the window again before.
        if connection.socket().recv_queue() + bytes > WINDOW_BYTES / 4 {
            let now = self.woken_by.now::<Plat>();
            let at = micros(now);
            if self.interface.poll_at(at, &connection.sockets).is_some_and(|due| due <= at) {
                return self.settle(index, now);
            }
        }
        self.connections.note_memory(index);
    }

    /// Does what the state of a connection's socket requires: readies Gs, and removes the connection if it has ended.
    /// `due` is when the socket has to do something again.
    fn follow(&mut self, index: usize, due: Instant, now: Instant) {
        let Some(connection) = self.connections.get(index) else { return };
        let (owner, is_ready) = (connection.owner, connection.is_ready());
        if matches!(owner, Owner::Abandoned | Owner::Datagrams) {
            if owner == Owner::Abandoned {
                self.connections.forget_key(index);
            }
            self.connections.wake(index, is_ready);
            return;
        }
        let (state, key) = (connection.socket().state(), connection.key);
        match owner {
            Owner::HalfOpen(listener) => match state {
                TcpState::SynReceived => {}
                TcpState::Listen | TcpState::Closed => {
                    self.listeners.leave_half_open(listener, self.id(index), false);
                    self.connections.remove(index);
                }
                _ => {
                    connection.owner = Owner::Queued(listener);
                    self.listeners.leave_half_open(listener, self.id(index), true);
                }
            },
            Owner::Queued(_) | Owner::Stream => {
                if connection.socket().remote_endpoint().is_none() {
                    self.connections.forget_key(index);
                }
                if state == TcpState::TimeWait {
                    self.enter_time_wait(index, due, now);
                }
                self.connections.wake(index, is_ready);
            }
            // The last segment, which may be a reset, is sent once. If the peer does not get it, its next segment is
            // answered with a reset.
            Owner::Closing if state == TcpState::Closed && !self.wire.was_full => self.connections.remove(index),
            Owner::Closing if state == TcpState::TimeWait => {
                self.enter_time_wait(index, due, now);
                if self.connections.find(key) != Some(index) {
                    self.connections.remove(index);
                }
            }
            Owner::Closing | Owner::Datagrams | Owner::Abandoned => {}
        }
    }

    /// Returns when the first connection or service, or the link, needs attention.
    fn first_due(&mut self) -> Instant {
        if self.has_news {
            return Instant::from_nanos(0);
        }
        let connection = self.connections.first_due().map_or(Instant::NEVER, |(due, _)| due);
        connection.min(self.services.due).min(self.wire.link.due())
    }

    /// Does what is due, for up to `most` connections. Returns whether there may be more. Called by the G that serves
    /// the link.
    pub(crate) fn run_timers(&mut self, most: usize, now: Instant) -> bool {
        if self.services.due <= now && self.wire.link.can_send() {
            self.settle_services(now);
        }
        for _ in 0..most {
            let due = self.connections.first_due().filter(|(due, _)| *due <= now);
            let Some((_, index)) = due.filter(|_| self.wire.link.can_send()) else { return false };
            self.settle(index, now);
        }
        true
    }

    /// Ends a piece of work of the G that serves the link. Returns the time until which it may sleep.
    pub(crate) fn sleep(&mut self) -> Instant {
        self.wire.link.flush();
        if self.wire.link.is_broken() {
            self.wake_all();
            self.asleep_until = Instant::NEVER;
        } else if self.wire.link.can_send() {
            self.asleep_until = self.first_due();
        } else {
            // The link ends the sleep, by its interrupt or when it is due. What else is due has to wait for that.
            (self.is_stalled, self.asleep_until) = (true, self.wire.link.due());
        }
        self.asleep_until
    }

    /// Wakes all Gs that wait, because the link is broken, so that no call will succeed.
    pub(crate) fn wake_all(&self) {
        self.configured.readable.notify_all();
        self.listeners.note_broken();
        self.connections.indices().for_each(|index| self.connections.wake(index, [true; 2]));
    }

    /// Ends a piece of work of another G. Returns whether the caller has to wake the G that serves the link, because
    /// something is due before that G would wake by itself.
    pub(crate) fn finish(&mut self) -> bool {
        // ANCHOR: finish
        self.wire.link.flush();
        let due = self.first_due();
        let is_needed = due < self.asleep_until || (self.is_stalled && self.wire.link.can_send());
        if is_needed {
            // Another G need not wake it again for this.
            (self.is_stalled, self.asleep_until) = (false, due);
        }
        is_needed
        // ANCHOR_END: finish
    }
}
