//! Computers that talk to each other, on threads.

mod cable;
#[path = "../shared/guarded.rs"]
mod guarded;

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gmp_sched::cancel::{ContextError, Limit};
use gmp_sched::native::{self, Context, Native, go, now, scope, sleep};
use kernel_net::{NetError, PAGE_BYTES, ROOM_PAGES, Room, Shutdown, Usage};

use crate::cable::{CLIENT, Faults, SERVER, Stack, pair};

type TcpListener = kernel_net::TcpListener<Native>;
type TcpStream = kernel_net::TcpStream<Native>;

const NONE: Limit<'static, Native> = Limit::NONE;

/// Runs `test` with the two computers.
fn with_pair(faults: Faults, seed: u64, test: impl FnOnce(&'static Stack, &'static Stack) + Send + 'static) {
    // SAFETY: the threads of the test stay alive until the process ends.
    let machine = unsafe { native::enter() };
    machine.run(2, move || {
        let [server, client] = pair(faults, seed, &Arc::default());
        test(server, client);
    });
}

fn connect(client: &'static Stack, port: u16) -> Result<TcpStream, NetError> {
    TcpStream::connect_on(client, (SERVER, port), NONE)
}

/// Returns every byte to the peer until its end.
fn echo(stream: &TcpStream) -> Result<usize, NetError> {
    let (mut buffer, mut total) = (vec![0; 3_000], 0);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(total),
            count => stream.write_all(&buffer[..count])?,
        }
        total += 1;
    }
}

/// Accepts connections for ever, each with a G that echoes.
fn serve_echo(server: &'static Stack, port: u16) {
    let listener = TcpListener::bind_on(server, ("0.0.0.0".parse::<std::net::Ipv4Addr>().unwrap(), port)).unwrap();
    go(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            go(move || echo(&stream)).detach();
        }
    })
    .detach();
}

/// Waits until a stack has as many connections.
fn wait_for_connections(stack: &'static Stack, count: usize) {
    let end = now() + Duration::from_secs(60);
    while stack.usage().connections != count {
        assert!(now() < end, "{:?} instead of {count} connections", stack.usage());
        sleep(Duration::from_millis(1));
    }
}

