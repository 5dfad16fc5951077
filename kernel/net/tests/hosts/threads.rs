//! Simulated hosts on threads, which run in parallel. The clock is that of the wall, or of a bubble.

use gmp_sched::native::{self, Native, go, sleep, synctest};

use super::*;

type Host = &'static kernel_net::Stack<Native>;
type TcpListener = kernel_net::TcpListener<kernel_net::StackListener<Native>>;
type TcpStream = kernel_net::TcpStream<kernel_net::StackStream<Native>>;

/// Runs a test for each number of shards.
fn run(test: impl Fn(usize) + Clone + Send + 'static) {
    // SAFETY: the threads of the test stay alive until the process ends.
    let machine = unsafe { native::enter() };
    machine.run(2, move || SHARDS.into_iter().for_each(test));
}

fn hosts(seed: u64, shards: usize) -> (Network<Native>, [Host; 2]) {
    let network = Network::new(seed).with_rooms(guarded::make).with_shards(shards);
    let hosts = [SERVER, CLIENT].map(|address| network.host(address).unwrap());
    (network, hosts)
}

fn connect(client: Host) -> TcpStream {
    TcpStream::connect_on(client, (SERVER, 7), native::Limit::NONE).unwrap()
}

/// Accepts connections until the network ends, each with a G that echoes.
fn serve_echo(server: Host) {
    let listener = TcpListener::bind_on(server, (SERVER, 7)).unwrap();
    go(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            go(move || {
                let mut buffer = [0; 3_000];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    stream.write_all(&buffer[..count]).unwrap();
                }
            })
            .detach();
        }
    })
    .detach();
}

/// Sends `bytes` bytes to the server, and reads them.
fn echo(client: Host, bytes: usize) {
    let stream = Arc::new(connect(client));
    let sent: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
    let (writer, data) = (stream.clone(), sent.clone());
    let writes = go(move || {
        writer.write_all(&data).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let (mut received, mut buffer) = (Vec::new(), [0; 5_000]);
    while let count @ 1.. = stream.read(&mut buffer).unwrap() {
        received.extend_from_slice(&buffer[..count]);
    }
    assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
    writes.join().unwrap();
}

#[test]
fn data_of_many_connections_returns_unchanged() {
    run(|shards| {
        let (network, [server, client]) = hosts(1, shards);
        serve_echo(server);
        let clients: Vec<_> = (0..100).map(|number| go(move || echo(client, 1_000 * number))).collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        drop(network);
        assert_eq!([server.usage(), client.usage()], [Usage::default(); 2]);
    });
}

/// The clock of a bubble advances while frames are under way, or are to be sent again.
#[test]
fn bubble_has_a_virtual_clock_for_the_network() {
    run(|shards| {
        let took = synctest::test(move || {
            let begin = native::now();
            let (network, [server, client]) = hosts(2, shards);
            let delay = Duration::from_secs(1);
            network.set_conditions(Conditions { loss: 0.05, delay, ..Conditions::default() });
            serve_echo(server);
            echo(client, 20_000);
            native::now() - begin
        });
        assert!(took > Duration::from_secs(4), "{took:?}");
    });
}

/// The network is dropped while its G unwinds.
#[test]
fn panicking_g_ends_its_network() {
    run(|shards| {
        let panics = go(move || {
            let (_network, [server, client]) = hosts(4, shards);
            serve_echo(server);
            let _stream = connect(client);
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(panics.join().is_err());
        let begin = native::now();
        // The Gs that accept and serve get an error, and end.
        while native::num_goroutine() > 1 {
            assert!(native::now() < begin + Duration::from_secs(60), "{} Gs", native::num_goroutine());
            sleep(Duration::from_millis(1));
        }
    });
}

/// Gs that wait in all kinds of calls, on a network that is dropped.
#[test]
fn dropped_network_ends_all_waits() {
    run(|shards| {
        let (network, [server, client]) = hosts(3, shards);
        let listener = Arc::new(TcpListener::bind_on(server, "0.0.0.0:7").unwrap());
        let [(near, far), (silent, reading)] = [0, 1].map(|_| (connect(client), listener.accept().unwrap().0));
        let datagrams = kernel_net::UdpSocket::bind_on(server, "0.0.0.0:9").unwrap();
        let accepting = listener.clone();
        let waits = [
            go(move || accepting.accept().map(drop)),
            go(move || reading.read(&mut [0; 1]).map(drop)),
            go(move || core::iter::repeat_with(|| near.write(&[0; 999])).find_map(Result::err).map_or(Ok(()), Err)),
            go(move || TcpStream::connect_on(client, "10.0.0.77:7", native::Limit::NONE).map(drop)),
            go(move || datagrams.recv(&mut [0; 1]).map(drop)),
        ];
        sleep(Duration::from_millis(20));
        drop(network);
        for wait in waits {
            assert_eq!(wait.join().unwrap(), Err(NetError::Device));
        }
        assert_eq!([server.usage(), client.usage()], [Usage::default(); 2]);
        assert_eq!(TcpStream::connect_on(client, "10.0.0.1:7", native::Limit::NONE).map(drop), Err(NetError::Device));
        assert_eq!(TcpListener::bind_on(server, "0.0.0.0:8").map(drop), Err(NetError::Device));
        assert_eq!(listener.accept().map(drop), Err(NetError::Device));
        assert_eq!(far.write(b"x"), Err(NetError::Device));
        drop((far, silent, listener));
        assert_eq!([server.usage(), client.usage()], [Usage::default(); 2]);
    });
}
