//! Gs of one computer that talk to each other over a loopback, on threads.

#[path = "shared/guarded.rs"]
mod guarded;

use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::cancel::ContextError;
use gmp_sched::cancel::Limit;
use gmp_sched::native::{self, Native, go, now, sleep};
use kernel_net::{Configuration, Loopback, MAX_DATAGRAM, NetError, PAGE_BYTES, ROOM_PAGES, Room, Usage};

type Stack = kernel_net::Stack<Native>;
type TcpListener = kernel_net::TcpListener<Native>;
type UdpSocket = kernel_net::UdpSocket<Native>;
type TcpStream = kernel_net::TcpStream<Native>;

/// Makes a stack with a loopback, which a G serves.
fn loopback(stack: &'static OnceLock<Stack>) -> &'static Stack {
    let configuration = Configuration { address: Some((Ipv4Addr::LOCALHOST, 8)), gateway: None, dns: None, seed: 7 };
    let made =
        stack.get_or_init(|| Stack::new(Box::new(Loopback::new()), guarded::make, &configuration).expect("memory"));
    go(move || made.serve()).detach();
    made
}

/// More connections end at once than the loopback has room for frames.
#[test]
fn connections_that_end_all_at_once_leave_nothing_behind() {
    const CONNECTIONS: usize = 3_000;
    static STACK: OnceLock<Stack> = OnceLock::new();
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the threads of the test stay alive until the process ends.
    let machine = unsafe { native::enter() };
    machine.run(1, || {
        let stack = loopback(&STACK);
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
    static STACK: OnceLock<Stack> = OnceLock::new();
    // SAFETY: the threads of the test stay alive until the process ends.
    let machine = unsafe { native::enter() };
    machine.run(2, || {
        let stack = loopback(&STACK);
        let bind = || UdpSocket::bind_on(stack, "127.0.0.1:0").unwrap();
        let (near, far, other) = (bind(), bind(), bind());
        let taken = far.local_addr();
        assert_eq!(UdpSocket::bind_on(stack, taken).map(drop), Err(NetError::AddrInUse));
        assert_eq!(near.send(b"to nobody"), Err(NetError::InvalidInput));
        assert_eq!(near.send_to(b"x", "0.0.0.0:7"), Err(NetError::AddrNotAvailable));
        assert_eq!(near.send_to(&[0; MAX_DATAGRAM + 1], taken), Err(NetError::MessageTooLong));
        // Nobody receives this one.
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
