//! Peers that close their windows, and what is sent again then.

use super::*;

/// Makes a connection whose program has written `bytes` bytes, and ends its data if `has_end`. Returns its peer, and
/// its index. The peer expects the first byte.
fn writing(bench: &mut Bench, listener: usize, bytes: usize, has_end: bool) -> (Peer, usize) {
    let mut peer = Peer::new(100, 7);
    peer.connect(bench);
    let stream = bench.state.accept(listener).unwrap();
    let first = peer.expected;
    let connection = bench.state.connection(stream).unwrap();
    assert_eq!(connection.send(&vec![7; bytes]), Ok(bytes));
    if has_end {
        connection.socket().close();
    }
    bench.state.settle(stream, bench.now);
    assert!(!peer.receive(bench).is_empty());
    peer.expected = first;
    (peer, stream)
}

/// Waits until the computer sends again, and returns the flags of what it sends.
fn again(bench: &mut Bench, peer: &mut Peer) -> Vec<u8> {
    let end = bench.now + Duration::from_secs(120);
    loop {
        assert!(bench.now < end, "nothing is sent again");
        bench.now += Duration::from_secs(1);
        let sent = peer.receive(bench);
        if !sent.is_empty() {
            return sent;
        }
    }
}

/// The peer closes its window although data is under way, as Linux does if it has no memory for that data.
#[test]
fn what_is_under_way_to_a_window_that_closes_is_sent_again() {
    for acknowledged in [0, 536] {
        let (mut bench, listener) = computer();
        let (mut peer, stream) = writing(&mut bench, listener, 1_000, false);
        let first = peer.expected + acknowledged;
        (peer.expected, peer.window) = (first, 0);
        peer.send(&mut bench, ACK, &[]);
        // What is sent now is not taken, either.
        again(&mut bench, &mut peer);
        (peer.expected, peer.window) = (first, 60_000);
        peer.send(&mut bench, ACK, &[]);
        peer.expected = first;
        while bench.state.connection(stream).unwrap().socket().send_queue() != 0 {
            again(&mut bench, &mut peer);
            peer.send(&mut bench, ACK, &[]);
        }
        assert_eq!(peer.expected, first + 1_000 - acknowledged);
        bench.state.release(stream, bench.now);
    }
}

#[test]
fn end_of_the_data_is_sent_again_although_acknowledgements_are_repeated() {
    let (mut bench, listener) = computer();
    let (mut peer, stream) = writing(&mut bench, listener, 100, true);
    peer.expected += 100;
    let before = peer.expected;
    for _ in 0..5 {
        peer.send(&mut bench, ACK, &[]);
        peer.expected = before;
    }
    assert_eq!(again(&mut bench, &mut peer), [FIN | ACK]);
    bench.state.release(stream, bench.now);
}

/// smoltcp forgets the MAC address of a gateway a minute after its answer, although segments arrive from it.
#[test]
fn equal_acknowledgements_let_data_be_sent_again_also_when_the_gateway_is_just_forgotten() {
    for is_forgotten in [false, true] {
        let (address, gateway) = (Some((ADDRESS, 24)), Some(SERVER));
        let mut bench = Bench::with(&Configuration { address, gateway, ..Configuration::default() }, usize::MAX);
        let mut peer = Peer { address: Ipv4Addr::new(10, 1, 0, 1), next: 0, ..Peer::new(9, 0) };
        let stream = bench.state.connect((peer.address, peer.port).into(), bench.now).unwrap();
        assert_eq!(peer.receive(&mut bench), [SYN]);
        assert_eq!(peer.send(&mut bench, SYN | ACK, &[]), [ACK]);
        bench.now += Duration::from_millis(if is_forgotten { 59_900 } else { 59_700 });
        assert_eq!(bench.state.connection(stream).unwrap().send(&[7; 1_072]), Ok(1_072));
        bench.state.settle(stream, bench.now);
        let first = peer.expected;
        assert_eq!(peer.receive(&mut bench), [ACK, ACK]);
        // The first segment is lost.
        bench.now += Duration::from_millis(200);
        peer.expected = first;
        (0..3).for_each(|_| bench.other.lock().unwrap().arrived.push_back(peer.segment(ACK, &[])));
        let sent = bench.serve().0;
        let classes: Vec<_> = sent.iter().map(|frame| classify(frame)).collect();
        if is_forgotten {
            assert_eq!(classes, [Class::Neighbour]);
            // The answer to the question is lost, but not that to the next one.
            assert_eq!(again(&mut bench, &mut peer)[0], ACK);
        } else {
            let Class::Connection(_, segment) = classes[0] else { panic!("{classes:?}") };
            assert_eq!((classes.len(), segment.sequence, segment.bytes), (1, first, 536));
        }
        bench.state.release(stream, bench.now);
    }
}
