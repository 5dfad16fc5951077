//! Frames that a peer should not send: random ones, mutated ones, and answers with wrong numbers, between calls of a
//! program. No frame may cause a panic, and nothing may be left afterwards.

extern crate std;

mod checksums;

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use smoltcp::wire::{
    DnsQueryType, EthernetFrame, EthernetProtocol, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv6Packet,
    NdiscRepr, TcpPacket, TcpSeqNumber,
};

pub(crate) use self::checksums::fill_segment;
use self::checksums::restore_checksums;
use crate::ipv6::tests::{self as ipv6, GLOBAL, NEAR, ROUTER};
use crate::listeners::BACKLOG;
use crate::peers::refusals::message;
use crate::stack::{Configuration, Ipv6, Usage};
use crate::tests::{ADDRESS, Bench, SERVER, datagram, from_server};

/// The ports of the fuzzed computer, and others.
const PORTS: [u16; 5] = [7, 8, 9, 53, 68];
/// How many connections the program has at most.
const CONNECTIONS: usize = 50;

struct Fuzzer {
    bench: Bench,
    random: fastrand::Rng,
    /// Frames that the computer has sent.
    seen: Vec<Vec<u8>>,
    listeners: [usize; 2],
    sockets: [usize; 2],
    streams: Vec<usize>,
    /// How many connections of peers the program has accepted, how many bytes it has read and written, and how many
    /// datagrams and attempts to connect were refused.
    done: [usize; 4],
}

