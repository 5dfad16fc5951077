//! Tests of a network device that fails, and of a link that goes down and comes up again.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use boot_protocol::report::Report;

use super::server::{Running, connect, free_port};
use super::{Server, boot, send_and_compare};

/// While a connection is in use, the guest test makes QEMU find errors in a queue of the device several times.
#[test]
fn connection_survives_resets_of_the_device() {
    const TEST: &str = "network::connection_survives_resets_of_the_device";
    let port = free_port();
    let program = [concat!(env!("CARGO_MANIFEST_DIR"), "/guest"), TEST];
    let mut command = boot(&["--smp=2", &format!("--port={port}:7")], &program);
    let mut machine = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("boot runs"));
    let mut lines = BufReader::new(machine.0.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "listening"), "the test has started");
    send_and_compare(connect(port), 200_000);
    assert!(lines.any(|line| Report::parse(&line) == Some(Report::Passed(TEST))));
    machine.0.wait().expect("boot ends");
    let mut said = String::new();
    machine.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(said.contains("the network device has failed: it was reset"), "{said}");
    assert!(!said.contains("it is given up"), "{said}");
}

/// The host sends data while the link is down. TCP sends the lost segments again.
#[test]
fn connection_survives_a_link_that_is_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("monitor");
    let monitor = format!("--qemu-arg=unix:{},server=on,wait=off", socket.display());
    let machine = Server::echo(&["--smp=2", "--qemu-arg=-qmp", &monitor], 1);
    let mut stream = machine.connect();
    for _ in 0..3 {
        let mut answer = [0; 6];
        stream.write_all(b"before").expect("the machine reads");
        stream.read_exact(&mut answer).expect("an answer");
        set_link(&socket, false);
        stream.write_all(b"during").expect("QEMU reads");
        thread::sleep(Duration::from_millis(200));
        set_link(&socket, true);
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"during");
    }
    send_and_compare(stream, 300_000);
    machine.end("echo: 300036 bytes, 0 connections left\n");
}

/// Connects the machine with its network, or disconnects it, by commands to the monitor at `socket`.
fn set_link(socket: &Path, is_up: bool) {
    let mut monitor = UnixStream::connect(socket).expect("QEMU has a monitor");
    let command = format!(r#"{{"execute": "set_link", "arguments": {{"name": "net", "up": {is_up}}}}}"#);
    writeln!(monitor, r#"{{"execute": "qmp_capabilities"}} {command}"#).expect("QEMU reads");
    // QEMU confirms both commands.
    let replies = BufReader::new(monitor).lines().map_while(Result::ok);
    assert_eq!(replies.filter(|line| line.contains(r#""return""#)).take(2).count(), 2);
}
