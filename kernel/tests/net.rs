//! The network on the host: what programs see there is what they see on the machine.

#[path = "../net/tests/shared/bubble.rs"]
mod bubble;
#[path = "../net/tests/shared/selects.rs"]
mod selects;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::chan::TryRecvError;
use gmp_sched::native;
use kernel::net::{self, MAX_DATAGRAM, NetError, Shutdown, TcpListener, TcpStream, UdpSocket, Usage};
use kernel::platform::synctest;
use kernel::prelude::{Receiver, channel, go, now, select, sleep};

const LATE: NetError = NetError::Limit(ContextError::DeadlineExceeded);

fn run(test: fn()) {
    // SAFETY: the threads of the test stay alive until the process ends.
    unsafe { native::enter() }.run(2, test);
}

/// One test, because it counts all sockets of the process.
#[test]
fn network_of_the_host_is_that_of_the_machine() {
    run(|| {
        datagrams_arrive_whole_from_the_peer_that_was_chosen();
        refused_datagram_is_an_error_of_the_next_call();
        several_gs_receive_from_one_socket();
        names_are_looked_up();
        lookup_does_not_stop_other_gs();
        names_stand_for_addresses();
        panicking_g_leaves_no_socket();
        the_two_kinds_of_addresses_do_not_meet();
        selects_wait_for_sockets();
        keepalive_can_be_set();
        peer_that_vanishes_before_it_is_accepted_is_accepted();
        call_with_an_empty_buffer_does_not_wait();
        reads_after_a_shutdown_return_nothing();
        each_of_several_selects_gets_what_has_arrived();
        write_to_a_connection_that_has_ended_does_not_say_that_the_program_has_shut_it_down();
        bubble::clock_stands_during_waits();
        only_gs_may_call();
        assert_eq!(net::usage(), Usage::default());
    });
}

fn bind() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn datagrams_arrive_whole_from_the_peer_that_was_chosen() {
    let (near, far, other) = (bind(), bind(), bind());
    let taken = far.local_addr();
    assert_eq!(UdpSocket::bind(taken).map(drop), Err(NetError::AddrInUse));
    assert_eq!(UdpSocket::bind("10.9.9.9:0").map(drop), Err(NetError::AddrNotAvailable));
    assert_eq!(near.send(b"to nobody"), Err(NetError::InvalidInput));
    assert_eq!(near.send_to(b"x", "0.0.0.0:7"), Err(NetError::AddrNotAvailable));
    assert_eq!(near.send_to(b"x", "a..b:7"), Err(NetError::NameNotFound));
    assert_eq!(near.send_to_until(b"x", ("localhost", 7), now()), Err(LATE));
    assert_eq!(near.send_to(&[0; MAX_DATAGRAM + 1], taken), Err(NetError::MessageTooLong));
    far.connect(near.local_addr()).unwrap();
    near.connect(far.local_addr()).unwrap();
    assert_eq!(other.send_to(b"dropped", taken), Ok(7));
    let answers = go(move || {
        let mut buffer = [0; MAX_DATAGRAM];
        for length in (0..=MAX_DATAGRAM).step_by(368) {
            assert_eq!(far.recv(&mut buffer), Ok(length));
            assert_eq!(far.send(&buffer[..length.min(10)]), Ok(length.min(10)));
        }
    });
    for length in (0..=MAX_DATAGRAM).step_by(368) {
        assert_eq!(near.send(&vec![7; length]), Ok(length));
        let mut buffer = [0; 5];
        // What does not fit is dropped.
        assert_eq!(near.recv_from(&mut buffer), Ok((length.min(5), taken)));
        assert!(buffer[..length.min(5)].iter().all(|&byte| byte == 7));
    }
    answers.join().unwrap();
    assert_eq!(near.recv_from_until(&mut [0], now() + Duration::from_millis(5)), Err(LATE));
    assert_eq!(net::usage(), Usage { udp_sockets: 2, ..Usage::default() });
}