impl Fuzzer {
    fn new(seed: u64, address: Option<Ipv4Addr>) -> Self {
        let dns = address.map(|_| SERVER.into());
        let address = address.map(|it| (it, 24));
        let configuration = Configuration { address, ipv6: Ipv6::Automatic, dns, seed: 1, ..Configuration::default() };
        let mut bench = Bench::with(&configuration, usize::MAX);
        let both = [Ipv4Addr::UNSPECIFIED.into(), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let listeners = both.map(|address| bench.state.listeners.listen((address, 7).into()).unwrap().0);
        let sockets = both.map(|address| bench.state.bind_datagrams((address, 9).into()).unwrap().0);
        let random = fastrand::Rng::with_seed(seed);
        Self { bench, random, seen: Vec::new(), listeners, sockets, streams: Vec::new(), done: [0; 4] }
    }

    fn step(&mut self) {
        match self.random.u8(..8) {
            0 => self.act(),
            _ => {
                let mut frame = self.frame();
                if self.random.u8(..3) == 0 {
                    self.mutate(&mut frame);
                }
                frame.truncate(crate::FRAME_BYTES);
                self.bench.other.lock().unwrap().arrived.push_back(frame);
            }
        }
        let (sent, _) = self.bench.serve();
        self.see(sent);
        let most = 4 * BACKLOG + 4 * CONNECTIONS;
        assert!(self.bench.state.usage().connections < most, "{:?}", self.bench.state.usage());
    }

    /// Remembers some of the frames.
    fn see(&mut self, sent: Vec<Vec<u8>>) {
        for frame in sent {
            if self.seen.len() == 64 {
                self.seen.swap_remove(self.random.usize(..64));
            }
            self.seen.push(frame);
        }
    }

    /// Does something that a program does, or lets time pass.
    fn act(&mut self) {
        let (state, now) = (&mut self.bench.state, self.bench.now);
        let stream = self.random.choice(&self.streams).copied();
        match (self.random.u8(..10), stream) {
            (0, _) => {
                let accepted = state.accept(self.listeners[self.random.usize(..2)]);
                self.done[0] += usize::from(accepted.is_some());
                self.streams.extend(accepted);
            }
            (1, _) if self.streams.len() < CONNECTIONS => {
                let peer = [SERVER.into(), IpAddr::V6(ROUTER)][self.random.usize(..2)];
                self.streams.extend(state.connect((peer, PORTS[self.random.usize(..5)]).into(), now));
            }
            (2, Some(stream)) => {
                self.streams.retain(|&other| other != stream);
                self.done[3] += usize::from(state.connection(stream).unwrap().refusal.is_some());
                state.release(stream, now);
            }
            (3 | 4, Some(stream)) => {
                let data = vec![1; self.random.usize(..100_000)];
                self.done[2] += state.connection(stream).unwrap().send(&data).unwrap_or(0);
                state.settle(stream, now);
            }
            (5 | 6, Some(stream)) => {
                let mut buffer = vec![0; self.random.usize(1..70_000)];
                self.done[1] += state.connection(stream).unwrap().receive(&mut buffer).unwrap_or(0);
                state.settle(stream, now);
            }
            (7, _) => {
                for socket in self.sockets {
                    let connection = state.connection(socket).unwrap();
                    while connection.datagrams().recv().is_ok() {}
                    self.done[3] += usize::from(connection.check_datagrams().is_err());
                    state.settle(socket, now);
                }
            }
            (8, _) => {
                if let Ok(query) = state.ask("host.example", DnsQueryType::A, now) {
                    state.cancel(query);
                }
            }
            _ => self.bench.now += Duration::from_millis(1 << self.random.u32(..12)),
        }
    }

    fn frame(&mut self) -> Vec<u8> {
        match self.random.u8(..16) {
            0 => {
                let mut frame = vec![0; self.random.usize(..200)];
                self.random.fill(&mut frame);
                frame
            }
            1 => datagram(self.random.u16(1..), PORTS[self.random.usize(2..5)], &vec![5; self.random.usize(..1_400)]),
            2 => {
                use smoltcp::wire::DhcpMessageType::{Ack, Nak, Offer};
                let message = [Offer, Ack, Nak][self.random.usize(..3)];
                from_server(message, self.random.u32(..), self.random.u32(..100))
            }
            3 => crate::tests::arp_answer([SERVER, ADDRESS][self.random.usize(..2)]),
            4 | 5 => self.new_connection(),
            6 => self.new_ipv6_connection(),
            7 => self.ipv6_frame(),
            8 => self.refusal().unwrap_or_default(),
            _ => self.answer().unwrap_or_default(),
        }
    }

    /// Returns a segment that asks for a connection.
    fn new_connection(&mut self) -> Vec<u8> {
        let mut frame = datagram(0, 0, &[0; 16]);
        let (src_port, sequence) = (self.random.u16(1..300), self.random.i32(..));
        fill_segment(&mut frame, |segment| {
            segment.set_src_port(src_port);
            segment.set_dst_port(7);
            segment.set_seq_number(TcpSeqNumber(sequence));
            segment.set_header_len(20);
            segment.clear_flags();
            segment.set_syn(true);
            segment.set_window_len(50_000);
        });
        frame
    }

    /// Returns a segment that asks for a connection over IPv6.
    fn new_ipv6_connection(&mut self) -> Vec<u8> {
        let (src_port, sequence) = (self.random.u16(1..300), self.random.i32(..));
        ipv6::segment((ROUTER, [NEAR, GLOBAL][self.random.usize(..2)]), 4, |segment| {
            segment.set_src_port(src_port);
            segment.set_dst_port(7);
            segment.set_seq_number(TcpSeqNumber(sequence));
            segment.set_syn(true);
            segment.set_window_len(50_000);
        })
    }

    /// Returns a frame about neighbours and routers, or with any other content.
    fn ipv6_frame(&mut self) -> Vec<u8> {
        let own = [NEAR, GLOBAL, Ipv6Addr::LOCALHOST][self.random.usize(..3)];
        match self.random.u8(..6) {
            0 => {
                let mut octets = GLOBAL.octets();
                let lengths = [64, 64, 64, 0, 128, 255];
                if self.random.bool() {
                    octets[self.random.usize(..8)] = self.random.u8(..);
                }
                let seconds = [0, 100, 8_000, u64::from(u32::MAX)][self.random.usize(..4)];
                ipv6::advertise(octets.into(), lengths[self.random.usize(..6)], seconds, 255)
            }
            1 => ipv6::neighbour(ROUTER),
            2 => {
                let repr = NdiscRepr::NeighborSolicit { target_addr: own, lladdr: None };
                ipv6::message((ROUTER, own), 255, &Icmpv6Repr::Ndisc(repr))
            }
            3 => ipv6::message((ROUTER, own), 64, &Icmpv6Repr::EchoRequest { ident: 1, seq_no: 2, data: b"data" }),
            _ => {
                // The headers before those of a protocol: hop-by-hop options, routing, fragment, destination options.
                let protocols = [0, 43, 44, 60, 58, 17, 6, self.random.u8(..)];
                let protocol = protocols[self.random.usize(..8)].into();
                let bytes = self.random.usize(..100);
                let mut random = self.random.fork();
                let first = protocols[random.usize(..8)];
                ipv6::packet((ROUTER, own), 255, protocol, bytes, |payload| {
                    random.fill(payload);
                    payload.iter_mut().take(1).for_each(|byte| *byte = first);
                    payload.iter_mut().skip(1).take(1).for_each(|byte| *byte = random.u8(..6));
                })
            }
        }
    }

    /// Returns an answer to a segment that the computer has sent, mostly with numbers that it accepts.
    fn answer(&mut self) -> Option<Vec<u8>> {
        let seen = self.random.choice(&self.seen)?.clone();
        let ethernet = EthernetFrame::new_checked(&seen[..]).ok()?;
        let ipv4 = Ipv4Packet::new_checked(ethernet.payload()).ok().filter(|ip| ip.version() == 4);
        let ipv6 = Ipv6Packet::new_checked(ethernet.payload()).ok().filter(|ip| ip.version() == 6);
        let (protocol, payload) = match (&ipv4, &ipv6) {
            (Some(ip), _) => (ip.next_header(), ip.payload()),
            (_, Some(ip)) => (ip.next_header(), ip.payload()),
            _ => return None,
        };
        if protocol != IpProtocol::Tcp {
            return self.repeat(seen.clone());
        }
        let segment = TcpPacket::new_checked(payload).ok()?;
        let control = usize::from(segment.syn()) + usize::from(segment.fin());
        let acknowledged = segment.seq_number() + segment.payload().len() + control;
        let mut random = self.random.fork();
        let data = match random.u8(..3) {
            0 => 0,
            1 => random.usize(..20),
            _ => random.usize(..1_400),
        };
        let (src_port, dst_port, sequence) = (segment.dst_port(), segment.src_port(), segment.ack_number());
        let is_syn = segment.syn() && !segment.ack();
        let fill = |to: &mut TcpPacket<&mut [u8]>| {
            to.set_src_port(src_port);
            to.set_dst_port(dst_port);
            let offset = match random.u8(..6) {
                0 => random.i32(-70_000..70_000),
                1 => random.i32(-3_000..3_000),
                2 => random.i32(..),
                _ => 0,
            };
            to.set_seq_number(TcpSeqNumber(sequence.0.wrapping_add(offset)));
            let offset = if random.u8(..6) == 0 { random.i32(-70_000..70_000) } else { 0 };
            to.set_ack_number(TcpSeqNumber(acknowledged.0.wrapping_add(offset)));
            to.set_header_len(20);
            to.clear_flags();
            to.set_ack(random.u8(..20) != 0);
            to.set_syn(is_syn || random.u8(..30) == 0);
            to.set_fin(random.u8(..20) == 0);
            to.set_rst(random.u8(..100) == 0);
            to.set_window_len([0, 100, u16::MAX][random.usize(..3)]);
        };
        if let Some(ip) = ipv6 {
            return Some(ipv6::segment((ip.dst_addr(), ip.src_addr()), data, fill));
        }
        let mut frame = datagram(0, 0, &vec![6; 12 + data]);
        fill_segment(&mut frame, fill);
        Some(frame)
    }

    /// Returns an ICMP message about a frame that the computer has sent.
    fn refusal(&mut self) -> Option<Vec<u8>> {
        let seen = self.random.choice(&self.seen)?.clone();
        let is_ipv6 = EthernetFrame::new_checked(&seen[..]).ok()?.ethertype() == EthernetProtocol::Ipv6;
        let mut quoted = seen[14..seen.len().min(14 + self.random.usize(20..100))].to_vec();
        if self.random.u8(..4) == 0 {
            let at = self.random.usize(..quoted.len());
            quoted[at] = self.random.u8(..);
        }
        let mtu = [0, 68, 576, 1_280, 1_400, u16::MAX][self.random.usize(..6)];
        if is_ipv6 {
            let [high, low] = mtu.to_be_bytes();
            let header = [self.random.u8(..5), self.random.u8(..6), 0, 0, 0, 0, high, low];
            return Some(ipv6::packet((ROUTER, GLOBAL), 64, IpProtocol::Icmpv6, 8 + quoted.len(), |payload| {
                payload[..8].copy_from_slice(&header);
                payload[8..].copy_from_slice(&quoted);
                Icmpv6Packet::new_unchecked(payload).fill_checksum(&ROUTER, &GLOBAL);
            }));
        }
        let kind = [[3, 3, 3, 4, 11][self.random.usize(..5)], self.random.u8(..16)];
        Some(message(kind, mtu, &quoted))
    }

    /// Returns a frame that the computer has sent, changed as if its neighbour had sent it.
    fn repeat(&mut self, mut frame: Vec<u8>) -> Option<Vec<u8>> {
        let mut ethernet = EthernetFrame::new_checked(&mut frame[..]).ok()?;
        let (from, to) = (ethernet.src_addr(), ethernet.dst_addr());
        ethernet.set_src_addr(to);
        ethernet.set_dst_addr(from);
        Some(frame)
    }

    /// Changes some bytes, and mostly makes the checksums right again.
    fn mutate(&mut self, frame: &mut Vec<u8>) {
        for _ in 0..self.random.usize(..4) {
            if !frame.is_empty() {
                let at = self.random.usize(..frame.len()).min(self.random.usize(..frame.len()));
                frame[at] = self.random.u8(..);
            }
        }
        match self.random.u8(..8) {
            0 => frame.truncate(self.random.usize(..=frame.len())),
            1 => frame.resize(frame.len() + self.random.usize(..100), 0),
            _ => {}
        }
        if self.random.u8(..8) != 0 {
            restore_checksums(frame);
        }
    }

    /// Ends everything that the program has. Nothing may be left then. Returns what the program has done.
    fn end(mut self) -> [usize; 4] {
        let (state, now) = (&mut self.bench.state, self.bench.now);
        self.streams.drain(..).for_each(|stream| state.release(stream, now));
        self.listeners.into_iter().for_each(|listener| state.unlisten(listener, now));
        self.sockets.into_iter().for_each(|socket| state.remove_datagrams(socket));
        for _ in 0..310 {
            self.bench.now += Duration::from_secs(1);
            self.bench.serve();
        }
        assert_eq!(self.bench.state.usage(), Usage::default());
        assert_eq!(self.bench.state.connections.pages_with_memory(), 0);
        self.done
    }
}

/// Fuzzes a new computer for each 10,000 steps, `frames` steps in all. Every fourth computer has no address of its own,
/// and asks for one by DHCP.
fn fuzz(seed: u64, frames: usize) {
    let mut done = [0; 4];
    for round in 0..frames.div_ceil(10_000) as u64 {
        let address = (round % 4 != 3).then_some(ADDRESS);
        let mut fuzzer = Fuzzer::new(seed << 32 | round, address);
        (0..10_000).for_each(|_| fuzzer.step());
        done.iter_mut().zip(fuzzer.end()).for_each(|(sum, more)| *sum += more);
    }
    // Enough frames were valid: connections were accepted, bytes were read and written, and peers have refused.
    assert!(done.iter().zip([100, frames, frames, 10]).all(|(&done, least)| done >= least), "{done:?}");
}

#[test]
fn no_frame_panics_and_nothing_is_left() {
    fuzz(0, 100_000);
}

#[test]
#[ignore = "takes minutes"]
fn ten_million_frames() {
    fuzz(std::env::var("GMP_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0), 10_000_000);
}
