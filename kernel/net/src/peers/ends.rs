//! How connections end: by silence, by resets, and by Gs that vanish.

use gmp_sched::goroutine::GoroutineId;
use smoltcp::socket::tcp::{RecvError, State as TcpState};

use super::*;
use crate::abandoned::Users;
use crate::packet::std_duration;
use crate::sequence::Sent;
use crate::state::SILENCE;
use crate::time_wait::{KEPT, MOST, TimeWaits};

/// Connects a peer, which then sends nothing by itself. If `is_alive`, it answers when it is asked whether it is there.
/// Returns after how much time the connection has ended, or 1,000 seconds if it has not, and how often the peer was
/// asked.
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
    // smoltcp asks for the first time at once.
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
        let key = |key: &Key| key.peer_port == peer.port;
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
                // A peer that has not answered yet has no sequence number. Its reset must name the number of the
                // segment that it refuses.
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
            for _ in 0..310 {
                bench.now += Duration::from_secs(1);
                bench.serve();
            }
            assert_eq!(bench.state.usage(), Usage::default(), "{state} {is_right}");
        }
    }
}

#[test]
fn silent_peer_is_given_up_although_both_have_ended_their_data() {
    let (mut bench, listener) = computer();
    let (_, stream) = in_state(&mut bench, listener, TcpState::LastAck);
    bench.state.connection(stream).unwrap().is_shut[1] = true;
    bench.state.settle(stream, bench.now);
    let began = bench.now;
    while bench.state.connection(stream).unwrap().socket().state() == TcpState::LastAck {
        bench.now += Duration::from_secs(1);
        bench.serve();
    }
    assert_eq!(bench.now - began, SILENCE);
    bench.state.release(stream, bench.now);
}

