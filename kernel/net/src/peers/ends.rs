//! How connections end: by silence, by resets, and by Gs that vanish.

use gmp_sched::goroutine::GoroutineId;
use smoltcp::socket::tcp::State as TcpState;

use super::*;
use crate::abandoned::Users;
use crate::packet::std_duration;

/// Lets a peer that was connected be silent. Returns after how much time the connection has ended, and how often the peer
/// was asked, which it answers if it is `alive`.
fn be_silent(is_alive: bool, keepalive: Option<Duration>) -> (Duration, usize) {
    let (mut bench, listener) = computer();
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    let connection = bench.state.connection(stream).unwrap();
    connection.keepalive = keepalive;
    connection.socket().set_keep_alive(keepalive.and_then(std_duration));
    bench.state.settle(stream, bench.now);
    let (began, expected, mut asked) = (bench.now, peer.expected, 0);
    while bench.now < began + Duration::from_secs(1_000) {
        bench.now += Duration::from_secs(1);
        let answers = peer.receive(&mut bench);
        if bench.state.connection(stream).unwrap().socket().state() != TcpState::Established {
            break;
        }
        asked += answers.len();
        peer.expected = expected;
        if is_alive && !answers.is_empty() {
            peer.send(&mut bench, ACK, &[]);
        }
    }
    (bench.now - began, asked)
}

#[test]
fn silent_peer_is_asked_and_given_up_if_it_does_not_answer() {
    let [minute, all] = [60, 1_000].map(Duration::from_secs);
    assert_eq!(be_silent(false, None), (all, 0));
    // smoltcp also asks at once.
    assert_eq!(be_silent(true, Some(minute)), (all, 17));
    assert_eq!(be_silent(false, Some(minute)), (3 * minute, 3));
}

/// Makes a connection in this state. Returns its peer and its index.
fn in_state(bench: &mut Bench, listener: usize, state: TcpState) -> (Peer, usize) {
    let mut peer = Peer::new(200, 7);
    let now = bench.now;
    if state == TcpState::SynSent {
        let stream = bench.state.connect((SERVER, peer.port).into(), now).unwrap();
        assert_eq!(peer.receive(bench), [SYN]);
        peer.next = 0;
        return (peer, stream);
    }
    if state == TcpState::SynReceived {
        assert_eq!(peer.send(bench, SYN, &[]), [SYN | ACK]);
        let key = |key: &crate::key::Key| key.peer_port == peer.port;
        let index = bench
            .state
            .connections
            .indices()
            .find(|&index| bench.state.connections.get(index).is_some_and(|connection| key(&connection.key)));
        return (peer, index.unwrap());
    }
    peer.connect(bench);
    let stream = bench.state.accept(listener).unwrap();
    if matches!(state, TcpState::CloseWait | TcpState::LastAck) {
        peer.send(bench, FIN | ACK, &[]);
    }
    if !matches!(state, TcpState::Established | TcpState::CloseWait) {
        bench.state.connection(stream).unwrap().socket().close();
        bench.state.settle(stream, now);
        let expected = peer.expected;
        assert_eq!(peer.receive(bench), [FIN | ACK]);
        match state {
            TcpState::FinWait2 => drop(peer.send(bench, ACK, &[])),
            TcpState::Closing => {
                let after = core::mem::replace(&mut peer.expected, expected);
                peer.send(bench, FIN | ACK, &[]);
                peer.expected = after;
            }
            _ => {}
        }
    }
    assert_eq!(bench.state.connection(stream).unwrap().socket().state(), state);
    (peer, stream)
}

