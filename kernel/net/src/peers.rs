//! Tests with peers whose segments the test makes: what the computer answers.

mod ends;
pub(crate) mod refusals;
mod windows;

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use smoltcp::wire::{EthernetFrame, IpProtocol, Ipv4Packet, TcpPacket, TcpSeqNumber};

use crate::error::NetError;
use crate::fuzz::fill_segment;
use crate::key::{Key, Protocol};
use crate::packet::{Class, classify};
use crate::stack::{Configuration, Usage};
use crate::tests::{ADDRESS, Bench, SERVER, arp_answer, datagram, on};

const SYN: u8 = 1;
const FIN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 8;
/// The sequence number of a peer's first segment. It overflows soon.
const FIRST: u32 = u32::MAX - 3;

/// A peer of the computer.
struct Peer {
    address: Ipv4Addr,
    port: u16,
    /// The sequence numbers of the next byte that the peer sends, and of the next byte that it expects.
    next: u32,
    expected: u32,
    /// The port of the computer.
    to: u16,
    /// How many bytes the peer can take.
    window: u16,
    /// The last sequence number that the computer has acknowledged.
    confirmed: u32,
}

impl Peer {
    fn new(port: u16, to: u16) -> Self {
        Self { address: SERVER, port, next: FIRST, expected: 0, to, window: 60_000, confirmed: 0 }
    }

    /// Returns a frame with a segment.
    fn segment(&self, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut frame = datagram(0, 0, &[&[0; 12], data].concat());
        Ipv4Packet::new_unchecked(&mut frame[14..]).set_src_addr(self.address);
        fill_segment(&mut frame, |segment| {
            segment.set_src_port(self.port);
            segment.set_dst_port(self.to);
            segment.set_seq_number(TcpSeqNumber(self.next.cast_signed()));
            segment.set_ack_number(TcpSeqNumber(self.expected.cast_signed()));
            segment.set_header_len(20);
            segment.clear_flags();
            segment.set_syn(flags & SYN != 0);
            segment.set_fin(flags & FIN != 0);
            segment.set_rst(flags & RST != 0);
            segment.set_ack(flags & ACK != 0);
            segment.set_window_len(self.window);
        });
        frame
    }

    /// Sends a segment, and returns the flags of the answers.
    fn send(&mut self, bench: &mut Bench, flags: u8, data: &[u8]) -> Vec<u8> {
        let frame = self.segment(flags, data);
        self.next = self.next.wrapping_add(data.len() as u32 + u32::from(flags & (SYN | FIN) != 0));
        bench.other.lock().unwrap().arrived.push_back(frame);
        self.receive(bench)
    }

    /// Takes what the computer has sent, and returns the flags of the segments for this peer.
    fn receive(&mut self, bench: &mut Bench) -> Vec<u8> {
        let (mut sent, _) = bench.serve();
        let is_question = |frame: &Vec<u8>| classify(frame) == Class::Neighbour;
        if sent.iter().any(is_question) {
            bench.other.lock().unwrap().arrived.push_back(arp_answer(SERVER));
            sent.extend(bench.serve().0);
        }
        let mut all = Vec::new();
        for frame in sent {
            let Ok(ip) = Ipv4Packet::new_checked(&frame[14..]) else { continue };
            if ip.next_header() != IpProtocol::Tcp || EthernetFrame::new_checked(&frame[..]).is_err() {
                continue;
            }
            let segment = TcpPacket::new_checked(ip.payload()).unwrap();
            if segment.dst_port() == self.port {
                let controls = u32::from(segment.syn()) + u32::from(segment.fin());
                let length = segment.payload().len() as u32 + controls;
                self.expected = segment.seq_number().0.cast_unsigned().wrapping_add(length);
                self.to = segment.src_port();
                self.confirmed = segment.ack_number().0.cast_unsigned();
                let flags = [(segment.syn(), SYN), (segment.fin(), FIN), (segment.rst(), RST), (segment.ack(), ACK)];
                all.push(flags.into_iter().map(|(is_set, flag)| if is_set { flag } else { 0 }).sum());
            }
        }
        all
    }

    /// Returns the key of the connection.
    fn key(&self) -> Key {
        let [local, peer] = [ADDRESS, self.address].map(IpAddr::V4);
        Key { protocol: Protocol::Tcp, local, peer, peer_port: self.port, port: self.to }
    }

    /// Connects to the computer.
    fn connect(&mut self, bench: &mut Bench) {
        assert_eq!(self.send(bench, SYN, &[]), [SYN | ACK]);
        assert_eq!(self.send(bench, ACK, &[]), []);
    }
}