fn refused_datagram_is_an_error_of_the_next_call() {
    let near = bind();
    let nobody = bind().local_addr();
    near.connect(nobody).unwrap();
    assert_eq!(near.send(b"data"), Ok(4));
    assert_eq!(near.recv(&mut [0; 9]), Err(NetError::ConnectionRefused));
    // The error was returned once, and the socket goes on.
    let far = bind();
    near.connect(far.local_addr()).unwrap();
    assert_eq!(near.send_to(b"to another", bind().local_addr()), Ok(10));
    assert_eq!(near.send(b"data"), Ok(4));
    assert_eq!(far.recv_from(&mut [0; 9]), Ok((4, near.local_addr())));
}

fn several_gs_receive_from_one_socket() {
    let far = std::sync::Arc::new(bind());
    let receive = |_| {
        let far = far.clone();
        go(move || far.recv(&mut [0; 9]).unwrap())
    };
    let receiving: Vec<_> = (0..10).map(receive).collect();
    let near = bind();
    for length in 0..9 {
        assert_eq!(near.send_to(&[0; 9][..length], far.local_addr()), Ok(length));
    }
    assert_eq!(near.send_to(&[0; 9], far.local_addr()), Ok(9));
    let mut lengths: Vec<_> = receiving.into_iter().map(|g| g.join().unwrap()).collect();
    lengths.sort_unstable();
    assert!(lengths.into_iter().eq(0..10));
}

fn names_are_looked_up() {
    let soon = || now() + Duration::from_secs(60);
    let own = |port| vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)];
    assert_eq!(net::lookup_host_until("127.0.0.1:80", soon()), Ok(own(80)));
    assert!(net::lookup_host_until("localhost:81", soon()).unwrap().contains(&own(81)[0]));
    for text in ["localhost", "localhost:", "localhost:65536", ""] {
        assert_eq!(net::lookup_host_until(text, soon()), Err(NetError::InvalidInput), "{text}");
    }
    assert_eq!(net::lookup_host_until("a..b:80", soon()), Err(NetError::NameNotFound));
    assert_eq!(net::lookup_host_until("[::1]:80", soon()), Ok(vec!["[::1]:80".parse().unwrap()]));
    assert_eq!(net::lookup_host_until("localhost:80", now()), Err(LATE));
}

/// The resolver of the host blocks its thread, but not the P.
fn lookup_does_not_stop_other_gs() {
    let all: Vec<_> =
        (0..20).map(|_| go(|| net::lookup_host_until("localhost:1", now() + Duration::from_secs(60)))).collect();
    let counts = go(|| (0..10).for_each(|_| sleep(Duration::from_micros(10))));
    counts.join().unwrap();
    assert!(all.into_iter().all(|g| g.join().unwrap().is_ok()));
}

fn names_stand_for_addresses() {
    let listener = TcpListener::bind("localhost:0").unwrap();
    let port = listener.local_addr().port();
    let streams = [TcpStream::connect(("localhost", port)), TcpStream::connect(format!("localhost:{port}").as_str())];
    for stream in streams {
        assert_eq!(stream.unwrap().peer_addr(), listener.local_addr());
        drop(listener.accept().unwrap());
    }
    assert_eq!(UdpSocket::bind("localhost:0").unwrap().local_addr().ip(), Ipv4Addr::LOCALHOST);
    for text in ["localhost", ":80", "localhost:x"] {
        assert_eq!(TcpStream::connect(text).map(drop), Err(NetError::InvalidInput), "{text}");
    }
    assert_eq!(TcpStream::connect("a..b:1").map(drop), Err(NetError::NameNotFound));
    assert_eq!(TcpStream::connect_until(("localhost", port), now()).map(drop), Err(LATE));
    // Of the addresses of a name, a datagram goes to that of the socket's kind.
    for own in ["127.0.0.1:0", "[::1]:0"] {
        let socket = UdpSocket::bind(own).unwrap();
        let port = socket.local_addr().port();
        let result = socket.send_to(b"data", ("localhost", port));
        let found = net::lookup_host_until(&format!("localhost:{port}"), now() + Duration::from_secs(60)).unwrap();
        if !found.contains(&socket.local_addr()) {
            // Not every host has an IPv6 address of this name.
            assert_eq!(result, Err(NetError::AddrNotAvailable), "{own}");
            continue;
        }
        assert_eq!(result, Ok(4), "{own}");
        assert_eq!(socket.recv_from(&mut [0; 9]), Ok((4, socket.local_addr())));
        socket.connect(("localhost", port)).unwrap();
        assert_eq!(socket.send(b"more data"), Ok(9));
        assert_eq!(socket.recv_from(&mut [0; 9]), Ok((9, socket.local_addr())));
    }
}

