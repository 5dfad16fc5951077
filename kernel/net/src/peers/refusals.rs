//! ICMP messages about segments and datagrams of the computer.

use smoltcp::socket::tcp::State as TcpState;
use smoltcp::wire::{Icmpv4Packet, Ipv6Packet};

use super::*;
use crate::ipv6::tests::{NEAR, ROUTER, segment};
use crate::split::split;

/// Returns a frame with an ICMP message. Its header is as long as that of a datagram.
pub(crate) fn message([kind, code]: [u8; 2], mtu: u16, quoted: &[u8]) -> Vec<u8> {
    let mut frame = datagram(0, 0, quoted);
    let mut ip = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.set_next_header(IpProtocol::Icmp);
    ip.fill_checksum();
    ip.payload_mut()[..8].copy_from_slice(&[kind, code, 0, 0, 0, 0, (mtu >> 8) as u8, mtu as u8]);
    Icmpv4Packet::new_unchecked(ip.payload_mut()).fill_checksum();
    frame
}

fn deliver(bench: &mut Bench, frame: Vec<u8>) {
    bench.other.lock().unwrap().arrived.push_back(frame);
    bench.serve();
}

/// Begins a connection. Returns its index, and the beginning of the packet by which it asks for that.
fn begin(bench: &mut Bench) -> (usize, Vec<u8>) {
    let stream = bench.state.connect((SERVER, 9).into(), bench.now).unwrap();
    let packets = bench.serve().0;
    (stream, packets.last().unwrap()[14..14 + 28].to_vec())
}

fn refusal(bench: &mut Bench, index: usize) -> Option<NetError> {
    bench.state.connection(index).unwrap().refusal
}

#[test]
fn attempt_to_connect_fails_with_what_a_router_says() {
    use NetError::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let (mut bench, _) = computer();
    for (kind, error) in [
        ([3, 0], Some(NetworkUnreachable)),
        ([3, 1], Some(HostUnreachable)),
        ([3, 3], Some(ConnectionRefused)),
        ([3, 13], Some(HostUnreachable)),
        ([11, 0], Some(HostUnreachable)),
        // A fragment did not arrive, and the computer should send more slowly.
        ([11, 1], None),
        ([4, 0], None),
    ] {
        let (stream, quoted) = begin(&mut bench);
        deliver(&mut bench, message(kind, 0, &quoted));
        assert_eq!(refusal(&mut bench, stream), error, "{kind:?}");
        bench.state.release(stream, bench.now);
    }
}

#[test]
fn message_about_a_segment_that_was_not_sent_is_ignored() {
    let (mut bench, _) = computer();
    let (stream, quoted) = begin(&mut bench);
    // In turn: the ports of both ends, both addresses, and three times the sequence number.
    for (at, change) in [(21, 1), (23, 1), (15, 1), (19, 1), (27, 1), (27, 0xff), (24, 0x80)] {
        let mut wrong = quoted.clone();
        wrong[at] = wrong[at].wrapping_add(change);
        deliver(&mut bench, message([3, 3], 0, &wrong));
        assert_eq!(refusal(&mut bench, stream), None, "{at} {change}");
    }
    for length in 0..28 {
        deliver(&mut bench, message([3, 3], 0, &quoted[..length]));
        assert_eq!(refusal(&mut bench, stream), None, "{length}");
    }
    let mut damaged = message([3, 3], 0, &quoted);
    damaged[34 + 2] ^= 1;
    deliver(&mut bench, damaged);
    assert_eq!(refusal(&mut bench, stream), None);
    deliver(&mut bench, message([3, 3], 0, &quoted));
    assert_eq!(refusal(&mut bench, stream), Some(NetError::ConnectionRefused));
}

#[test]
fn connection_survives_messages_and_ends_with_their_reason_if_the_peer_stays_silent() {
    for is_silent in [false, true] {
        let (mut bench, listener) = computer();
        let mut peer = Peer::new(100, 7);
        peer.connect(&mut bench);
        let stream = bench.state.accept(listener).unwrap();
        bench.state.connection(stream).unwrap().send(b"data").unwrap();
        bench.state.settle(stream, bench.now);
        let sent = bench.serve().0;
        deliver(&mut bench, message([3, 3], 0, &sent[0][14..]));
        assert_eq!(refusal(&mut bench, stream), Some(NetError::ConnectionRefused));
        assert_eq!(bench.state.connection(stream).unwrap().socket().state(), TcpState::Established);
        if !is_silent {
            // There is a route again.
            peer.send(&mut bench, ACK, b"data");
            assert_eq!(refusal(&mut bench, stream), None);
        }
        let error = if is_silent { NetError::ConnectionRefused } else { NetError::ConnectionReset };
        for _ in 0..310 {
            bench.now += Duration::from_secs(1);
            bench.serve();
        }
        assert_eq!(bench.state.connection(stream).unwrap().send(b"more"), Err(error));
        assert_eq!(bench.state.connection(stream).unwrap().reset(), error);
    }
}

