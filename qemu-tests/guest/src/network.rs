//! Tests of connections from the machine to itself.

#[path = "../../../kernel/net/tests/shared/bubble.rs"]
mod bubble;
#[path = "../../../kernel/net/tests/shared/selects.rs"]
mod selects;

use kernel::chan::TryRecvError;
use kernel::internals;
use kernel::net::{self, NetError, Shutdown, TcpListener, TcpStream, UdpSocket, Usage};
use kernel::platform::synctest;
use kernel::prelude::*;

use crate::several::{go_each, join_all};

fn echo(stream: &TcpStream) -> Result<(), NetError> {
    let mut buffer = [0; 3_000];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

/// The whole test needs no device and no host, so with `--icount` all runs are equal.
fn loopback_returns_what_is_sent() {
    returns_what_is_sent("127.0.0.1");
    returns_what_is_sent("::1");
}

fn returns_what_is_sent(own: &str) {
    assert_eq!(TcpStream::connect((own, 7)).map(drop), Err(NetError::ConnectionRefused));
    let listener = TcpListener::bind((own, 0)).unwrap();
    let address = listener.local_addr();
    let accepts = go(move || {
        for stream in listener.incoming().take(20) {
            let stream = stream.unwrap();
            go(move || echo(&stream).unwrap()).detach();
        }
    });
    join_all(go_each(0..20u8, move |number| {
        let stream = TcpStream::connect(address).unwrap();
        let sent: Vec<u8> = (0..100_000u32).map(|at| (at / 7) as u8 ^ number).collect();
        let (mut received, mut buffer) = (Vec::new(), [0; 2_000]);
        scope(|scope| {
            let _ = scope.go(|| {
                stream.write_all(&sent).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
            loop {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    count => received.extend_from_slice(&buffer[..count]),
                }
            }
        });
        assert!(received == sent, "{} bytes", received.len());
    }));
    accepts.join().unwrap();
    wait_until_all_is_sent();
}
guest_test!(loopback_returns_what_is_sent, smp = &[1, 2, 8]);

/// Waits until there are no sockets. A connection that was dropped exists until its peer has received all data.
fn wait_until_all_is_sent() {
    let end = now() + Duration::from_secs(20);
    while net::usage() != Usage::default() && now() < end {
        sleep(Duration::from_millis(1));
    }
    assert_eq!(net::usage(), Usage::default());
}

fn selects_wait_for_sockets() {
    let (listener, datagrams) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    selects::wait_for_sockets(listener, datagrams, |address| TcpStream::connect(address).unwrap(), 300_000);
}
guest_test!(selects_wait_for_sockets, smp = &[1, 2]);

/// The first use of the loopback, which starts the Gs that serve it, is in a bubble. These Gs must also serve the
/// loopback after the end of the bubble.
fn clock_of_a_bubble_stands_during_waits_for_the_network() {
    bubble::clock_stands_during_waits();
    returns_what_is_sent("127.0.0.1");
}
guest_test!(clock_of_a_bubble_stands_during_waits_for_the_network, smp = &[1, 2]);

fn network_that_is_not_there_is_an_error() {
    assert_eq!(TcpListener::bind("0.0.0.0:7").map(drop), Err(NetError::NoNetwork));
    assert_eq!(TcpStream::connect("10.0.2.2:7").map(drop), Err(NetError::NoNetwork));
    assert_eq!(TcpStream::connect("host.example:7").map(drop), Err(NetError::NoNetwork));
    for text in ["host.example", ":7", "host.example:x"] {
        assert_eq!(TcpStream::connect(text).map(drop), Err(NetError::InvalidInput), "{text}");
    }
    let listener = TcpListener::bind("localhost:0").unwrap();
    assert_eq!(TcpStream::connect(("localhost", listener.local_addr().port())).map(drop), Ok(()));
    assert_eq!(net::address_until(now()), Err(NetError::NoNetwork));
    assert_eq!(TcpListener::bind("127.0.0.2:7").map(drop), Err(NetError::AddrNotAvailable));
}
guest_test!(network_that_is_not_there_is_an_error);

/// A client on the host sends 200,000 bytes, and compares what returns. The device fails several times meanwhile.
fn connection_survives_resets_of_the_device() {
    let listener = TcpListener::bind("0.0.0.0:7").unwrap();
    net::address_until(now() + Duration::from_secs(60)).unwrap();
    println!("listening");
    let (stream, _) = listener.accept().unwrap();
    let (mut buffer, mut received, mut failures) = ([0; 3_000], 0, 0);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        received += count;
        if received > (failures + 1) * 36_000 {
            failures += 1;
            internals::mislead_network_device();
        }
        stream.write_all(&buffer[..count]).unwrap();
    }
    assert_eq!((received, failures), (200_000, 5));
    drop((stream, listener));
    wait_until_all_is_sent();
}
guest_test!(connection_survives_resets_of_the_device, hidden);

fn datagrams_return_over_the_loopback() {
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = far.local_addr();
    let answers = go(move || {
        for _ in 0..100 {
            let mut buffer = [0; 100];
            let (bytes, sender) = far.recv_from(&mut buffer).unwrap();
            far.send_to(&buffer[..bytes], sender).unwrap();
        }
    });
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    near.connect(address).unwrap();
    for number in 0..100u8 {
        assert_eq!(near.send(&[number; 50]), Ok(50));
        let mut buffer = [0; 100];
        assert_eq!(near.recv(&mut buffer), Ok(50));
        assert!(buffer[..50].iter().all(|&byte| byte == number));
    }
    answers.join().unwrap();
    assert_eq!(net::usage(), Usage { udp_sockets: 1, ..Usage::default() });
    drop(near);
    assert_eq!(net::usage(), Usage::default());
    assert_eq!(UdpSocket::bind("0.0.0.0:0").map(drop), Err(NetError::NoNetwork));
}
guest_test!(datagrams_return_over_the_loopback, smp = &[1, 8]);
