//! What a simulated network does to frames, and what its hosts see of it.

use std::sync::Mutex;

use gmp_sched::sim::Failure;
use kernel_net::sim::Totals;

use super::*;

type UdpSocket = kernel_net::UdpSocket<kernel_net::StackDatagrams<Sim>>;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Sends `bytes` bytes to the server, which returns them. Returns how long that took.
fn echo(server: &'static Stack, client: &'static Stack, bytes: usize) -> Duration {
    let listener = TcpListener::bind_on(server, (SERVER, 7)).unwrap();
    let serves = go(move || super::echo(&listener.accept().unwrap().0).unwrap());
    let (begin, stream) = (now(), connect(client, 7).unwrap());
    let sent: Vec<u8> = (0..bytes).map(|at| ((at * at) >> 3) as u8).collect();
    let mut received = Vec::new();
    scope(|scope| {
        let _ = scope.go(|| {
            stream.write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut buffer = [0; 5_000];
        while let count @ 1.. = stream.read(&mut buffer).unwrap() {
            received.extend_from_slice(&buffer[..count]);
        }
    });
    let took = now() - begin;
    assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
    serves.join().unwrap();
    took
}

/// Runs an echo with everything that can happen to frames, and returns what has happened.
fn totals(machine: u64, seed: u64, shards: usize) -> Totals {
    let result = Arc::new(Mutex::new(Totals::default()));
    let returned = result.clone();
    sim::run(Config { cpus: 4, processors: 4, seed: machine, ..Config::default() }, move || {
        let network = Network::new(seed).with_shards(shards);
        let [server, client] = [SERVER, CLIENT].map(|address| network.host(address).unwrap());
        let (delay, rate) = (millis(3), Some(10_000_000));
        let jitter = millis(1);
        network.set_conditions(Conditions { loss: 0.05, duplicate: 0.05, reorder: 0.05, delay, jitter, rate });
        echo(server, client, 30_000);
        *returned.lock().unwrap() = network.totals();
    })
    .unwrap_or_else(|failure| panic!("{failure}"));
    *result.lock().unwrap()
}

#[test]
fn same_seeds_lead_to_the_same_frames_at_the_same_instants() {
    for shards in SHARDS {
        let first = totals(1, 1, shards);
        assert!(first.lost > 0 && first.duplicated > 0 && first.delivered > 40, "{first:?}");
        assert_eq!(first, totals(1, 1, shards));
        assert_ne!(first.digest, totals(1, 2, shards).digest, "another seed of the network");
        assert_ne!(first.digest, totals(2, 1, shards).digest, "another seed of the machine");
    }
}

#[test]
fn frames_that_are_repeated_and_reordered_keep_the_data_whole() {
    for seed in 0..5 {
        let conditions =
            Conditions { duplicate: 0.3, reorder: 0.3, delay: millis(2), jitter: millis(1), ..Conditions::default() };
        with_pair(conditions, seed, |network, server, client| {
            echo(server, client, 50_000);
            let totals = network.totals();
            assert!(totals.lost == 0 && totals.duplicated > 20 && totals.reordered > 20, "{totals:?}");
        });
    }
}

/// Returns a connection, both of whose ends know that the other one has it.
fn ends(server: &'static Stack, client: &'static Stack) -> [TcpStream; 2] {
    let listener = TcpListener::bind_on(server, (SERVER, 7)).unwrap();
    let near = connect(client, 7).unwrap();
    [near, listener.accept().unwrap().0]
}

/// Reads as many bytes, for as long as they may take.
fn read_all(stream: &TcpStream, bytes: usize, time: Duration) -> Result<(), NetError> {
    let (mut left, mut buffer, limit) = (bytes, [0; 5_000], Limit::after(time));
    while left > 0 {
        match stream.read_until(&mut buffer, limit)? {
            0 => panic!("{left} of {bytes} bytes are missing"),
            count => left -= count,
        }
    }
    Ok(())
}

/// All data of both ends arrives, but no acknowledgement does. So each end sends its first segment again. The other end
/// ignores it as an old one, but each end must take the acknowledgement that is the answer to it.
#[test]
fn acknowledgements_lost_in_both_directions_do_not_stop_a_connection() {
    with_pair(Conditions { delay: millis(10), ..Conditions::default() }, 1, |network, server, client| {
        let ends = ends(server, client);
        // Repeat until congestion control lets each end send four segments at once.
        for _ in 0..3 {
            ends.iter().for_each(|end| end.write_all(&[7; 20_000]).unwrap());
            ends.iter().for_each(|end| read_all(end, 20_000, Duration::from_secs(1)).unwrap());
            sleep(millis(100));
        }
        ends.iter().for_each(|end| end.write_all(&[7; 4 * 1_460]).unwrap());
        sleep(millis(5));
        network.set_conditions(Conditions { loss: 1.0, delay: millis(10), ..Conditions::default() });
        sleep(millis(500));
        network.set_conditions(Conditions { delay: millis(10), ..Conditions::default() });
        ends.iter().for_each(|end| read_all(end, 4 * 1_460, Duration::ZERO).unwrap());
        sleep(Duration::from_secs(2));
        ends.iter().for_each(|end| end.write_all(&[7; 20_000]).unwrap());
        ends.iter().for_each(|end| read_all(end, 20_000, Duration::from_secs(5)).unwrap());
    });
}

/// Once attempts to send a segment again are a minute apart, they stay so, although an answer has come. A connection
/// must survive the loss of two such attempts, too. (Of 1,000 connections that send 20 KB where a fifth of the frames
/// is lost in each direction, 24 ended after two minutes of silence, and 3 do after five.)
#[test]
fn connection_survives_lost_attempts_that_are_a_minute_apart() {
    with_pair(Conditions { delay: millis(10), ..Conditions::default() }, 1, |network, server, client| {
        let [near, far] = ends(server, client);
        network.partition(&[client]);
        near.write_all(&[7; 4 * 1_460]).unwrap();
        sleep(Duration::from_secs(40));
        network.heal();
        let count = far.read(&mut [0; 2_000]).unwrap();
        network.partition(&[client]);
        sleep(Duration::from_secs(140));
        network.heal();
        read_all(&far, 4 * 1_460 - count, Duration::from_secs(70)).unwrap();
    });
}

/// The program has dropped its stream, so nobody waits for the rest of the data to be sent.
#[test]
fn data_of_a_dropped_stream_arrives_after_a_partition() {
    with_pair(Conditions::default(), 1, |network, server, client| {
        let [near, far] = ends(server, client);
        network.partition(&[client]);
        near.write_all(&[7; 20_000]).unwrap();
        drop(near);
        sleep(Duration::from_secs(60));
        network.heal();
        read_all(&far, 20_000, Duration::from_secs(60)).unwrap();
        assert_eq!(far.read(&mut [0; 1]), Ok(0));
    });
}

/// Makes a socket on each host, of which each knows the MAC address of the other.
fn sockets(hosts: [&'static Stack; 2]) -> [UdpSocket; 2] {
    let [near, far] = hosts.map(|host| UdpSocket::bind_on(host, "0.0.0.0:9").unwrap());
    far.connect((SERVER, 9)).unwrap();
    far.send(b"who are you").unwrap();
    near.connect(near.recv_from(&mut [0; 1]).unwrap().1).unwrap();
    near.send(b"").unwrap();
    far.recv(&mut [0; 1]).unwrap();
    [near, far]
}

#[test]
fn delay_is_that_of_each_way() {
    with_pair(Conditions::default(), 1, |network, server, client| {
        let [near, far] = sockets([server, client]);
        network.set_path(client, server, Conditions { delay: millis(300), ..Conditions::default() });
        network.set_path(server, client, Conditions { delay: millis(100), ..Conditions::default() });
        let answers = go(move || {
            near.recv(&mut [0; 1]).unwrap();
            near.send(b"x").unwrap();
        });
        let begin = now();
        far.send(b"x").unwrap();
        far.recv(&mut [0; 1]).unwrap();
        let took = now() - begin;
        assert!(took >= millis(400) && took < millis(401), "{took:?}");
        assert_eq!(network.totals().reordered, 0);
        answers.join().unwrap();
    });
}

/// A frame of 1,500 bytes takes 12 ms at a megabit each second. The sender waits until there is room for the next one.
#[test]
fn rate_limits_what_is_transmitted() {
    const DATAGRAMS: usize = 100;
    with_pair(Conditions::default(), 1, |network, server, client| {
        let [near, far] = sockets([server, client]);
        network.set_conditions(Conditions { rate: Some(1_000_000), ..Conditions::default() });
        let begin = now();
        let sends = go(move || {
            (0..DATAGRAMS).for_each(|_| _ = far.send(&[0; 1_458]).unwrap());
            // A socket that is dropped loses what it has not sent.
            (now() - begin, far)
        });
        (0..DATAGRAMS).for_each(|_| _ = near.recv(&mut [0; 1]).unwrap());
        let took = now() - begin;
        assert!(took >= millis(1_200) && took < millis(1_201), "{took:?}");
        let (sent, _far) = sends.join().unwrap();
        // When the last datagram is sent, 16 are left in the device, 11 in the 16 KiB of the socket, and with several
        // shards one is held for the device.
        assert!(sent >= millis(12 * 72) && sent < millis(12 * 74), "{sent:?}");
    });
    let conditions = Conditions { rate: Some(1_000_000), ..Conditions::default() };
    with_pair(conditions, 1, |_, server, client| {
        let took = echo(server, client, 100_000);
        assert!(took >= millis(800) && took < millis(1_200), "{took:?}");
    });
}

#[test]
fn partition_that_heals_loses_no_data() {
    with_pair(Conditions { delay: millis(5), ..Conditions::default() }, 1, |network, server, client| {
        serve_echo(server, 7);
        let stream = connect(client, 7).unwrap();
        network.partition(&[client]);
        stream.write_all(b"hello").unwrap();
        let mut buffer = [0; 9];
        let late = Err(NetError::Limit(ContextError::DeadlineExceeded));
        assert_eq!(stream.read_until(&mut buffer, Limit::after(Duration::from_secs(60))), late);
        network.heal();
        assert_eq!(stream.read(&mut buffer), Ok(5));
        assert_eq!(&buffer[..5], b"hello");
    });
}

/// As [`NetError`] says: a peer that does not answer `connect` is `TimedOut`, and a connection that is given up is
/// `ConnectionReset`.
#[test]
fn partition_for_longer_than_a_peer_may_be_silent_ends_the_connection() {
    with_pair(Conditions::default(), 1, |network, server, client| {
        serve_echo(server, 7);
        let stream = connect(client, 7).unwrap();
        network.partition(&[server]);
        let begin = now();
        assert_eq!(connect(client, 7).map(drop), Err(NetError::TimedOut));
        assert_eq!((now() - begin).as_secs(), 30);
        stream.write_all(b"x").unwrap();
        let begin = now();
        assert_eq!(stream.read(&mut [0; 1]), Err(NetError::ConnectionReset));
        assert_eq!((now() - begin).as_secs(), 300);
        assert_eq!(stream.write(b"x"), Err(NetError::ConnectionReset));
        // The server has sent nothing, so it waits for ever for the peer that is gone.
        assert_eq!([server, client].map(|host| host.usage().connections), [1, 1]);
    });
}

/// The client has a connection as soon as the server has answered, but its own answer does not arrive.
#[test]
fn connection_that_only_the_client_has_is_reset() {
    // Each shard of the server would ask for the MAC address itself.
    let conditions = Conditions { delay: millis(10), ..Conditions::default() };
    with_pair_on(Config { seed: 1, ..Config::default() }, 1, conditions, |network, server, client| {
        serve_echo(server, 7);
        let connects = go(move || connect(client, 7).unwrap());
        // The request and the answer for the MAC address take 20 ms, and then the first segment takes 10.
        sleep(millis(35));
        network.set_path(client, server, Conditions { loss: 1.0, ..Conditions::default() });
        let stream = connects.join().unwrap();
        assert_eq!(server.usage().half_open, 1);
        stream.write_all(b"x").unwrap();
        let begin = now();
        assert_eq!(stream.read(&mut [0; 1]), Err(NetError::ConnectionReset));
        let took = now() - begin;
        assert!(took > millis(9_900) && took < millis(10_100), "{took:?}");
        assert_eq!(server.usage().half_open, 0);
    });
}

/// Connections in use, half-open ones, those that nobody has accepted, and those that are dropped and have data to send.
#[test]
fn dropped_network_frees_connections_in_all_states() {
    for shards in SHARDS {
        end_in_all_states(shards);
    }
}

fn end_in_all_states(shards: usize) {
    let run = sim::run(Config::default(), move || {
        let network = Network::<Sim>::new(1).with_rooms(guarded::make).with_shards(shards);
        let [server, client] = [SERVER, CLIENT].map(|address| network.host(address).unwrap());
        let listener = TcpListener::bind_on(server, (SERVER, 7)).unwrap();
        let used = (connect(client, 7).unwrap(), listener.accept().unwrap());
        let (closing, accepted) = (connect(client, 7).unwrap(), listener.accept().unwrap());
        let queued = connect(client, 7).unwrap();
        network.set_path(server, client, Conditions { loss: 1.0, ..Conditions::default() });
        let half_open = go(move || connect(client, 7).map(drop));
        let datagrams = UdpSocket::bind_on(client, "0.0.0.0:9").unwrap();
        closing.write_all(b"nobody confirms this").unwrap();
        drop(closing);
        sleep(millis(100));
        let of_server = Usage { connections: 4, half_open: 1, listeners: 1, ..Usage::default() };
        assert_eq!(server.usage(), of_server);
        assert_eq!(client.usage(), Usage { connections: 4, udp_sockets: 1, ..Usage::default() });
        drop(network);
        assert_eq!([server, client].map(Stack::usage), [Usage::default(); 2]);
        assert_eq!(half_open.join().unwrap(), Err(NetError::Device));
        assert_eq!(used.0.read(&mut [0; 1]), Err(NetError::Device));
        drop((used, accepted, queued, listener, datagrams));
        assert_eq!([server, client].map(Stack::usage), [Usage::default(); 2]);
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn parts_of_a_network_do_not_reach_each_other() {
    with_pair(Conditions::default(), 1, |network, server, client| {
        let third = network.host([10, 0, 0, 3]).unwrap();
        let soon = || Limit::after(millis(100));
        let late = Err(NetError::Limit(ContextError::DeadlineExceeded));
        serve_echo(server, 7);
        network.partition(&[server, third]);
        assert_eq!(TcpStream::connect_on(third, (SERVER, 7), soon()).map(drop), Ok(()));
        assert_eq!(TcpStream::connect_on(client, (SERVER, 7), soon()).map(drop), late);
        network.partition(&[third]);
        assert_eq!(TcpStream::connect_on(third, (SERVER, 7), soon()).map(drop), late);
        network.heal();
        assert_eq!(connect(client, 7).map(drop), Ok(()));
        assert_eq!(connect(third, 7).map(drop), Ok(()));
    });
}

#[test]
fn host_has_an_address_of_its_own() {
    with_pair(Conditions::default(), 1, |network, _, _| {
        assert_eq!(network.host(SERVER).map(drop), Err(NetError::AddrInUse));
        assert_eq!(network.host(core::net::Ipv6Addr::LOCALHOST).map(drop), Err(NetError::AddrNotAvailable));
        // Hosts reach each other, whatever their addresses are.
        let far = network.host([192, 168, 7, 7]).unwrap();
        let listener = TcpListener::bind_on(far, "0.0.0.0:7").unwrap();
        let other = network.host([172, 16, 0, 1]).unwrap();
        TcpStream::connect_on(other, "192.168.7.7:7", NONE).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip(), Ipv4Addr::new(172, 16, 0, 1));
    });
}

fn fails(test: impl FnOnce(&Network<Sim>, &'static Stack, &'static Stack) + Send + 'static) -> Failure {
    let run = sim::run(Config::default(), || {
        let network = Network::new(1);
        let [server, client] = [SERVER, CLIENT].map(|address| network.host(address).unwrap());
        test(&network, server, client);
    });
    run.expect_err("the run fails")
}

/// Both ends wait until the other one writes.
#[test]
fn deadlock_over_a_network_is_reported() {
    let failure = fails(|_, server, client| {
        let listener = TcpListener::bind_on(server, (SERVER, 7)).unwrap();
        let stream = connect(client, 7).unwrap();
        go(move || listener.accept().unwrap().0.read(&mut [0; 1])).detach();
        let _ = stream.read(&mut [0; 1]);
    });
    assert!(failure.message.contains("all goroutines are asleep - deadlock!"), "{failure}");
}

#[test]
fn conditions_that_make_no_sense_panic() {
    let failure = fails(|network, _, _| network.set_conditions(Conditions { loss: 20.0, ..Conditions::default() }));
    assert!(failure.message.contains("a share of 20 frames: it must be between 0 and 1"), "{failure}");
    let failure = fails(|network, _, _| network.set_conditions(Conditions { rate: Some(0), ..Conditions::default() }));
    assert!(failure.message.contains("a rate of 0 bits per second"), "{failure}");
    let failure = fails(|network, _, _| {
        let other = Network::new(2);
        network.partition(&[other.host(SERVER).unwrap()]);
    });
    assert!(failure.message.contains("the stack is no host of this network"), "{failure}");
}