fn echoes(faults: Faults, bytes: usize, seed: u64) {
    with_pair(faults, seed, move |server, client| {
        serve_echo(server, 7);
        let stream = connect(client, 7).unwrap();
        assert_eq!(stream.peer_addr(), (SERVER, 7).into());
        assert_eq!(stream.local_addr().ip(), CLIENT);
        let sent: Vec<u8> = core::iter::repeat_with(|| fastrand::u8(..)).take(bytes).collect();
        scope(|scope| {
            let _ = scope.go(|| {
                stream.write_all(&sent).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
            let (mut received, mut buffer) = (Vec::new(), [0; 5_000]);
            loop {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    count => received.extend_from_slice(&buffer[..count]),
                }
            }
            assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
        });
        assert_eq!(stream.write(b"x"), Err(NetError::BrokenPipe));
        drop(stream);
        wait_for_connections(server, 0);
        wait_for_connections(client, 0);
    });
}

#[test]
fn data_returns_unchanged() {
    echoes(Faults::default(), 1 << 20, 1);
}

#[test]
fn data_returns_unchanged_over_a_cable_that_loses_repeats_and_reorders() {
    echoes(Faults { lost: 20, repeated: 30, overtaken: 10 }, 100_000, 2);
}

/// One of 100, of 20 and of 5 frames is lost, also of those that confirm.
#[test]
fn data_returns_unchanged_whatever_share_of_the_frames_is_lost() {
    for (lost, bytes) in [(100, 300_000), (20, 30_000), (5, 4_000)] {
        echoes(Faults { lost, ..Faults::default() }, bytes, u64::from(lost));
    }
}

#[test]
fn nobody_listens() {
    with_pair(Faults::default(), 3, |server, client| {
        assert_eq!(connect(client, 9).map(drop), Err(NetError::ConnectionRefused));
        let listener = TcpListener::bind_on(server, "0.0.0.0:9").unwrap();
        assert_eq!(TcpListener::bind_on(server, "0.0.0.0:9").map(drop), Err(NetError::AddrInUse));
        drop(listener);
        assert_eq!(connect(client, 9).map(drop), Err(NetError::ConnectionRefused));
        for (address, error) in [("nowhere:7", NetError::InvalidInput), ("[::1]:7", NetError::AddrNotAvailable)] {
            assert_eq!(TcpStream::connect_on(client, address, NONE).map(drop), Err(error), "{address}");
        }
        assert_eq!(TcpListener::bind_on(server, "10.9.9.9:1").map(drop), Err(NetError::AddrNotAvailable));
        wait_for_connections(client, 0);
        assert_eq!([server.usage(), client.usage()], [Usage::default(); 2]);
    });
}

#[test]
fn limits_end_waits_and_lose_no_data() {
    with_pair(Faults::default(), 4, |server, client| {
        let soon = || Limit::<Native>::after(Duration::from_millis(5));
        let late = NetError::Limit(ContextError::DeadlineExceeded);
        let listener = TcpListener::bind_on(server, "0.0.0.0:7").unwrap();
        assert_eq!(listener.accept_until(soon()).map(drop), Err(late));
        let near = connect(client, 7).unwrap();
        let (far, peer) = listener.accept().unwrap();
        assert_eq!((peer, far.local_addr()), (near.local_addr(), near.peer_addr()));
        let mut buffer = [0; 10];
        assert_eq!(far.read_until(&mut buffer, soon()), Err(late));
        let (context, cancel) = Context::background().with_cancel();
        let waits = go(move || far.read_until(&mut [0; 10], &context).map(|_| ()).map_err(|error| (error, far)));
        sleep(Duration::from_millis(2));
        cancel.cancel();
        let (error, far) = waits.join().unwrap().unwrap_err();
        assert_eq!(error, NetError::Limit(ContextError::Canceled));
        near.write_all(b"late").unwrap();
        assert_eq!(far.peek(&mut buffer), Ok(4));
        assert_eq!(far.read(&mut buffer), Ok(4));
        // The peer does not read, so the buffers of both ends become full.
        while near.write_until(&[0; 4_096], soon()) != Err(late) {}
        assert_eq!(far.read(&mut []), Ok(0));
        drop((near, far, listener));
        wait_for_connections(server, 0);
        wait_for_connections(client, 0);
    });
}

#[test]
fn connection_that_nobody_answers_ends_by_its_limit() {
    with_pair(Faults::default(), 5, |_, client| {
        let began = now();
        let limit = Limit::<Native>::after(Duration::from_millis(20));
        let result = TcpStream::connect_on(client, "10.0.0.77:7", limit).map(drop);
        assert_eq!(result, Err(NetError::Limit(ContextError::DeadlineExceeded)));
        assert!(now() >= began + Duration::from_millis(20));
        wait_for_connections(client, 0);
    });
}

#[test]
fn peer_that_vanishes_leaves_nothing_behind() {
    with_pair(Faults::default(), 6, |server, client| {
        serve_echo(server, 7);
        for _ in 0..20 {
            let streams: Vec<_> = (0..20).map(|_| connect(client, 7).unwrap()).collect();
            for stream in &streams {
                stream.write_all(b"data that nobody reads").unwrap();
            }
        }
        wait_for_connections(server, 0);
        wait_for_connections(client, 0);
    });
}

#[test]
fn unread_data_resets_the_peer() {
    with_pair(Faults::default(), 7, |server, client| {
        let listener = TcpListener::bind_on(server, "0.0.0.0:0").unwrap();
        let near = connect(client, listener.local_addr().port()).unwrap();
        near.write_all(b"data").unwrap();
        let (far, _) = listener.accept().unwrap();
        far.peek(&mut [0; 1]).unwrap();
        drop(far);
        assert_eq!(near.read(&mut [0; 1]), Err(NetError::ConnectionReset));
        assert_eq!(near.write(b"x"), Err(NetError::ConnectionReset));
    });
}

#[test]
fn dropped_listener_resets_those_that_wait() {
    with_pair(Faults::default(), 8, |server, client| {
        let listener = TcpListener::bind_on(server, "0.0.0.0:7").unwrap();
        let streams: Vec<_> = (0..10).map(|_| connect(client, 7).unwrap()).collect();
        wait_for_connections(server, 10);
        drop(listener);
        for stream in &streams {
            assert_eq!(stream.read(&mut [0; 1]), Err(NetError::ConnectionReset));
        }
        wait_for_connections(server, 0);
    });
}

#[test]
fn panicking_g_leaves_no_connection_behind() {
    with_pair(Faults::default(), 9, |server, client| {
        serve_echo(server, 7);
        let stream = connect(client, 7).unwrap();
        let panics = go(move || {
            let _stream = stream;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(panics.join().is_err());
        wait_for_connections(server, 0);
        wait_for_connections(client, 0);
    });
}

#[test]
fn shutdown_ends_a_read_of_another_g() {
    with_pair(Faults::default(), 10, |server, client| {
        serve_echo(server, 7);
        let stream = Arc::new(connect(client, 7).unwrap());
        let reader = stream.clone();
        let reads = go(move || reader.read(&mut [0; 1]));
        sleep(Duration::from_millis(2));
        stream.shutdown(Shutdown::Read).unwrap();
        assert_eq!(reads.join().unwrap(), Ok(0));
        // The other half still works.
        assert_eq!(stream.write(b"x"), Ok(1));
    });
}

#[test]
fn listener_without_room_answers_when_it_has_room_again() {
    with_pair(Faults::default(), 12, |server, client| {
        let listener = TcpListener::bind_on(server, "0.0.0.0:7").unwrap();
        let streams: Vec<_> = (0..128).map(|_| connect(client, 7).unwrap()).collect();
        let waits = go(move || connect(client, 7).unwrap());
        sleep(Duration::from_millis(20));
        assert_eq!(server.usage(), Usage { connections: 128, listeners: 1, ..Usage::default() });
        let (first, _) = listener.accept().unwrap();
        let last = waits.join().unwrap();
        assert_eq!(server.usage().connections, 129);
        drop((streams, first, last, listener));
        wait_for_connections(server, 0);
        wait_for_connections(client, 0);
    });
}

#[test]
fn broken_device_ends_all_waits() {
    // SAFETY: the threads of the test stay alive until the process ends.
    let machine = unsafe { native::enter() };
    machine.run(2, || {
        let is_broken = Arc::default();
        let [server, client] = pair(Faults::default(), 13, &is_broken);
        let listener = Arc::new(TcpListener::bind_on(server, "0.0.0.0:7").unwrap());
        let [(near, far), (silent, reading)] = [0, 1].map(|_| {
            let near = connect(client, 7).unwrap();
            (near, listener.accept().unwrap().0)
        });
        let accepting = listener.clone();
        let waits = [
            go(move || accepting.accept().map(|_| ())),
            go(move || reading.read(&mut [0; 1]).map(|_| ())),
            go(move || core::iter::repeat_with(|| near.write(&[0; 999])).find_map(Result::err).map_or(Ok(()), Err)),
            go(move || TcpStream::connect_on(client, "10.0.0.77:7", NONE).map(drop)),
        ];
        sleep(Duration::from_millis(20));
        is_broken.store(true, Ordering::Relaxed);
        server.announce();
        client.announce();
        for wait in waits {
            assert_eq!(wait.join().unwrap(), Err(NetError::Device));
        }
        assert_eq!(connect(client, 7).map(drop), Err(NetError::Device));
        assert_eq!(listener.accept().map(drop), Err(NetError::Device));
        drop((far, silent));
    });
}

#[test]
fn many_connections_at_once() {
    with_pair(Faults::default(), 11, |server, client| {
        serve_echo(server, 7);
        let clients: Vec<_> = (0..100u8)
            .map(|number| {
                go(move || {
                    let stream = connect(client, 7).unwrap();
                    for round in 0..20 {
                        let message = [number, round, 1, 2, 3];
                        stream.write_all(&message).unwrap();
                        let mut answer = [0; 5];
                        let mut count = 0;
                        while count < 5 {
                            count += stream.read(&mut answer[count..]).unwrap();
                        }
                        assert_eq!(answer, message);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        wait_for_connections(server, 0);
        wait_for_connections(client, 0);
    });
}
