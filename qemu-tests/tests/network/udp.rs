//! Datagrams between the host and the machine. A datagram that comes before the machine has its address is lost. So the
//! tests connect first: QEMU sends the first segment of a connection again until the machine answers.
//! After that, QEMU knows the MAC address of the machine, and the socket of `echo` exists, because `echo` makes it before its
//! listener. The machine keeps an answer until it knows the MAC address of the host. Only one or two datagrams are under way
//! at a time, so no queue is full, and none is lost.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Stdio;

use super::server::{PATIENCE, Running};
use super::{Server, boot, connect_and_greet, free_port};

/// Returns a socket of the host, and a port of the host that no socket has.
fn socket_and_port() -> (UdpSocket, u16) {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let (socket, other) = (bind(), bind());
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    (socket, other.local_addr().expect("an address").port())
}

/// The machine answers to the port from which a datagram came, so this tests both directions.
#[test]
fn datagrams_reach_the_machine_and_return() {
    let (socket, port) = socket_and_port();
    let machine = Server::echo(&["--smp=2", &format!("--port=udp:{port}:7")], 1);
    socket.connect((Ipv4Addr::LOCALHOST, port)).expect("an address");
    let mut total = 0;
    let stream = connect_and_greet(machine.port);
    // 1472 bytes are the largest datagram that the machine receives.
    for bytes in [1, 1472, 0, 700] {
        let datagram = vec![bytes as u8; bytes];
        assert_eq!(socket.send(&datagram).expect("sent"), bytes);
        let mut buffer = [0; 2000];
        let received = socket.recv(&mut buffer).expect("the datagram returns");
        assert_eq!(buffer[..received], datagram);
        total += bytes;
    }
    drop(stream);
    machine.end(&format!("echo: {} bytes, 0 connections left\n", total + 1));
}

/// Two sockets of the host get only their own datagrams.
#[test]
fn datagrams_return_to_their_senders() {
    let (first, port) = socket_and_port();
    let (second, _) = socket_and_port();
    let machine = Server::echo(&["--smp=1", &format!("--port=udp:{port}:7")], 1);
    let stream = connect_and_greet(machine.port);
    for number in 0..10_u8 {
        first.send_to(&[number], (Ipv4Addr::LOCALHOST, port)).expect("sent");
        second.send_to(&[number + 100], (Ipv4Addr::LOCALHOST, port)).expect("sent");
        let mut buffer = [0; 10];
        for (socket, expected) in [(&first, number), (&second, number + 100)] {
            let (received, sender) = socket.recv_from(&mut buffer).expect("the datagram returns");
            assert_eq!((&buffer[..received], sender.port()), (&[expected][..], port));
        }
    }
    drop(stream);
    machine.end("echo: 21 bytes, 0 connections left\n");
}

#[test]
fn udp_port_that_is_in_use_is_named() {
    let (taken, _) = socket_and_port();
    let port = taken.local_addr().expect("an address").port();
    let output = boot(&[&format!("--port=udp:{port}:7")], &["echo"]).output().expect("boot runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("--port: the port {port} of the host cannot be used: ")), "{said}");
    assert_eq!(output.status.code(), Some(64));
}

/// A TCP port and a UDP port may have the same number, here 7.
#[test]
fn ports_are_announced() {
    let (_, udp) = socket_and_port();
    let options = [format!("--port={}:7", free_port()), format!("--port=udp:{udp}:7"), "--smp=1".to_owned()];
    let options = options.each_ref().map(String::as_str);
    let mut boot = Running(boot(&options, &["echo"]).stderr(Stdio::piped()).spawn().expect("boot runs"));
    let said = BufReader::new(boot.0.stderr.take().expect("it is a pipe")).lines().map_while(Result::ok);
    let announced: Vec<String> = said.filter(|line| line.contains("leads to")).take(2).collect();
    assert!(announced[0].ends_with(" leads to port 7 of the machine"), "{announced:?}");
    assert!(announced[1].ends_with(&format!("127.0.0.1:{udp} leads to UDP port 7 of the machine")), "{announced:?}");
}
