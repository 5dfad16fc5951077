//! Simulated hosts that talk to each other: in the simulator, with a virtual clock, and on threads.

#[path = "../shared/guarded.rs"]
mod guarded;
mod network;
mod slow;
mod threads;

use core::net::Ipv4Addr;
use core::time::Duration;
use std::sync::Arc;

use gmp_sched::cancel::ContextError;
use gmp_sched::sim::{self, Config, Context, Limit, Sim, go, now, scope, sleep};
use kernel_net::sim::{Conditions, Network};
use kernel_net::{NetError, PAGE_BYTES, ROOM_PAGES, Room, Shutdown, Usage};

type Stack = kernel_net::Stack<Sim>;
type TcpListener = kernel_net::TcpListener<kernel_net::StackListener<Sim>>;
type TcpStream = kernel_net::TcpStream<kernel_net::StackStream<Sim>>;

const NONE: Limit<'static> = Limit::NONE;
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// The numbers of shards into which the connections of a host are divided, one test after the other.
const SHARDS: [usize; 3] = [1, 2, 8];

/// Runs `test` with a network of two hosts, the server and the client, on a simulated machine: for each number of shards.
fn with_pair(
    conditions: Conditions,
    seed: u64,
    test: impl Fn(&Network<Sim>, &'static Stack, &'static Stack) + Clone + Send + 'static,
) {
    for shards in SHARDS {
        with_pair_on(Config { seed, ..Config::default() }, shards, conditions, test.clone());
    }
}

fn with_pair_on(
    machine: Config,
    shards: usize,
    conditions: Conditions,
    test: impl Fn(&Network<Sim>, &'static Stack, &'static Stack) + Send + 'static,
) {
    with_pair_over(machine, shards, false, conditions, test);
}

/// `cuts` is whether the devices cut long segments.
fn with_pair_over(
    machine: Config,
    shards: usize,
    cuts: bool,
    conditions: Conditions,
    test: impl Fn(&Network<Sim>, &'static Stack, &'static Stack) + Send + 'static,
) {
    let report = sim::run(machine, move || {
        let network = Network::new(machine.seed).with_rooms(guarded::make).with_shards(shards);
        let network = if cuts { network.with_offload() } else { network };
        let [server, client] = [SERVER, CLIENT].map(|address| network.host(address).unwrap());
        network.set_conditions(conditions);
        test(&network, server, client);
        drop(network);
        assert_eq!([server, client].map(Stack::usage), [Usage::default(); 2]);
    });
    report.unwrap_or_else(|failure| panic!("{shards} shards: {failure}"));
}

fn connect(client: &'static Stack, port: u16) -> Result<TcpStream, NetError> {
    TcpStream::connect_on(client, (SERVER, port), NONE)
}

/// Returns every byte to the peer until the end of its data.
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
    let listener = TcpListener::bind_on(server, (Ipv4Addr::UNSPECIFIED, port)).unwrap();
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

fn echoes(conditions: Conditions, bytes: usize, seed: u64) {
    with_pair(conditions, seed, move |_, server, client| returns(server, client, bytes, seed));
}

fn returns(server: &'static Stack, client: &'static Stack, bytes: usize, seed: u64) {
    serve_echo(server, 7);
    let stream = connect(client, 7).unwrap();
    assert_eq!(stream.peer_addr(), (SERVER, 7).into());
    assert_eq!(stream.local_addr().ip(), CLIENT);
    let mut random = fastrand::Rng::with_seed(seed);
    let sent: Vec<u8> = core::iter::repeat_with(|| random.u8(..)).take(bytes).collect();
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
}

#[test]
fn data_returns_unchanged() {
    echoes(Conditions::default(), 1 << 20, 1);
}

#[test]
fn data_returns_unchanged_over_a_cable_that_loses_repeats_and_reorders() {
    echoes(Conditions { loss: 0.05, duplicate: 0.03, reorder: 0.1, ..Conditions::default() }, 100_000, 2);
}

#[test]
fn data_returns_unchanged_over_devices_that_cut_segments() {
    let lossy = Conditions { loss: 0.05, duplicate: 0.03, reorder: 0.1, ..Conditions::default() };
    for (conditions, bytes, seed) in [(Conditions::default(), 1 << 20, 1), (lossy, 100_000, 2)] {
        for shards in SHARDS {
            let machine = Config { seed, ..Config::default() };
            with_pair_over(machine, shards, true, conditions, move |_, server, client| {
                returns(server, client, bytes, seed);
            });
        }
    }
}

/// 1 %, 5 % and 20 % of the frames are lost, including those that only acknowledge.
#[test]
fn data_returns_unchanged_whatever_share_of_the_frames_is_lost() {
    for (seed, loss, bytes) in [(0, 0.01, 300_000), (1, 0.05, 100_000), (2, 0.2, 4_000)] {
        echoes(Conditions { loss, ..Conditions::default() }, bytes, seed);
    }
}

/// While the window of the server is closed, the client has to acknowledge what the server sends. With these seeds, the
/// server once waited in vain for such an acknowledgement.
#[test]
fn data_returns_although_the_window_of_the_server_is_closed_and_frames_are_lost() {
    for seed in [13, 27, 69, 277] {
        echoes(Conditions { loss: 0.01, ..Conditions::default() }, 300_000, seed);
    }
}

#[test]
fn nobody_listens() {
    with_pair(Conditions::default(), 3, |_, server, client| {
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
    with_pair(Conditions::default(), 4, |_, server, client| {
        let soon = || Limit::after(Duration::from_millis(5));
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
    with_pair(Conditions::default(), 5, |_, _, client| {
        let began = now();
        let limit = Limit::after(Duration::from_millis(20));
        let result = TcpStream::connect_on(client, "10.0.0.77:7", limit).map(drop);
        assert_eq!(result, Err(NetError::Limit(ContextError::DeadlineExceeded)));
        assert!(now() >= began + Duration::from_millis(20));
        wait_for_connections(client, 0);
    });
}

#[test]
fn peer_that_vanishes_leaves_nothing_behind() {
    with_pair(Conditions::default(), 6, |_, server, client| {
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
    with_pair(Conditions::default(), 7, |_, server, client| {
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
    with_pair(Conditions::default(), 8, |_, server, client| {
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
    let machine = Config { seed: 9, bodies_unwind: true, ..Config::default() };
    with_pair_on(machine, 2, Conditions::default(), |_, server, client| {
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
    with_pair(Conditions::default(), 10, |_, server, client| {
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
    with_pair(Conditions::default(), 12, |_, server, client| {
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
fn many_connections_at_once() {
    with_pair(Conditions::default(), 11, |_, server, client| {
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

/// The last segment of each write is a short one, and the one before is not acknowledged at once.
#[test]
fn rest_of_a_long_write_does_not_wait_for_an_acknowledgement() {
    const BYTES: usize = 20_000;
    with_pair(Conditions::default(), 9, |_, server, client| {
        let listener = TcpListener::bind_on(server, "0.0.0.0:7").unwrap();
        let near = connect(client, 7).unwrap();
        let (far, _) = listener.accept().unwrap();
        for number in 0..10 {
            let began = now();
            near.write_all(&[1; BYTES]).unwrap();
            let (mut rest, mut buffer) = (BYTES, [0; BYTES]);
            while rest != 0 {
                rest -= far.read(&mut buffer[..rest]).unwrap();
            }
            let took = now() - began;
            assert!(took < Duration::from_millis(5), "write {number} took {took:?}");
            sleep(Duration::from_millis(20));
        }
        drop((near, far, listener));
        wait_for_connections(client, 0);
        wait_for_connections(server, 0);
    });
}