#[test]
fn segments_become_small_enough_for_the_path() {
    let (mut bench, listener) = computer();
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    let data: Vec<u8> = (0..2_000_u32).map(|at| (at % 251) as u8).collect();
    bench.state.connection(stream).unwrap().send(&data).unwrap();
    bench.state.connection(stream).unwrap().socket().close();
    bench.state.settle(stream, bench.now);
    let whole = bench.serve().0;
    let longest = |frames: &[Vec<u8>]| frames.iter().map(|frame| frame.len() - 14).max();
    assert_eq!(longest(&whole), Some(576));
    // The MTU of a path does not rise. One of less than 552 bytes is not believed.
    for (mtu, believed) in [(576, 576), (1_000, 576), (0, 552)] {
        deliver(&mut bench, message([3, 4], mtu, &whole[0][14..42]));
        assert_eq!(bench.state.connection(stream).unwrap().sent.frame_bytes, 14 + believed);
    }
    let (mut got, mut is_ended) = (vec![None; 2_000], false);
    for _ in 0..200 {
        bench.now += Duration::from_millis(500);
        for frame in bench.serve().0 {
            assert!(frame.len() <= 14 + 552);
            if classify(&frame) == Class::Neighbour {
                continue;
            }
            let ip = Ipv4Packet::new_checked(&frame[14..]).unwrap();
            let segment = TcpPacket::new_checked(ip.payload()).unwrap();
            assert!(ip.verify_checksum() && segment.verify_checksum(&ADDRESS.into(), &SERVER.into()));
            let at = segment.seq_number().0.cast_unsigned().wrapping_sub(peer.expected) as usize;
            segment.payload().iter().enumerate().for_each(|(offset, byte)| got[at + offset] = Some(*byte));
            assert_eq!(segment.fin(), at + segment.payload().len() == data.len());
            is_ended |= segment.fin();
        }
        let missing = got.iter().position(Option::is_none).unwrap_or(2_000);
        let expected = peer.expected;
        peer.expected = expected.wrapping_add(missing as u32);
        bench.other.lock().unwrap().arrived.push_back(peer.segment(ACK, &[]));
        peer.expected = expected;
    }
    assert!(is_ended && got.into_iter().eq(data.into_iter().map(Some)));
}

#[test]
fn parts_of_an_ipv6_segment_are_segments() {
    let data: Vec<u8> = (0..1_400_u32).map(|at| at as u8).collect();
    let mut frame = segment((NEAR, ROUTER), data.len(), |segment| {
        segment.set_seq_number(TcpSeqNumber(-700));
        segment.set_fin(true);
        segment.payload_mut().copy_from_slice(&data);
    });
    let (mut next, mut got) = (TcpSeqNumber(-700), Vec::new());
    split(&mut frame, 14 + 1_280, |part| {
        let ip = Ipv6Packet::new_checked(&part[14..]).unwrap();
        let segment = TcpPacket::new_checked(ip.payload()).unwrap();
        assert!(part.len() <= 14 + 1_280 && segment.verify_checksum(&NEAR.into(), &ROUTER.into()));
        assert_eq!((segment.seq_number(), segment.fin()), (next, got.len() == 1_220));
        next += segment.payload().len();
        got.extend_from_slice(segment.payload());
    });
    assert!(got == data);
}

#[test]
fn socket_with_a_peer_learns_that_its_datagram_was_refused() {
    let (mut bench, _) = computer();
    let (socket, port) = bench.state.bind_datagrams(on(0)).unwrap();
    let quoted = |bench: &mut Bench| {
        let to = smoltcp::wire::IpEndpoint::new(SERVER.into(), 9);
        bench.state.connection(socket).unwrap().datagrams().send_slice(b"data", to).unwrap();
        bench.state.settle(socket, bench.now);
        bench.serve().0[0][14..42].to_vec()
    };
    for (peer, kind, error) in [
        (None, [3, 3], None),
        (Some(8), [3, 3], None),
        (Some(9), [3, 1], None),
        (Some(9), [3, 3], Some(NetError::ConnectionRefused)),
        (Some(9), [3, 4], Some(NetError::MessageTooLong)),
    ] {
        bench.state.connection(socket).unwrap().peer = peer.map(|port| (SERVER, port).into());
        let quoted = quoted(&mut bench);
        deliver(&mut bench, message(kind, 0, &quoted));
        assert_eq!(refusal(&mut bench, socket), error, "{peer:?} {kind:?}");
        let connection = bench.state.connection(socket).unwrap();
        assert_eq!(connection.is_ready()[0], error.is_some());
        assert_eq!(connection.check_datagrams(), error.map_or(Ok(()), Err));
        assert_eq!(connection.check_datagrams(), Ok(()));
    }
    let own = Key::of_datagrams(ADDRESS.into(), port);
    assert_eq!(bench.state.find_datagrams(own), Some(socket));
}