/// Returns a computer that knows its neighbour and listens on port 7, and the index of the listener.
fn computer() -> (Bench, usize) {
    let mut bench = Bench::new(Some(ADDRESS), usize::MAX);
    let (listener, _) = bench.state.listeners.listen(on(7)).unwrap();
    // The computer takes a neighbour's MAC address only from an answer to its own question. So it has to connect first.
    let stream = bench.state.connect((SERVER, 9).into(), bench.now).unwrap();
    let mut peer = Peer::new(9, 0);
    assert_eq!(peer.receive(&mut bench), [SYN]);
    peer.next = 0;
    peer.send(&mut bench, RST | ACK, &[]);
    bench.state.release(stream, bench.now);
    assert_eq!(bench.state.usage(), Usage { listeners: 1, ..Usage::default() });
    (bench, listener)
}

#[test]
fn segment_for_all_or_from_nobody_is_not_answered() {
    let (mut bench, _) = computer();
    let all = [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255), Ipv4Addr::new(224, 0, 0, 1)];
    let (all, nobody) =
        (all.map(|to| (SERVER, to)), [(Ipv4Addr::UNSPECIFIED, ADDRESS), (Ipv4Addr::BROADCAST, ADDRESS)]);
    for (from, to) in all.into_iter().chain(nobody) {
        for port in [7, 8] {
            let mut frame = datagram(0, 0, &[0; 12]);
            fill_segment(&mut frame, |segment| {
                segment.set_src_port(100);
                segment.set_dst_port(port);
                segment.set_header_len(20);
                segment.clear_flags();
                segment.set_syn(true);
            });
            let mut ip = Ipv4Packet::new_unchecked(&mut frame[14..]);
            ip.set_src_addr(from);
            ip.set_dst_addr(to);
            ip.fill_checksum();
            TcpPacket::new_unchecked(ip.payload_mut()).fill_checksum(&from.into(), &to.into());
            bench.other.lock().unwrap().arrived.push_back(frame);
            assert!(bench.serve().0.is_empty(), "{from} {to} {port}");
        }
    }
    assert_eq!(bench.state.usage(), Usage { listeners: 1, ..Usage::default() });
}

#[test]
fn nobody_connects_to_all_computers() {
    let (mut bench, _) = computer();
    let all = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255), Ipv4Addr::new(224, 0, 0, 1)];
    for peer in all {
        assert_eq!(bench.state.connect((peer, 7).into(), bench.now), Err(NetError::AddrNotAvailable), "{peer}");
    }
}

/// The window of the peer would allow 60,000 bytes at once. But the computer does not know whether the network can
/// carry them.
#[test]
fn little_is_sent_at_once_until_acknowledgements_come_and_again_after_a_loss() {
    let (mut bench, listener) = computer();
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    assert_eq!(bench.state.connection(stream).unwrap().send(&[7; 50_000]), Ok(50_000));
    bench.state.settle(stream, bench.now);
    let mut segments = vec![peer.receive(&mut bench).len()];
    while segments.last() < Some(&12) {
        segments.push(peer.send(&mut bench, ACK, &[]).len());
    }
    assert!(segments[0] <= 4 && segments.is_sorted_by(|before, after| before < after), "{segments:?}");
    // The last segments are lost.
    let mut again = vec![];
    while again.is_empty() {
        bench.now += Duration::from_millis(100);
        again = peer.receive(&mut bench);
    }
    assert_eq!(again.len(), 1);
    let after = peer.send(&mut bench, ACK, &[]).len();
    assert!(after <= 2, "{after} segments after {segments:?}, and a loss");
}

/// The peer takes segments of 536 bytes, because it has named no other length.
#[test]
fn short_segment_waits_until_the_peer_confirms_the_one_before() {
    let (mut bench, listener) = computer();
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    let write = |bench: &mut Bench, peer: &mut Peer, bytes| {
        assert_eq!(bench.state.connection(stream).unwrap().send(&vec![7; bytes]), Ok(bytes));
        bench.state.settle(stream, bench.now);
        peer.receive(bench).len()
    };
    // The end of a long write is a short segment.
    for (bytes, segments) in [(10, 1), (1_000, 2), (1_500, 3), (10, 1)] {
        assert_eq!(write(&mut bench, &mut peer, bytes), segments, "{bytes}");
        assert_eq!([10, 10].map(|more| write(&mut bench, &mut peer, more)), [0, 0], "after {bytes}");
        assert_eq!(peer.send(&mut bench, ACK, &[]).len(), 1);
        assert_eq!(peer.send(&mut bench, ACK, &[]).len(), 0);
    }
    bench.state.release(stream, bench.now);
}

