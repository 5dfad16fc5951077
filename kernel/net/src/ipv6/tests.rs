//! Tests of the IPv6 addresses, and of connections between them, with a clock that the test sets.

extern crate std;

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use gmp_sched::time::Instant;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::tcp::State as TcpState;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet,
    Ipv6Repr, NdiscNeighborFlags, NdiscPrefixInfoFlags, NdiscPrefixInformation, NdiscRepr, NdiscRouterFlags, TcpPacket,
    TcpSeqNumber, UdpPacket,
};

use super::{ALL_NODES, HOP_LIMIT};
use crate::error::NetError;
use crate::packet::{Class, classify};
use crate::stack::{Configuration, Ipv6};
use crate::tests::{Bench, OTHER, OWN};

/// The addresses of the computer, of its router, and of the network that the router names.
pub(crate) const NEAR: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1);
pub(crate) const GLOBAL: Ipv6Addr = Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0xff, 0xfe00, 1);
pub(crate) const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const NETWORK: Ipv6Addr = Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0);
/// A computer in another network.
const FAR: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)), 7);

/// Returns a frame from one address to another one. `fill` writes the payload, and its checksum.
pub(crate) fn packet(
    (from, to): (Ipv6Addr, Ipv6Addr),
    hop_limit: u8,
    protocol: IpProtocol,
    bytes: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let repr = Ipv6Repr { src_addr: from, dst_addr: to, next_header: protocol, payload_len: bytes, hop_limit };
    let mut frame = vec![0; 14 + 40 + bytes];
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
    EthernetRepr { src_addr: OTHER, dst_addr: OWN, ethertype: EthernetProtocol::Ipv6 }.emit(&mut ethernet);
    let mut packet = Ipv6Packet::new_unchecked(ethernet.payload_mut());
    repr.emit(&mut packet);
    fill(packet.payload_mut());
    frame
}

/// Returns a frame with a message about neighbours, or an echo.
pub(crate) fn message(addresses: (Ipv6Addr, Ipv6Addr), hop_limit: u8, message: &Icmpv6Repr<'_>) -> Vec<u8> {
    packet(addresses, hop_limit, IpProtocol::Icmpv6, message.buffer_len(), |payload| {
        let mut packet = Icmpv6Packet::new_unchecked(payload);
        message.emit(&addresses.0, &addresses.1, &mut packet, &ChecksumCapabilities::default());
    })
}

/// Returns a frame with a segment.
pub(crate) fn segment(
    addresses: (Ipv6Addr, Ipv6Addr),
    bytes: usize,
    fill: impl FnOnce(&mut TcpPacket<&mut [u8]>),
) -> Vec<u8> {
    packet(addresses, 64, IpProtocol::Tcp, 20 + bytes, |payload| {
        let mut segment = TcpPacket::new_unchecked(payload);
        segment.set_header_len(20);
        fill(&mut segment);
        segment.fill_checksum(&addresses.0.into(), &addresses.1.into());
    })
}

/// Returns a frame with what a router says.
pub(crate) fn advertise(prefix: Ipv6Addr, prefix_len: u8, seconds: u64, hop_limit: u8) -> Vec<u8> {
    let lifetime = smoltcp::time::Duration::from_secs(seconds);
    let prefix_info = NdiscPrefixInformation {
        prefix_len,
        flags: NdiscPrefixInfoFlags::ADDRCONF | NdiscPrefixInfoFlags::ON_LINK,
        valid_lifetime: lifetime,
        preferred_lifetime: lifetime,
        prefix,
    };
    let said = NdiscRepr::RouterAdvert {
        hop_limit: 64,
        flags: NdiscRouterFlags::empty(),
        router_lifetime: smoltcp::time::Duration::from_secs(seconds.min(1_800)),
        reachable_time: smoltcp::time::Duration::ZERO,
        retrans_time: smoltcp::time::Duration::ZERO,
        lladdr: Some(OTHER.into()),
        mtu: None,
        prefix_info: Some(prefix_info),
    };
    message((ROUTER, ALL_NODES), hop_limit, &Icmpv6Repr::Ndisc(said))
}

/// Returns a frame with the MAC address of a neighbour.
pub(crate) fn neighbour(address: Ipv6Addr) -> Vec<u8> {
    let flags = NdiscNeighborFlags::SOLICITED | NdiscNeighborFlags::OVERRIDE;
    let said = NdiscRepr::NeighborAdvert { flags, target_addr: address, lladdr: Some(OTHER.into()) };
    message((address, NEAR), HOP_LIMIT, &Icmpv6Repr::Ndisc(said))
}

fn computer() -> Bench {
    Bench::with(&Configuration { ipv6: Ipv6::Automatic, dns: None, seed: 1, ..Configuration::default() }, usize::MAX)
}