fn the_two_kinds_of_addresses_do_not_meet() {
    let listener = TcpListener::bind("[::]:0").unwrap();
    let at = listener.local_addr();
    assert_eq!(TcpListener::bind(("::1", at.port())).map(drop), Err(NetError::AddrInUse));
    drop(TcpListener::bind(("127.0.0.1", at.port())).unwrap());
    assert_eq!(TcpStream::connect(("127.0.0.1", at.port())).map(drop), Err(NetError::ConnectionRefused));
    let near = TcpStream::connect((Ipv6Addr::LOCALHOST, at.port())).unwrap();
    let (far, peer) = listener.accept().unwrap();
    assert_eq!((peer, far.local_addr()), (near.local_addr(), near.peer_addr()));
    // An IPv4 address that is written as one of IPv6.
    let ipv4 = TcpListener::bind("[::ffff:127.0.0.1]:0").unwrap();
    let port = ipv4.local_addr().port();
    let mapped: SocketAddr = format!("[::ffff:127.0.0.1]:{port}").parse().unwrap();
    assert_eq!(TcpStream::connect(mapped).unwrap().peer_addr(), ipv4.local_addr());
    let (all, other) = (UdpSocket::bind("[::]:0").unwrap(), bind());
    assert_eq!(all.send_to(&[0; MAX_DATAGRAM - 20], all.local_addr()), Ok(MAX_DATAGRAM - 20));
    assert_eq!(all.send_to(&[0; MAX_DATAGRAM - 19], all.local_addr()), Err(NetError::MessageTooLong));
    for (from, to) in [(&all, other.local_addr()), (&other, all.local_addr())] {
        assert_eq!(from.send_to(b"x", to), Err(NetError::AddrNotAvailable));
    }
}

fn selects_wait_for_sockets() {
    let (listener, datagrams) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    selects::wait_for_sockets(listener, datagrams, |address| TcpStream::connect(address).unwrap(), 1_000_000);
}

fn keepalive_can_be_set() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr()).unwrap();
    for seconds in [1, 60, 9 * 3_600] {
        assert_eq!(stream.set_keepalive(Some(Duration::from_secs(seconds))), Ok(()), "{seconds}");
    }
    assert_eq!(stream.set_keepalive(None), Ok(()));
    for silence in [Duration::from_millis(999), Duration::from_millis(9 * 3_600_000 + 1), Duration::MAX] {
        assert_eq!(stream.set_keepalive(Some(silence)), Err(NetError::InvalidInput));
    }
}

fn connect() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn peer_that_vanishes_before_it_is_accepted_is_accepted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = std::net::TcpStream::connect(listener.local_addr()).unwrap();
    let address = peer.local_addr().unwrap();
    // Dropping the peer now resets the connection.
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    let (far, peer) = listener.accept().unwrap();
    assert_eq!((peer, far.peer_addr(), far.local_addr()), (address, address, listener.local_addr()));
    assert_eq!(far.read(&mut [0]), Err(NetError::ConnectionReset));
}

fn call_with_an_empty_buffer_does_not_wait() {
    let (near, far) = connect();
    let near = std::sync::Arc::new(near);
    let reads = [near.clone(), near.clone()].map(|near| go(move || near.read(&mut [0])));
    sleep(Duration::from_millis(1));
    assert_eq!((near.read(&mut []), near.peek(&mut []), near.write(&[])), (Ok(0), Ok(0), Ok(0)));
    drop(far);
    assert!(reads.into_iter().all(|read| read.join().unwrap() == Ok(0)));
}

fn reads_after_a_shutdown_return_nothing() {
    let (near, far) = connect();
    far.write_all(b"unread").unwrap();
    assert_eq!(near.peek(&mut [0; 9]), Ok(6));
    near.shutdown(Shutdown::Read).unwrap();
    far.write_all(b"more").unwrap();
    for _ in 0..2 {
        assert_eq!((near.read(&mut [0; 9]), near.peek(&mut [0; 9])), (Ok(0), Ok(0)));
    }
    assert_eq!(near.write(b"still open"), Ok(10));
    assert_eq!(far.read(&mut [0; 99]), Ok(10));
}

