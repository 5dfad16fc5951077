//! Gs of one computer that talk to each other over a loopback, on threads.

#[path = "shared/guarded.rs"]
mod guarded;
#[path = "shared/selects.rs"]
mod selects;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::cancel::Limit;
use gmp_sched::chan::TryRecvError;
use gmp_sched::native::{self, Native, Receiver, go, now, sleep};
use gmp_sched::select;
use gmp_sched::time::Instant;
use kernel_net::{
    Configuration, Ipv6, Link, Loopback, MAX_DATAGRAM, NetError, PAGE_BYTES, ROOM_PAGES, Room, Shutdown, Usage,
};

type Stack = kernel_net::Stack<Native>;
type TcpListener = kernel_net::TcpListener<kernel_net::StackListener<Native>>;
type UdpSocket = kernel_net::UdpSocket<kernel_net::StackDatagrams<Native>>;
type TcpStream = kernel_net::TcpStream<kernel_net::StackStream<Native>>;

/// Runs `test` with a stack on a loopback, for each number of shards.
fn with_loopback(procs: usize, test: impl Fn(&'static Stack) + Send + 'static) {
    // SAFETY: the threads of the test stay alive until the process ends.
    let machine = unsafe { native::enter() };
    machine.run(procs, move || {
        for shards in [1, 2, 8] {
            let made = Stack::on_loopback(guarded::make, &configuration(shards)).expect("memory");
            test(serve(Box::leak(Box::new(made))));
        }
    });
}

/// Starts the Gs that serve a stack.
fn serve(stack: &'static Stack) -> &'static Stack {
    (0..stack.servers()).for_each(|number| go(move || stack.serve(number)).detach());
    stack
}

fn configuration(shards: usize) -> Configuration {
    let ipv6 = Ipv6::Fixed { address: (Ipv6Addr::LOCALHOST, 128), gateway: None };
    let address = Some((Ipv4Addr::LOCALHOST, 8));
    Configuration { address, ipv6, seed: 7, shards, ..Configuration::default() }
}

/// Makes a stack that talks to itself over this link, which a G serves.
fn stack_on(stack: &'static OnceLock<Stack>, link: impl Link + 'static) -> &'static Stack {
    let make = || Stack::new(Box::leak(Box::new(link)), guarded::make, &configuration(1)).map_err(drop);
    serve(stack.get_or_init(|| make().expect("memory")))
}

#[test]
fn the_two_kinds_of_addresses_do_not_meet() {
    with_loopback(2, |stack| {
        let bind = |text: &str| TcpListener::bind_on(stack, text);
        let listener = bind("[::1]:0").unwrap();
        let at = listener.local_addr();
        assert_eq!(at.ip(), Ipv6Addr::LOCALHOST);
        for (address, is_free) in
            [("[::]", false), ("[::1]", false), ("127.0.0.1", true), ("0.0.0.0", true), ("[fe80::1]", false)]
        {
            let result = bind(&format!("{address}:{}", at.port())).map(drop);
            assert_eq!(result.is_ok(), is_free, "{address}: {result:?}");
        }
        let near = TcpStream::connect_on(stack, at, Limit::NONE).unwrap();
        let (far, peer) = listener.accept().unwrap();
        assert_eq!((peer, far.local_addr()), (near.local_addr(), at));
        let sent = vec![7; 100_000];
        let writes = go({
            let sent = sent.clone();
            move || near.write_all(&sent).map(|()| drop(near))
        });
        let (mut received, mut buffer) = (Vec::new(), [0; 5_000]);
        while let count @ 1.. = far.read(&mut buffer).unwrap() {
            received.extend_from_slice(&buffer[..count]);
        }
        writes.join().unwrap().unwrap();
        assert!(received == sent);
        let v4 = (Ipv4Addr::LOCALHOST, at.port());
        let refused = TcpStream::connect_on(stack, v4, Limit::NONE).map(drop);
        assert_eq!(refused, Err(NetError::ConnectionRefused));

        let sockets = ["[::]:0", "[::1]:0", "127.0.0.1:0"].map(|text| UdpSocket::bind_on(stack, text).unwrap());
        let [all, near, other] = &sockets;
        let port = all.local_addr().port();
        assert_eq!(UdpSocket::bind_on(stack, (Ipv6Addr::LOCALHOST, port)).map(drop), Err(NetError::AddrInUse));
        assert_eq!(other.local_addr().port(), port);
        let longest = MAX_DATAGRAM - 20;
        assert_eq!(near.send_to(&vec![1; longest], (Ipv6Addr::LOCALHOST, port)), Ok(longest));
        assert_eq!(all.recv_from(&mut [0; 2_000]), Ok((longest, near.local_addr())));
        assert_eq!(near.send_to(&vec![1; longest + 1], (Ipv6Addr::LOCALHOST, port)), Err(NetError::MessageTooLong));
        for socket in [near, other] {
            let port = socket.local_addr().port();
            assert_eq!(socket.send_to(b"data", ("localhost", port)), Ok(4));
            assert_eq!(socket.recv_from(&mut [0; 9]), Ok((4, socket.local_addr())));
            socket.connect(("localhost", port)).unwrap();
            assert_eq!(socket.send_to(b"x", "a..b:7"), Err(NetError::InvalidInput));
            assert_eq!(socket.send_to(b"x", "localhost"), Err(NetError::InvalidInput));
        }
        for (from, to) in [(near, "127.0.0.1:7"), (all, "127.0.0.1:7"), (other, "[::1]:7"), (near, "[::]:7")] {
            assert_eq!(from.send_to(b"x", to), Err(NetError::AddrNotAvailable), "{to}");
        }
        drop((sockets, far, listener));
    });
}

/// A loopback, and what sends a frame over it.
struct Through(Loopback, fn(&mut Loopback, &[u8]));

impl Link for Through {
    fn mac(&self) -> [u8; 6] {
        self.0.mac()
    }

    fn is_up(&self) -> bool {
        self.0.is_up()
    }

    fn is_broken(&self) -> bool {
        self.0.is_broken()
    }

    fn may_damage(&self) -> bool {
        self.0.may_damage()
    }

    fn largest_to_send(&self) -> usize {
        self.0.largest_to_send()
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Option<usize> {
        self.0.receive(frame)
    }

    fn has_arrived(&self) -> bool {
        self.0.has_arrived()
    }

    fn can_send(&mut self) -> bool {
        self.0.can_send()
    }

    fn send(&mut self, frame: &[u8]) {
        (self.1)(&mut self.0, frame);
    }

    fn flush(&mut self) {}

    fn due(&mut self) -> Instant {
        self.0.due()
    }
}

/// Plays a router that answers each segment with the message that it knows no route.
fn refuse(link: &mut Loopback, frame: &[u8]) {
    const TCP: u8 = 6;
    const ICMP: u8 = 1;
    if frame[12..14] != [8, 0] || frame[23] != TCP {
        return link.send(frame);
    }
    let mut message = [&frame[..34], &[3, 1, 0, 0, 0, 0, 0, 0], &frame[14..42]].concat();
    (message[16], message[17], message[23]) = (0, 20 + 8 + 28, ICMP);
    link.send(&message);
}

#[test]
fn connect_ends_when_a_router_knows_no_way() {
    static STACK: OnceLock<Stack> = OnceLock::new();
    // SAFETY: the threads of the test stay alive until the process ends.
    unsafe { native::enter() }.run(2, || {
        let stack = stack_on(&STACK, Through(Loopback::new(), refuse));
        let listener = TcpListener::bind_on(stack, "127.0.0.1:0").unwrap();
        let result = TcpStream::connect_on(stack, listener.local_addr(), Limit::NONE).map(drop);
        assert_eq!(result, Err(NetError::HostUnreachable));
        assert_eq!(stack.usage(), Usage { listeners: 1, ..Usage::default() });
    });
}

/// Sends a MiB over a connection to the address, and compares what arrives.
fn transfer(stack: &'static Stack, address: &str) {
    let listener = TcpListener::bind_on(stack, address).unwrap();
    let near = TcpStream::connect_on(stack, listener.local_addr(), Limit::NONE).unwrap();
    let (far, _) = listener.accept().unwrap();
    let data: Vec<u8> = (0..1 << 20_u32).map(|at: u32| (at % 251) as u8).collect();
    let sent = data.clone();
    let writes = go(move || near.write_all(&sent).map(|()| drop(near)));
    let (mut received, mut buffer) = (Vec::new(), vec![0; 65_536]);
    while let count @ 1.. = far.read(&mut buffer).unwrap() {
        received.extend_from_slice(&buffer[..count]);
    }
    writes.join().unwrap().unwrap();
    assert!(received == data);
}

#[test]
fn stream_in_bulk_needs_few_frames() {
    static STACK: OnceLock<Stack> = OnceLock::new();
    static FRAMES: AtomicUsize = AtomicUsize::new(0);
    fn count(link: &mut Loopback, frame: &[u8]) {
        FRAMES.fetch_add(1, Ordering::Relaxed);
        link.send(frame);
    }
    // SAFETY: the threads of the test stay alive until the process ends.
    unsafe { native::enter() }.run(1, || {
        let stack = stack_on(&STACK, Through(Loopback::new(), count));
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let before = FRAMES.load(Ordering::Relaxed);
            transfer(stack, address);
            let frames = FRAMES.load(Ordering::Relaxed) - before;
            assert!(frames < 200, "{frames} to {address}");
        }
    });
}

#[test]
fn more_streams_than_there_is_room_for_frames_arrive_whole() {
    with_loopback(2, |stack| {
        let all: Vec<_> = (0..50).map(|_| go(move || transfer(stack, "127.0.0.1:0"))).collect();
        all.into_iter().for_each(|one| one.join().unwrap());
    });
}

#[test]
fn selects_wait_for_sockets() {
    with_loopback(2, |stack| {
        let listener = TcpListener::bind_on(stack, "127.0.0.1:0").unwrap();
        let datagrams = UdpSocket::bind_on(stack, "127.0.0.1:0").unwrap();
        let connect = |address| TcpStream::connect_on(stack, address, Limit::NONE).unwrap();
        selects::wait_for_sockets(listener, datagrams, connect, 1_000_000);
    });
}

/// More connections end at once than frames fit into the loopback.
#[test]
fn connections_that_end_all_at_once_leave_nothing_behind() {
    const CONNECTIONS: usize = 3_000;
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    with_loopback(1, |stack| {
        ENDED.store(0, Ordering::Relaxed);
        let listener = TcpListener::bind_on(stack, "127.0.0.1:0").unwrap();
        let streams: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let near = TcpStream::connect_on(stack, listener.local_addr(), Limit::NONE).unwrap();
                let (far, _) = listener.accept().unwrap();
                go(move || {
                    assert_eq!(far.read(&mut [0]), Ok(0));
                    ENDED.fetch_add(1, Ordering::Relaxed);
                })
                .detach();
                near
            })
            .collect();
        drop((streams, listener));
        let end = now() + Duration::from_secs(60);
        while stack.usage() != Usage::default() {
            assert!(now() < end, "{:?}, {} have ended", stack.usage(), ENDED.load(Ordering::Relaxed));
            sleep(Duration::from_millis(1));
        }
        assert_eq!(ENDED.load(Ordering::Relaxed), CONNECTIONS);
    });
}