/// A peer that controls congestion sends one segment at first. It would wait for a late acknowledgement each time.
#[test]
fn first_segments_are_acknowledged_at_once_and_later_ones_after_a_while() {
    let (mut bench, listener) = computer();
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    let at_once = (0..20).take_while(|_| peer.send(&mut bench, ACK, b"data") == [ACK]).count();
    assert_eq!(at_once, 15);
    bench.now += Duration::from_millis(10);
    assert_eq!(peer.receive(&mut bench), [ACK]);
    bench.state.release(stream, bench.now);
}

/// A device may put the segments of a peer together, so that a second one need not come.
#[test]
fn segment_as_long_as_two_is_acknowledged_at_once() {
    let (mut bench, listener) = computer();
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    (0..16).for_each(|_| drop(peer.send(&mut bench, ACK, b"data")));
    for (bytes, answer) in [(2_920, &[ACK][..]), (1_460, &[]), (2_920, &[ACK]), (1_460, &[]), (4, &[ACK])] {
        assert_eq!(peer.send(&mut bench, ACK, &vec![7; bytes]), answer, "{bytes}");
    }
    bench.state.release(stream, bench.now);
}

/// A peer that reads nothing for an hour keeps its connection, and gets the data when it has room.
#[test]
fn window_of_zero_is_probed_as_long_as_the_peer_answers() {
    let (mut bench, listener) = computer();
    let mut peer = Peer::new(100, 7);
    peer.window = 0;
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    assert_eq!(bench.state.connection(stream).unwrap().send(b"data"), Ok(4));
    bench.state.settle(stream, bench.now);
    let (end, before) = (bench.now + Duration::from_secs(3_600), peer.expected);
    let mut probes = 0;
    while bench.now < end {
        bench.now += Duration::from_secs(1);
        if !peer.receive(&mut bench).is_empty() {
            probes += 1;
            peer.expected = before;
            peer.send(&mut bench, ACK, &[]);
        }
    }
    // In the end, there is at most one probe a minute.
    assert!((60..100).contains(&probes), "{probes}");
    peer.window = 100;
    peer.send(&mut bench, ACK, &[]);
    assert_eq!(peer.expected, before.wrapping_add(4));
    assert!(bench.state.connection(stream).unwrap().socket().may_send());
}

#[test]
fn data_after_the_end_of_the_data_is_no_access_outside_of_the_memory() {
    let (mut bench, listener) = computer();
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    // Three segments with this data fill the first page but for its last byte.
    let data = vec![1; 1_365];
    (0..3).for_each(|_| drop(peer.send(&mut bench, ACK, &data)));
    let connection = bench.state.connection(stream).unwrap();
    assert_eq!(connection.receive(&mut [0; 5_000]), Ok(4_095));
    bench.state.settle(stream, bench.now);
    peer.send(&mut bench, FIN | ACK, &[]);
    peer.send(&mut bench, ACK, &data);
    bench.state.release(stream, bench.now);
}

#[test]
fn segments_of_a_stream_that_arrive_together_are_acknowledged_together() {
    let (mut bench, listener) = computer();
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    let (segment, mut buffer) = ([7; 1_000], [0; 60_000]);
    for (segments, acknowledgements) in [(1, 1), (2, 1), (10, 1), (50, 3)] {
        for _ in 0..segments {
            let frame = peer.segment(ACK, &segment);
            peer.next = peer.next.wrapping_add(1_000);
            bench.other.lock().unwrap().arrived.push_back(frame);
        }
        // A part of the window is acknowledged although more has arrived, so that the peer does not stop.
        bench.state.receive(100, bench.now);
        assert_eq!(peer.receive(&mut bench), vec![ACK; acknowledgements], "{segments} segments");
        assert_eq!(peer.confirmed, peer.next);
        let received = bench.state.connection(stream).unwrap().receive(&mut buffer);
        assert_eq!(received, Ok(segments * 1_000));
        bench.state.settle_read(stream, segments * 1_000);
        peer.receive(&mut bench);
    }
    bench.state.release(stream, bench.now);
}

#[test]
fn flood_of_connections_is_bounded_and_does_not_disturb_others() {
    let (mut bench, listener) = computer();
    let mut old = Peer::new(100, 7);
    old.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    for port in 1_000..60_000 {
        Peer::new(port, 7).send(&mut bench, SYN, &[]);
        let usage = bench.state.usage();
        assert!(usage.half_open <= 128 && usage.connections <= 129, "{usage:?}");
    }
    assert_eq!(bench.state.connections.pages_with_memory(), 0);
    old.send(&mut bench, ACK, b"still here");
    assert_eq!(bench.state.connection(stream).unwrap().receive(&mut [0; 99]), Ok(10));
    // Half-open connections end after a while, and then there is room again.
    bench.now += Duration::from_secs(11);
    bench.serve();
    assert_eq!(bench.state.usage().half_open, 0);
    Peer::new(101, 7).connect(&mut bench);
    assert!(bench.state.accept(listener).is_some());
}