#[test]
fn hundred_clients_that_vanish_are_given_up() {
    let (mut bench, listener) = computer();
    for port in 0..100 {
        Peer::new(1_000 + port, 7).connect(&mut bench);
        let stream = bench.state.accept(listener).unwrap();
        bench.state.connection(stream).unwrap().send(&[1; 3_000]).unwrap();
        bench.state.settle(stream, bench.now);
        // Half of the programs drop their connection.
        if port % 2 == 0 {
            bench.state.release(stream, bench.now);
        }
    }
    let began = bench.now;
    while bench.state.usage().connections > 50 || bench.state.connections.pages_with_memory() != 0 {
        bench.now += Duration::from_secs(1);
        bench.serve();
        assert!(bench.now < began + Duration::from_secs(310), "{:?}", bench.state.usage());
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
    state.listeners.set_users(listener, Users::One(GoroutineId::MAIN));
    let (shared, _) = state.listeners.listen(on(8)).unwrap();
    state.listeners.set_users(shared, Users::Several);
    let (socket, _) = state.bind_datagrams(on(9)).unwrap();
    state.note_user(socket, GoroutineId::MAIN);
    let mut peer = Peer::new(100, 7);
    peer.connect(&mut bench);
    let stream = bench.state.accept(listener).unwrap();
    bench.state.note_user(stream, GoroutineId::MAIN);
    // The connection of this peer was not accepted yet.
    let mut queued = Peer::new(101, 7);
    queued.connect(&mut bench);
    bench.state.abandon(GoroutineId::MAIN, now);
    assert_eq!(bench.state.listeners.left_by(GoroutineId::MAIN), Some(listener));
    bench.state.end_listener(listener, now);
    assert_eq!(bench.state.listeners.left_by(GoroutineId::MAIN), None);
    assert_eq!(peer.receive(&mut bench), [RST | ACK]);
    assert_eq!(bench.state.usage(), Usage { listeners: 1, ..Usage::default() });
    assert_eq!(queued.send(&mut bench, ACK, b"x"), [RST]);
    // Another G may still have the values. The ports are free, and new objects do not get their places.
    let (second, _) = bench.state.listeners.listen(on(7)).unwrap();
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
    assert_eq!(bench.state.listeners.listen(on(10)).unwrap().0, listener);
    assert_eq!(bench.state.bind_datagrams(on(11)).unwrap().0, socket);
}

/// Makes a connection that the computer closes first, and ends it in order. Returns its peer.
fn closed_first(bench: &mut Bench, listener: usize, keeps_stream: bool) -> Peer {
    let (mut peer, stream) = in_state(bench, listener, TcpState::FinWait2);
    if !keeps_stream {
        bench.state.release(stream, bench.now);
    }
    assert_eq!(peer.send(bench, FIN | ACK, &[]), [ACK]);
    assert_eq!(bench.state.connection(stream).is_some(), keeps_stream);
    assert_eq!(bench.state.time_waits.count(), 1);
    assert_eq!(bench.state.connections.find(peer.key()), None);
    peer
}

#[test]
fn connection_closed_first_leaves_a_small_entry_that_answers_for_a_minute() {
    for keeps_stream in [false, true] {
        let (mut bench, listener) = computer();
        let mut peer = closed_first(&mut bench, listener, keeps_stream);
        // The last acknowledgement was lost. An acknowledgement needs no answer.
        let (next, expected) = (peer.next, peer.expected);
        for (flags, data, answers) in
            [(FIN | ACK, &b""[..], &[ACK][..]), (ACK, b"", &[]), (ACK, b"old", &[ACK]), (SYN, b"", &[ACK])]
        {
            bench.now += Duration::from_secs(40);
            peer.next = next - 1;
            assert_eq!(peer.send(&mut bench, flags, data), answers, "{flags} {data:?}");
            assert_eq!(peer.expected, expected);
            assert_eq!(peer.confirmed, next);
            if answers.is_empty() {
                // A segment that needs no answer does not prolong the entry. So take the step of the clock back.
                bench.now -= Duration::from_secs(40);
            }
        }
        bench.now += Duration::from_secs(60);
        assert_eq!(peer.send(&mut bench, FIN | ACK, &[]), [RST]);
        assert_eq!(bench.state.usage().connections, usize::from(keeps_stream));
    }
}

#[test]
fn data_and_its_end_can_be_read_long_after_the_connection_has_ended() {
    let (mut bench, listener) = computer();
    let (mut peer, stream) = in_state(&mut bench, listener, TcpState::FinWait2);
    assert_eq!(peer.send(&mut bench, ACK, b"data"), [ACK]);
    assert_eq!(peer.send(&mut bench, FIN | ACK, &[]), [ACK]);
    assert_eq!(bench.state.time_waits.count(), 1);
    for result in [Ok(4), Err(RecvError::Finished)] {
        bench.now += Duration::from_secs(100);
        assert_eq!(peer.receive(&mut bench), []);
        assert_eq!(bench.state.connection(stream).unwrap().receive(&mut [0; 9]), result);
        bench.state.settle(stream, bench.now);
    }
    bench.state.release(stream, bench.now);
    assert_eq!(bench.state.usage().connections, 0);
}

#[test]
fn new_connection_with_the_ports_of_an_old_one_needs_a_higher_number() {
    let (mut bench, listener) = computer();
    let peer = closed_first(&mut bench, listener, false);
    let last = peer.next;
    for (number, answers) in [(last - 1_000, [ACK]), (last, [ACK]), (last + 1, [SYN | ACK])] {
        let mut peer = Peer { next: number, expected: 0, ..Peer::new(peer.port, 7) };
        assert_eq!(peer.send(&mut bench, SYN, &[]), answers, "{number}");
    }
    assert_eq!((bench.state.time_waits.count(), bench.state.usage().half_open), (0, 1));
}

#[test]
fn reset_with_the_right_number_ends_the_wait() {
    let (mut bench, listener) = computer();
    let mut peer = closed_first(&mut bench, listener, false);
    for (change, count) in [(1, 1), (u32::MAX, 1), (0, 0)] {
        let next = peer.next;
        peer.next = next.wrapping_add(change);
        assert_eq!(peer.send(&mut bench, RST, &[]), []);
        peer.next = next;
        assert_eq!(bench.state.time_waits.count(), count);
    }
}

#[test]
fn port_of_a_connection_closed_first_is_not_chosen_again_at_once() {
    let (mut bench, _) = computer();
    let connect = |bench: &mut Bench| {
        bench.state.last_port = 0;
        let stream = bench.state.connect((SERVER, 9).into(), bench.now).unwrap();
        let mut peer = Peer::new(9, 0);
        assert_eq!(peer.receive(bench), [SYN]);
        assert_eq!(peer.send(bench, SYN | ACK, &[]), [ACK]);
        bench.state.release(stream, bench.now);
        assert_eq!(peer.receive(bench), [FIN | ACK]);
        assert_eq!(peer.send(bench, FIN | ACK, &[]), [ACK]);
        peer.to
    };
    let first = connect(&mut bench);
    assert_eq!([connect(&mut bench), connect(&mut bench)], [first + 1, first + 2]);
    bench.now += Duration::from_secs(60);
    assert_eq!(connect(&mut bench), first);
}

#[test]
fn ended_connections_are_bounded_and_the_oldest_ones_make_room() {
    let mut waits = TimeWaits::new(1, MOST);
    let sent = Sent { next: Some(TcpSeqNumber(1)), ..Sent::new() };
    let (mut now, mut key) = (Bench::new(None, 1).now, Peer::new(0, 7).key());
    for at in 0..3 * MOST {
        (key.peer_port, now) = (at as u16, now + Duration::from_millis(1));
        waits.add(key, &sent, now);
        // An entry that is renewed again and again does not fill the table.
        key.peer_port = u16::MAX;
        waits.add(key, &sent, now);
    }
    assert_eq!(waits.count(), MOST / 2 + 1);
    let mut has = |at: usize| {
        key.peer_port = at as u16;
        waits.has(key, now)
    };
    assert!(has(3 * MOST - 1) && has(3 * MOST - MOST / 2) && !has(3 * MOST - MOST / 2 - 1) && has(usize::MAX));
    now += KEPT;
    waits.add(key, &sent, now);
    assert_eq!(waits.count(), 1);
}
