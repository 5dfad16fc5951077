//! Tests the lookup of names. QEMU's network has a name server, which asks the name server of the host. The test runs
//! in namespaces of Linux, in which the host has only its loopback and a thread of the test is the host's name server.
//! So the test needs no other computer.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;

use super::namespaces::run_inside;
use super::{boot, serve_once};

#[test]
#[ignore = "needs the rights to make namespaces of Linux, which not every system gives to its users"]
fn name_is_looked_up_and_its_host_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let servers = folder.path().join("resolv.conf");
    fs::write(&servers, "nameserver 127.0.0.1\n").expect("written");
    let script = format!("ip link set lo up && mount --bind \"{}\" /etc/resolv.conf", servers.display());
    if !run_inside("names::name_is_looked_up_and_its_host_answers", &script) {
        return;
    }
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).expect("the port of names");
    let questions = thread::spawn(move || answer(&server, Ipv4Addr::new(10, 0, 2, 2)));
    let url = format!("http://www.example.test:{}/page", serve_once(10));
    let output = boot(&["--smp=2", "--net=user"], &["fetch", &url]).output().expect("boot runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"0123456789");
    assert_eq!(questions.join().expect("a name server"), b"\x03www\x07example\x04test\0\0\x01\0\x01");
}

/// Receives a question for an address, answers it, and returns the question: the name, the type and the class.
fn answer(server: &UdpSocket, address: Ipv4Addr) -> Vec<u8> {
    let mut buffer = [0; 512];
    let (bytes, client) = server.recv_from(&mut buffer).expect("a question");
    // RFC 1035, 4.1: the identifier, the flags of an answer without an error, one question, and one answer.
    let mut message = [&buffer[..2], b"\x81\x80\0\x01\0\x01\0\0\0\0", &buffer[12..bytes]].concat();
    // A pointer to the name at byte 12 of the message; an IPv4 address (type A, class IN), valid for a minute; its
    // length.
    message.extend(*b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04");
    message.extend(address.octets());
    server.send_to(&message, client).expect("sent");
    buffer[12..bytes].to_vec()
}