/// The host announces only once that several datagrams, or connections, have arrived.
fn each_of_several_selects_gets_what_has_arrived() {
    for _ in 0..20 {
        let far = std::sync::Arc::new(bind());
        let listener = std::sync::Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr();
        let receiving = [far.clone(), far.clone(), far.clone()].map(|far| {
            go(move || {
                select! {
                    recv(far.readable().unwrap()) -> _ => far.recv(&mut [0; 9]),
                    timeout(Duration::from_secs(10)) => Err(LATE),
                }
            })
        });
        let accepting = [listener.clone(), listener.clone(), listener].map(|listener| {
            go(move || {
                select! {
                    recv(listener.readable().unwrap()) -> _ => listener.accept().map(|_| 1),
                    timeout(Duration::from_secs(10)) => Err(LATE),
                }
            })
        });
        sleep(Duration::from_millis(1));
        let near = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..3).for_each(|_| assert_eq!(near.send_to(b"x", far.local_addr()).unwrap(), 1));
        let _peers: Vec<_> = (0..3).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        assert!(receiving.into_iter().chain(accepting).all(|g| g.join().unwrap() == Ok(1)));
    }
}

fn write_to_a_connection_that_has_ended_does_not_say_that_the_program_has_shut_it_down() {
    let (near, far) = connect();
    drop(far);
    // The peer answers the data with a reset.
    assert_eq!((near.read(&mut [0]), near.write(b"data")), (Ok(0), Ok(4)));
    let ended = loop {
        match near.write(b"data") {
            Ok(_) => sleep(Duration::from_millis(1)),
            Err(ended) => break ended,
        }
    };
    assert_eq!((ended, near.write(b"data")), (NetError::ConnectionReset, Err(NetError::ConnectionReset)));
    // As on the machine, the connection may be shut down nevertheless.
    assert_eq!(near.shutdown(Shutdown::Both), Ok(()));
    assert_eq!((near.write(b"data"), near.read(&mut [0])), (Err(NetError::BrokenPipe), Ok(0)));
    // A G that waits for room returns, too.
    let (near, _far) = connect();
    let near = std::sync::Arc::new(near);
    let writer = near.clone();
    let writes = go(move || writer.write_all(&vec![0; 64 << 20]));
    sleep(Duration::from_millis(20));
    near.shutdown(Shutdown::Write).unwrap();
    assert_eq!(writes.join().unwrap(), Err(NetError::BrokenPipe));
}

fn panicking_g_leaves_no_socket() {
    static HAD_SOCKETS: AtomicBool = AtomicBool::new(false);
    let dies = go(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _near = TcpStream::connect(listener.local_addr()).unwrap();
        let (_far, _) = listener.accept().unwrap();
        let _datagrams = bind();
        assert_eq!(net::usage(), Usage { connections: 2, listeners: 1, udp_sockets: 1, half_open: 0 });
        HAD_SOCKETS.store(true, Ordering::Relaxed);
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(dies.join().is_err() && HAD_SOCKETS.load(Ordering::Relaxed));
}

fn only_gs_may_call() {
    let (near, datagrams) = (connect().0, bind());
    let to = datagrams.local_addr();
    let calls: [&(dyn Fn() + Sync); 9] = [
        &|| drop(TcpListener::bind("127.0.0.1:0").unwrap()),
        &|| drop(bind()),
        &|| assert_eq!(near.write(b"x"), Ok(1)),
        &|| assert_eq!(near.read(&mut []), Ok(0)),
        &|| drop(near.readable().unwrap()),
        &|| assert_eq!(datagrams.send_to(b"x", to), Ok(1)),
        &|| datagrams.connect(to).unwrap(),
        &|| drop(net::lookup_host_until("localhost:1", now())),
        &|| _ = net::usage(),
    ];
    for (index, call) in calls.into_iter().enumerate() {
        let is_refused = || catch_unwind(AssertUnwindSafe(call)).is_err();
        let on_a_thread = || thread::scope(|scope| scope.spawn(is_refused).join().unwrap());
        assert!(native::blocking(on_a_thread), "call {index} on a thread");
        assert!(native::blocking(is_refused), "call {index} in a system call");
        call();
    }
}