/// Serves a computer that gets these frames, and returns the frames of IPv6 that it sends.
fn after(bench: &mut Bench, frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    bench.other.lock().unwrap().arrived.extend(frames);
    let is_ipv6 = |frame: &Vec<u8>| EthernetFrame::new_unchecked(frame).ethertype() == EthernetProtocol::Ipv6;
    bench.serve().0.into_iter().filter(is_ipv6).collect()
}

/// Returns the addresses and the content of a frame.
fn parts(frame: &[u8]) -> (Ipv6Addr, Ipv6Addr, &[u8]) {
    let packet = Ipv6Packet::new_checked(EthernetFrame::new_unchecked(frame).payload()).unwrap();
    (packet.src_addr(), packet.dst_addr(), packet.payload())
}

/// A computer with addresses, which knows its router's MAC address.
fn configured() -> Bench {
    let mut bench = computer();
    after(&mut bench, [advertise(NETWORK, 64, 10_000, HOP_LIMIT), neighbour(ROUTER)]);
    assert!([NEAR, GLOBAL].iter().all(|&address| bench.state.interface.has_ip_addr(address)));
    bench
}

#[test]
fn router_is_asked_for_three_times_and_then_there_is_no_address() {
    let mut bench = computer();
    let (began, mut asked) = (bench.now, Vec::new());
    let (near, far) = (IpAddr::V6(ROUTER), FAR.ip());
    while bench.state.own.is_asking {
        assert_eq!(bench.state.source_if_known(far), None);
        assert_eq!(bench.state.source_if_known(near), Some(Ok(NEAR.into())));
        let questions = after(&mut bench, []);
        assert!(questions.iter().all(|it| parts(it).1 == super::ALL_ROUTERS && classify(it) == Class::Neighbour));
        asked.extend(questions.iter().map(|_| bench.now - began));
        bench.now = Some(bench.state.ipv6.due()).filter(|due| *due != Instant::NEVER).unwrap_or(bench.now);
    }
    assert_eq!(asked, [0, 4, 8].map(Duration::from_secs));
    assert_eq!(bench.state.source_if_known(far), Some(Err(NetError::AddrNotAvailable)));
    // The computer takes over what a router says later.
    after(&mut bench, [advertise(NETWORK, 64, 100, HOP_LIMIT)]);
    assert_eq!(bench.state.source_if_known(far), Some(Ok(GLOBAL.into())));
}

#[test]
fn address_is_valid_until_the_end_that_the_router_has_named() {
    let mut bench = configured();
    let stream = bench.state.connect(FAR, bench.now).unwrap();
    let (from, to, _) = (GLOBAL, FAR.ip(), ());
    let sent = after(&mut bench, []);
    assert_eq!(sent.iter().map(|frame| (parts(frame).0, IpAddr::V6(parts(frame).1))).collect::<Vec<_>>(), [(from, to)]);
    // Anybody could send this message. So it does not shorten the lifetime to a second, but to two hours.
    after(&mut bench, [advertise(NETWORK, 64, 1, HOP_LIMIT)]);
    bench.now += Duration::from_secs(2 * 60 * 60 - 1);
    after(&mut bench, []);
    assert!(bench.state.interface.has_ip_addr(GLOBAL));
    bench.now += Duration::from_secs(1);
    after(&mut bench, []);
    assert!(!bench.state.interface.has_ip_addr(GLOBAL) && bench.state.interface.has_ip_addr(NEAR));
    assert_eq!(bench.state.connection(stream).unwrap().socket().state(), TcpState::Closed);
    assert_eq!(bench.state.connect(FAR, bench.now), Err(NetError::AddrNotAvailable));
}

#[test]
fn what_no_router_may_say_changes_nothing() {
    let mut bench = computer();
    let prefixes = [Ipv6Addr::UNSPECIFIED, ALL_NODES, super::LINK_LOCAL.address()];
    let wrong = prefixes.map(|prefix| advertise(prefix, 64, 0, HOP_LIMIT));
    let mut others = vec![
        advertise(NETWORK, 48, 0, HOP_LIMIT),
        advertise(NETWORK, 255, 0, HOP_LIMIT),
        advertise(NETWORK, 64, 100, 254),
    ];
    others.push(packet((NETWORK, ALL_NODES), HOP_LIMIT, IpProtocol::Icmpv6, 16, |payload| payload[0] = 134));
    after(&mut bench, wrong.into_iter().chain(others));
    assert_eq!(bench.state.interface.ip_addrs().len(), 1);
    let before = (ROUTER, NEAR);
    after(&mut bench, [message(before, 64, &Icmpv6Repr::Ndisc(NdiscRepr::RouterSolicit { lladdr: None }))]);
    assert_eq!(bench.state.interface.ip_addrs().len(), 1);
}

