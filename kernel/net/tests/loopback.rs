//! Gs of one computer that talk to each other over a loopback, on threads.

use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gmp_sched::cancel::Limit;
use gmp_sched::native::{self, Native, go, now, sleep};
use kernel_net::{Configuration, Loopback, Usage};

type Stack = kernel_net::Stack<Native>;
type TcpListener = kernel_net::TcpListener<Native>;
type TcpStream = kernel_net::TcpStream<Native>;

/// Makes a stack with a loopback, which a G serves.
fn loopback(stack: &'static OnceLock<Stack>, announce: fn()) -> &'static Stack {
    let configuration = Configuration { address: Some((Ipv4Addr::LOCALHOST, 8)), gateway: None, seed: 7 };
    let made = stack.get_or_init(|| Stack::new(Box::new(Loopback::new(announce)), &configuration).expect("memory"));
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
        let stack = loopback(&STACK, || STACK.get().expect("it announces frames").announce());
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