#[test]
fn datagrams_arrive_whole_from_the_peer_that_was_chosen() {
    with_loopback(2, |stack| {
        let bind = || UdpSocket::bind_on(stack, "127.0.0.1:0").unwrap();
        let (near, far, other) = (bind(), bind(), bind());
        let taken = far.local_addr();
        assert_eq!(UdpSocket::bind_on(stack, taken).map(drop), Err(NetError::AddrInUse));
        assert_eq!(near.send(b"to nobody"), Err(NetError::InvalidInput));
        assert_eq!(near.send_to(b"x", "0.0.0.0:7"), Err(NetError::AddrNotAvailable));
        assert_eq!(near.send_to(&[0; MAX_DATAGRAM + 1], taken), Err(NetError::MessageTooLong));
        // Nobody receives this one. A socket with a peer learns of it.
        let refused = bind();
        refused.connect("127.0.0.1:9").unwrap();
        assert_eq!(refused.send(b"lost"), Ok(4));
        assert_eq!(refused.recv(&mut [0; 9]), Err(NetError::ConnectionRefused));
        drop(refused);
        assert_eq!(near.send_to(b"lost", "127.0.0.1:9"), Ok(4));
        far.connect(near.local_addr()).unwrap();
        near.connect(far.local_addr()).unwrap();
        assert_eq!(other.send_to(b"dropped", far.local_addr()), Ok(7));
        let answers = go(move || {
            let mut buffer = [0; MAX_DATAGRAM];
            for length in (0..MAX_DATAGRAM).step_by(100) {
                assert_eq!(far.recv(&mut buffer), Ok(length));
                assert_eq!(far.send(&buffer[..length.min(10)]), Ok(length.min(10)));
            }
        });
        for length in (0..MAX_DATAGRAM).step_by(100) {
            near.send(&vec![7; length]).unwrap();
            let mut buffer = [0; 5];
            // What does not fit is dropped.
            assert_eq!(near.recv_from(&mut buffer), Ok((length.min(5), taken)));
            assert!(buffer[..length.min(5)].iter().all(|&byte| byte == 7));
        }
        answers.join().unwrap();
        let late = near.recv_from_until(&mut [0], Limit::after(Duration::from_millis(5)));
        assert_eq!(late, Err(NetError::Limit(ContextError::DeadlineExceeded)));
        assert_eq!(stack.usage(), Usage { udp_sockets: 2, ..Usage::default() });
        drop((near, other));
        assert_eq!(stack.usage(), Usage::default());
    });
}