#[test]
fn neighbours_learn_the_mac_address_and_echoes_return() {
    let mut bench = configured();
    let ask = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr: GLOBAL, lladdr: Some(OTHER.into()) });
    let of_its_group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    for to in [of_its_group, GLOBAL] {
        let answer = after(&mut bench, [message((ROUTER, to), HOP_LIMIT, &ask)]);
        let [answer] = &answer[..] else { panic!("{answer:?}") };
        assert_eq!((parts(answer).0, parts(answer).1, parts(answer).2[0]), (GLOBAL, ROUTER, 136));
        let answer = after(&mut bench, [message((ROUTER, to), 64, &ask)]);
        assert!(answer.is_empty(), "the question comes from another network");
    }
    let echo = Icmpv6Repr::EchoRequest { ident: 1, seq_no: 2, data: b"data" };
    let answer = after(&mut bench, [message((ROUTER, NEAR), 64, &echo)]);
    assert_eq!(answer.len(), 1);
    assert_eq!((parts(&answer[0]).0, parts(&answer[0]).2[0], &parts(&answer[0]).2[8..]), (NEAR, 129, &b"data"[..]));
}

#[test]
fn connection_of_each_address_gets_its_segments_also_after_options() {
    let mut bench = configured();
    let (listener, _) = bench.state.listeners.listen((Ipv6Addr::UNSPECIFIED, 7).into()).unwrap();
    for own in [NEAR, GLOBAL] {
        let syn = |to: &mut TcpPacket<&mut [u8]>| {
            to.set_src_port(100);
            to.set_dst_port(7);
            to.set_seq_number(TcpSeqNumber(5));
            to.set_syn(true);
            to.set_window_len(1_000);
        };
        let answer = after(&mut bench, [segment((ROUTER, own), 0, syn)]);
        let [answer] = &answer[..] else { panic!("{answer:?}") };
        let answered = TcpPacket::new_checked(parts(answer).2).unwrap();
        assert!(answered.syn() && answered.ack() && parts(answer).0 == own);
        let next = answered.seq_number() + 1;
        // The options are those of RFC 8200, 4.3: six bytes of padding.
        let with_options = packet((ROUTER, own), 64, IpProtocol::HopByHop, 8 + 20 + 4, |payload| {
            payload[..8].copy_from_slice(&[6, 0, 1, 4, 0, 0, 0, 0]);
            let mut to = TcpPacket::new_unchecked(&mut payload[8..]);
            to.set_header_len(20);
            syn(&mut to);
            to.set_syn(false);
            to.set_ack(true);
            to.set_seq_number(TcpSeqNumber(6));
            to.set_ack_number(next);
            to.payload_mut().copy_from_slice(b"data");
            to.fill_checksum(&ROUTER.into(), &own.into());
        });
        after(&mut bench, [with_options]);
        let stream = bench.state.accept(listener).unwrap();
        let connection = bench.state.connection(stream).unwrap();
        assert_eq!((connection.key.local, connection.key.peer), (own.into(), ROUTER.into()));
        assert_eq!(connection.receive(&mut [0; 9]), Ok(4));
    }
}

#[test]
fn packet_for_another_computer_is_not_taken() {
    let mut bench = configured();
    bench.state.listeners.listen((Ipv6Addr::UNSPECIFIED, 7).into()).unwrap();
    let (socket, _) = bench.state.bind_datagrams((Ipv6Addr::UNSPECIFIED, 9).into()).unwrap();
    // smoltcp looks only at the last two bytes of the address.
    let other = Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 7, 1);
    let datagram = |to| {
        packet((ROUTER, to), 64, IpProtocol::Udp, 8, |payload| {
            let mut datagram = UdpPacket::new_unchecked(payload);
            datagram.set_src_port(1);
            datagram.set_dst_port(9);
            datagram.set_len(8);
            datagram.fill_checksum(&ROUTER.into(), &to.into());
        })
    };
    let syn = segment((ROUTER, other), 0, |to| {
        to.set_src_port(100);
        to.set_dst_port(7);
        to.set_syn(true);
    });
    assert_eq!(after(&mut bench, [syn, datagram(other), datagram(Ipv6Addr::LOCALHOST)]), Vec::<Vec<u8>>::new());
    assert!(!bench.state.connection(socket).unwrap().datagrams().can_recv());
    after(&mut bench, [datagram(NEAR)]);
    assert!(bench.state.connection(socket).unwrap().datagrams().can_recv());
}

#[test]
fn mac_address_becomes_the_second_half_of_the_addresses() {
    let made = super::Addresses::new(Ipv6::Automatic, EthernetAddress([2, 0, 0, 0, 0, 1]), Instant::from_nanos(0));
    assert_eq!(made.link_local.map(|it| it.address()), Some(NEAR));
    let fixed = Ipv6::Fixed { address: (Ipv6Addr::LOCALHOST, 128), gateway: None };
    let made = super::Addresses::new(fixed, OWN, Instant::from_nanos(0));
    assert_eq!((made.link_local, made.due()), (None, Instant::NEVER));
}
