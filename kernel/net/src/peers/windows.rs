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