#[test]
fn reset_ends_a_connection_in_every_state_but_only_with_the_right_number() {
    use TcpState::{CloseWait, Closing, Established, FinWait1, FinWait2, LastAck, SynReceived, SynSent};
    for state in [SynSent, SynReceived, Established, FinWait1, FinWait2, CloseWait, Closing, LastAck] {
        for is_right in [false, true] {
            let (mut bench, listener) = computer();
            let (mut peer, stream) = in_state(&mut bench, listener, state);
            let before = bench.state.connection(stream).unwrap().socket().state();
            if !is_right {
                // A peer that has not answered yet has no numbers. It must name that of the segment that it refuses.
                let number = if state == SynSent { &mut peer.expected } else { &mut peer.next };
                *number = number.wrapping_sub(100_000);
            }
            peer.send(&mut bench, RST | ACK, &[]);
            let after = bench.state.connection(stream).map(|connection| connection.socket().state());
            let ended = [None, Some(TcpState::Closed)];
            assert!(
                if is_right { ended.contains(&after) } else { after == Some(before) },
                "{state} {is_right} {after:?}"
            );
            if state != SynReceived {
                bench.state.release(stream, bench.now);
            }
            bench.state.unlisten(listener, bench.now);
            for _ in 0..130 {
                bench.now += Duration::from_secs(1);
                bench.serve();
            }
            assert_eq!(bench.state.usage(), Usage::default(), "{state} {is_right}");
        }
    }
}

#[test]
fn hundred_clients_that_vanish_are_given_up() {
    let (mut bench, listener) = computer();
    for port in 0..100 {
        Peer::new(1_000 + port, 7).connect(&mut bench);
        let stream = bench.state.accept(listener).unwrap();
        bench.state.connection(stream).unwrap().send(&[1; 3_000]).unwrap();
        bench.state.settle(stream, bench.now);
        // Half of the programs have nothing more to say.
        if port % 2 == 0 {
            bench.state.release(stream, bench.now);
        }
    }
    let began = bench.now;
    while bench.state.usage().connections > 50 || bench.state.connections.pages_with_memory() != 0 {
        bench.now += Duration::from_secs(1);
        bench.serve();
        assert!(bench.now < began + Duration::from_secs(200), "{:?}", bench.state.usage());
        for index in bench.state.connections.indices() {
            // The programs that wait learn that the connection has ended, and drop it.
            let socket = bench.state.connections.get(index).map(|it| it.socket().state());
            if socket == Some(TcpState::Closed) {
                bench.state.release(index, bench.now);
            }
        }
    }
}

#[test]
fn what_a_g_leaves_behind_is_ended_and_its_entries_are_free_when_the_values_are_dropped() {
    let (mut bench, listener) = computer();
    let (state, now) = (&mut bench.state, bench.now);
    state.listeners[listener].users.add(GoroutineId::MAIN);
    let (shared, ..) = state.listen(on(8)).unwrap();
    state.listeners[shared].users = Users::Several;
    let (socket, _) = state.bind_datagrams(on(9)).unwrap();
    state.note_user(socket, GoroutineId::MAIN);
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    bench.state.note_user(stream, GoroutineId::MAIN);
    // This one was not accepted yet.
    let mut queued = Peer::new(101, 7);
    queued.connect(&mut bench);
    bench.state.abandon(GoroutineId::MAIN, now);
    assert_eq!(peer.receive(&mut bench), [RST | ACK]);
    assert_eq!(bench.state.usage(), Usage { listeners: 1, ..Usage::default() });
    assert_eq!(queued.send(&mut bench, ACK, b"x"), [RST]);
    // Another G may still have the values. The ports are free, and new objects do not get their places.
    let (second, ..) = bench.state.listen(on(7)).unwrap();
    let (other, _) = bench.state.bind_datagrams(on(9)).unwrap();
    assert!(second != listener && other != socket);
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let new = bench.state.accept(second).unwrap();
    assert!(new != stream && bench.state.accept(listener).is_none());
    let connection = bench.state.connection(stream).unwrap();
    assert!(connection.receive(&mut [0; 9]).is_err() && connection.send(b"x").is_err());
    bench.state.abandon(GoroutineId::MAIN, now);
    bench.state.release(stream, now);
    bench.state.unlisten(listener, now);
    bench.state.remove_datagrams(socket);
    assert_eq!(bench.state.usage(), Usage { connections: 1, listeners: 2, udp_sockets: 1, ..Usage::default() });
    assert_eq!(bench.state.listen(on(10)).unwrap().0, listener);
    assert_eq!(bench.state.bind_datagrams(on(11)).unwrap().0, socket);
}
