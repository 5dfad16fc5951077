//! Tests of the state of a stack with a clock that the test sets.

extern crate std;

#[expect(unsafe_code, reason = "maps memory")]
#[path = "../tests/shared/guarded.rs"]
pub(crate) mod guarded;

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use gmp_sched::native::Native;
use gmp_sched::time::Instant;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DhcpMessageType, DhcpPacket, DhcpRepr, DnsQueryType, EthernetAddress,
    EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};

use crate::buffers::{PAGE_BYTES, ROOM_PAGES, Room};
use crate::error::NetError;
use crate::key::Flows;
use crate::link::Link;
use crate::listeners::{Listener, Listeners};
use crate::memory::Reserved;
use crate::stack::{Configuration, Usage};
use crate::state::{Common, Memory, State};
use crate::wake::WokenBy;

pub(crate) const OWN: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);
pub(crate) const OTHER: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ANY: SocketAddr = on(0);

/// Returns an address with this port that stands for all addresses of the computer. The port 0 lets the stack choose a free one.
pub(crate) const fn on(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// What the other end of a link sees and does.
#[derive(Default)]
pub(crate) struct Other {
    sent: Vec<Vec<u8>>,
    pub(crate) arrived: VecDeque<Vec<u8>>,
    /// For how many frames the device has room.
    room: usize,
    /// The lengths of data of the segments into which the device has cut frames.
    pub(crate) cuts: Vec<u16>,
}

#[derive(Clone)]
struct Scripted(Arc<Mutex<Other>>);

impl Link for Scripted {
    fn mac(&self) -> [u8; 6] {
        OWN.0
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn largest(&self) -> usize {
        4_096
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Option<usize> {
        if !self.can_send() {
            return None;
        }
        let received = self.0.lock().unwrap().arrived.pop_front()?;
        frame[..received.len()].copy_from_slice(&received);
        Some(received.len())
    }

    fn has_arrived(&self) -> bool {
        !self.0.lock().unwrap().arrived.is_empty()
    }

    fn can_send(&mut self) -> bool {
        self.0.lock().unwrap().room != 0
    }

    fn send(&mut self, frame: &[u8]) {
        let mut other = self.0.lock().unwrap();
        other.room -= 1;
        other.sent.push(frame.to_vec());
    }

    fn send_to_cut(&mut self, frame: &[u8], segment_bytes: u16) {
        self.send(frame);
        self.0.lock().unwrap().cuts.push(segment_bytes);
    }

    fn flush(&mut self) {}
}

/// A stack whose link the test plays, and the time.
pub(crate) struct Bench {
    pub(crate) state: State<Native>,
    pub(crate) other: Arc<Mutex<Other>>,
    pub(crate) now: Instant,
}

impl Bench {
    pub(crate) fn new(address: Option<Ipv4Addr>, room: usize) -> Self {
        let dns = address.map(|_| SERVER.into());
        let address = address.map(|it| (it, 24));
        Self::with(&Configuration { address, dns, seed: 1, ..Configuration::default() }, room)
    }

    pub(crate) fn with(configuration: &Configuration, room: usize) -> Self {
        let other = Arc::new(Mutex::new(Other { room, ..Other::default() }));
        let now = Instant::from_nanos(1_000_000_007);
        let (flows, listeners) =
            (Flows::new(1, configuration.seed), Reserved::new().unwrap().fill(Listeners::new(WokenBy::Device)));
        let common =
            Common { flows, listeners, make_room: guarded::make, woken_by: WokenBy::Device, configuration, now };
        let link = Reserved::new().unwrap().fill(Scripted(other.clone()));
        let state = State::new(0, Memory::new(0, link).unwrap(), link, &common);
        Self { state, other, now }
    }

    /// Does what the G that serves the link does, and returns the frames that were sent, and when it has to do it again.
    pub(crate) fn serve(&mut self) -> (Vec<Vec<u8>>, Instant) {
        while self.state.receive(8, self.now) | self.state.run_timers(8, self.now) {}
        let until = self.state.sleep();
        let sent = core::mem::take(&mut self.other.lock().unwrap().sent);
        assert!(until > self.now, "something is due, and was not done");
        (sent, until)
    }
}

/// What a stack does with its only shard and its listeners.
impl State<Native> {
    pub(crate) fn accept(&mut self, listener: usize) -> Option<usize> {
        let index = self.listeners.take(listener)?.index;
        self.take_over(index).unwrap();
        Some(index)
    }

    pub(crate) fn end_listener(&mut self, listener: usize, now: Instant) {
        for it in self.listeners.end(listener).into_iter().flat_map(Listener::connections) {
            self.reset(it.index, listener, now);
        }
    }

    pub(crate) fn unlisten(&mut self, listener: usize, now: Instant) {
        self.end_listener(listener, now);
        self.listeners.free(listener);
    }

    pub(crate) fn usage(&self) -> Usage {
        let ((connections, udp_sockets), (listeners, half_open)) = (self.count(), self.listeners.count());
        Usage { connections, half_open, listeners, udp_sockets }
    }
}

/// Returns the message of DHCP in a frame, and its transaction.
fn dhcp(frame: &[u8]) -> Option<(DhcpMessageType, u32)> {
    let ip = Ipv4Packet::new_checked(EthernetFrame::new_checked(frame).ok()?.payload()).ok()?;
    let udp = UdpPacket::new_checked(ip.payload()).ok()?;
    let message = DhcpPacket::new_checked(udp.payload()).ok()?;
    let repr = DhcpRepr::parse(&message).ok()?;
    Some((repr.message_type, repr.transaction_id))
}

/// Returns a frame with a message of the server.
pub(crate) fn from_server(message_type: DhcpMessageType, transaction_id: u32, lease: u32) -> Vec<u8> {
    let repr = DhcpRepr {
        message_type,
        transaction_id,
        secs: 0,
        client_hardware_address: OWN,
        client_ip: Ipv4Addr::UNSPECIFIED,
        your_ip: ADDRESS,
        server_ip: SERVER,
        router: None,
        subnet_mask: Some(Ipv4Addr::new(255, 255, 255, 0)),
        relay_agent_ip: Ipv4Addr::UNSPECIFIED,
        broadcast: false,
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(SERVER),
        parameter_request_list: None,
        dns_servers: None,
        max_size: None,
        lease_duration: Some(lease),
        renew_duration: None,
        rebind_duration: None,
        additional_options: &[],
    };
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(&mut DhcpPacket::new_unchecked(&mut message[..])).unwrap();
    datagram(67, 68, &message)
}

/// Returns a frame with a datagram of the server.
pub(crate) fn datagram(src_port: u16, dst_port: u16, message: &[u8]) -> Vec<u8> {
    let udp = UdpRepr { src_port, dst_port };
    let ip = Ipv4Repr {
        src_addr: SERVER,
        dst_addr: ADDRESS,
        next_header: IpProtocol::Udp,
        payload_len: 8 + message.len(),
        hop_limit: 64,
    };
    let mut frame = vec![0; 14 + 20 + ip.payload_len];
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
    EthernetRepr { src_addr: OTHER, dst_addr: OWN, ethertype: EthernetProtocol::Ipv4 }.emit(&mut ethernet);
    let mut packet = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    ip.emit(&mut packet, &ChecksumCapabilities::default());
    let (from, to, fill) = (SERVER.into(), ADDRESS.into(), |payload: &mut [u8]| payload.copy_from_slice(message));
    let mut datagram = UdpPacket::new_unchecked(packet.payload_mut());
    udp.emit(&mut datagram, &from, &to, message.len(), fill, &ChecksumCapabilities::default());
    frame
}

/// Lets the client converse with a server that answers each message as `answer` says, until the client has sent a
/// message after which `answer` returns an error. Returns the instant of that message.
fn converse(mut answer: impl FnMut(DhcpMessageType) -> Result<Option<DhcpMessageType>, ()>) -> Instant {
    let mut bench = Bench::new(None, 1_000);
    loop {
        let (sent, until) = bench.serve();
        for (message, transaction) in sent.iter().filter_map(|frame| dhcp(frame)) {
            match answer(message) {
                Ok(None) => {}
                Ok(Some(answer)) => {
                    bench.other.lock().unwrap().arrived.push_back(from_server(answer, transaction, 100));
                }
                Err(()) => return bench.now,
            }
        }
        if bench.other.lock().unwrap().arrived.is_empty() {
            bench.now = until;
        }
    }
}

#[test]
fn expired_lease_begins_anew_at_once() {
    use DhcpMessageType::{Ack, Discover, Offer, Request};
    let mut messages = Vec::new();
    let at = converse(|message| {
        messages.push(message);
        match (message, messages.len()) {
            (Discover, 1) => Ok(Some(Offer)),
            (Request, 2) => Ok(Some(Ack)),
            (Request, _) => Ok(None),
            _ => Err(()),
        }
    });
    // The client has asked in vain to keep its address, which it had for 100 s. The clock of smoltcp counts
    // microseconds.
    assert!(messages.len() > 3, "{messages:?}");
    assert_eq!(at.as_nanos(), 101_000_000_000);
}

#[test]
fn server_that_falls_silent_after_its_offer_is_looked_for_anew_at_once() {
    use DhcpMessageType::{Discover, Offer, Request};
    let mut messages = Vec::new();
    let at = converse(|message| {
        messages.push(message);
        match (message, messages.len()) {
            (Discover, 1) => Ok(Some(Offer)),
            (Request, _) => Ok(None),
            _ => Err(()),
        }
    });
    // All time-outs of the client are whole seconds.
    assert!(messages.len() > 3 && at.as_nanos() % 1_000_000_000 == 0, "{messages:?} {at:?}");
}

/// Returns the frame that names the MAC address of a neighbour.
pub(crate) fn arp_answer(neighbour: Ipv4Addr) -> Vec<u8> {
    let repr = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: OTHER,
        source_protocol_addr: neighbour,
        target_hardware_addr: OWN,
        target_protocol_addr: ADDRESS,
    };
    let mut frame = vec![0; 14 + repr.buffer_len()];
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
    EthernetRepr { src_addr: OTHER, dst_addr: OWN, ethertype: EthernetProtocol::Arp }.emit(&mut ethernet);
    repr.emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
    frame
}

#[test]
fn answer_of_a_neighbour_sends_what_waits_for_it_and_nothing_else() {
    let mut bench = Bench::new(Some(ADDRESS), 1_000);
    let neighbours = [SERVER, Ipv4Addr::new(10, 0, 0, 3)];
    for peer in [neighbours[0], neighbours[0], neighbours[1]] {
        bench.state.connect((peer, 7).into(), bench.now).unwrap();
    }
    // smoltcp asks once a second at most, for whatever neighbour.
    assert_eq!(bench.serve().0.len(), 1);
    let now = bench.now;
    for (neighbour, segments) in [(neighbours[1], 1), (neighbours[0], 2), (neighbours[0], 0)] {
        bench.other.lock().unwrap().arrived.push_back(arp_answer(neighbour));
        bench.now = now + Duration::from_millis(1);
        assert_eq!(bench.serve().0.len(), segments, "{neighbour}");
    }
}

#[test]
fn full_link_delays_connections_until_it_has_room() {
    let mut bench = Bench::new(Some(ADDRESS), 0);
    for _ in 0..5 {
        bench.state.connect((SERVER, 7).into(), bench.now).unwrap();
    }
    assert_eq!(bench.serve().1, Instant::NEVER);
    for room in [1, 1] {
        bench.other.lock().unwrap().room = room;
        assert!(bench.state.finish(), "the G that serves the link has to wake");
        bench.other.lock().unwrap().arrived.push_back(arp_answer(SERVER));
        bench.serve();
    }
    bench.other.lock().unwrap().room = 10;
    assert!(bench.state.finish());
    // Until now the link had room for two frames in all, so at least three of the five segments are sent now.
    assert!(bench.serve().0.len() >= 3);
}

/// Serves a stack whose frames return to it, until it sends none. Returns when it has to be served again.
fn serve_loop(bench: &mut Bench) -> Instant {
    loop {
        let (sent, until) = bench.serve();
        if sent.is_empty() {
            return until;
        }
        bench.other.lock().unwrap().arrived.extend(sent);
    }
}

#[test]
fn connection_that_was_idle_for_long_ends_in_order_and_a_peer_that_is_silent_is_given_up() {
    let mut bench = Bench::new(Some(ADDRESS), usize::MAX);
    let (listener, port) = bench.state.listeners.listen(ANY).unwrap();
    let near = bench.state.connect((ADDRESS, port).into(), bench.now).unwrap();
    serve_loop(&mut bench);
    let far = bench.state.accept(listener).unwrap();
    bench.now += Duration::from_secs(1_000);
    serve_loop(&mut bench);
    bench.state.release(near, bench.now);
    serve_loop(&mut bench);
    // The far end has read the end of the data, and was not reset.
    let socket = bench.state.connection(far).unwrap().socket();
    assert!(!socket.may_recv() && socket.may_send(), "{}", socket.state());
    let released = bench.now;
    loop {
        let until = serve_loop(&mut bench);
        if bench.state.connection(near).is_none() {
            break;
        }
        bench.now = until;
    }
    assert_eq!(bench.now, released + Duration::from_secs(30));
}

#[test]
fn connection_to_the_own_address_never_gets_the_port_of_its_peer() {
    let mut bench = Bench::new(Some(ADDRESS), usize::MAX);
    let (_, listened) = bench.state.listeners.listen(ANY).unwrap();
    for peer_port in [listened, 50_000] {
        // More connections than there are free ports. Each one is reset, so that its port is free again.
        for _ in 0..(1 << 14) + 10 {
            let index = bench.state.connect((ADDRESS, peer_port).into(), bench.now).unwrap();
            let port = bench.state.connection(index).unwrap().key.port;
            assert!(port != listened && port != peer_port, "{port}");
            bench.state.release(index, bench.now);
        }
    }
}

/// Sends a datagram, as a UDP socket does.
fn send_datagram(bench: &mut Bench, socket: usize, to: Ipv4Addr) -> bool {
    let datagrams = bench.state.connection(socket).unwrap().datagrams();
    let is_sent = datagrams.send_slice(b"data", (smoltcp::wire::IpAddress::Ipv4(to), 7)).is_ok();
    bench.state.settle(socket, bench.now);
    is_sent
}

#[test]
fn datagrams_for_a_silent_neighbour_do_not_stop_those_for_others() {
    let mut bench = Bench::new(Some(ADDRESS), 1_000);
    let (socket, _) = bench.state.bind_datagrams(ANY).unwrap();
    while send_datagram(&mut bench, socket, Ipv4Addr::new(10, 0, 0, 99)) {}
    let began = bench.now;
    while !send_datagram(&mut bench, socket, SERVER) {
        bench.now = bench.serve().1;
        bench.serve();
    }
    assert_eq!(bench.now, began + Duration::from_secs(3));
    // smoltcp does not look at the socket for the rest of a second.
    bench.now = bench.serve().1;
    assert_eq!(bench.serve().0.len(), 1);
    bench.other.lock().unwrap().arrived.push_back(arp_answer(SERVER));
    assert_eq!(bench.serve().0.len(), 1);
    bench.state.remove_datagrams(socket);
    assert_eq!(bench.state.usage().udp_sockets, 0);
}

#[test]
fn names_are_looked_up_and_queries_leave_nothing_behind() {
    let mut bench = Bench::new(Some(ADDRESS), 1_000);
    for name in ["", ".", "a..b", &"x".repeat(64), &"x.".repeat(130)] {
        assert_eq!(bench.state.ask(name, DnsQueryType::A, bench.now).map(drop), Err(NetError::InvalidInput), "{name}");
    }
    let queries: Vec<_> =
        (0..16).map(|_| bench.state.ask("host.example", DnsQueryType::A, bench.now).unwrap()).collect();
    assert_eq!(bench.state.ask("host.example", DnsQueryType::A, bench.now).map(drop), Err(NetError::OutOfResources));
    queries.iter().skip(1).for_each(|&query| bench.state.cancel(query));
    assert_eq!(bench.state.answer(queries[0]), None);
    // smoltcp asks for the address of the server's device first.
    assert_eq!(bench.serve().0.len(), 1);
    bench.other.lock().unwrap().arrived.push_back(arp_answer(SERVER));
    let (sent, _) = bench.serve();
    let ip = Ipv4Packet::new_checked(EthernetFrame::new_checked(&sent[0][..]).unwrap().payload()).unwrap();
    let udp = UdpPacket::new_checked(ip.payload()).unwrap();
    let mut message = udp.payload().to_vec();
    // The answer (RFC 1035, 4.1): one address, of the name in the question.
    message[2..4].copy_from_slice(&[0x81, 0x80]);
    message[6..8].copy_from_slice(&[0, 1]);
    message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 9, 8, 7]);
    bench.other.lock().unwrap().arrived.push_back(datagram(53, udp.src_port(), &message));
    bench.serve();
    assert_eq!(bench.state.answer(queries[0]), Some(Ok(vec![Ipv4Addr::new(10, 9, 8, 7).into()])));
    // Nobody answers the next query.
    let query = bench.state.ask("host.example", DnsQueryType::A, bench.now).unwrap();
    let began = bench.now;
    while bench.state.answer(query).is_none() {
        bench.now = bench.serve().1;
        bench.serve();
    }
    assert!(bench.now < began + Duration::from_secs(40), "{:?}", bench.now - began);
    assert_eq!(bench.serve().1, Instant::NEVER);
}
