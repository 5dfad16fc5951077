//! Tests of the network: programs on the host talk to a program on the machine, through QEMU's user network.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use sha2::{Digest as _, Sha256};

mod breaks;
mod capture;
mod chat;
mod httpd;
mod interrupt;
mod load;
mod names;
mod namespaces;
mod request;
mod server;
mod tap;
mod udp;

use server::{Server, boot, connect, free_port};

/// Sends random bytes, and compares the hash of what returns with that of what was sent.
fn send_and_compare(stream: TcpStream, bytes: usize) {
    let mut content = vec![0; bytes];
    fastrand::fill(&mut content);
    let sent = Sha256::digest(&content);
    let mut writer = stream.try_clone().expect("another handle");
    let writes = thread::spawn(move || {
        writer.write_all(&content).expect("the machine reads");
        writer.shutdown(Shutdown::Write).expect("the end");
    });
    let mut hash = Sha256::new();
    let (mut buffer, mut received) = ([0; 10_000], 0);
    let mut stream = stream;
    loop {
        match stream.read(&mut buffer).expect("the machine writes") {
            0 => break,
            count => {
                hash.update(&buffer[..count]);
                received += count;
            }
        }
    }
    writes.join().expect("the writer");
    assert_eq!(received, bytes);
    assert_eq!(hash.finalize(), sent);
}

fn returns_every_byte(cpus: &str) {
    let machine = Server::echo(&["--smp", cpus], 4);
    send_and_compare(machine.connect(), 1 << 20);
    let streams = [0, 1, 300_000].map(|bytes| (machine.connect(), bytes));
    let clients = streams.map(|(stream, bytes)| thread::spawn(move || send_and_compare(stream, bytes)));
    clients.into_iter().for_each(|client| client.join().expect("a client"));
    machine.end(&format!("echo: {} bytes, 0 connections left\n", (1 << 20) + 300_001));
}

#[test]
fn every_byte_returns_on_one_cpu() {
    returns_every_byte("1");
}

#[test]
fn every_byte_returns_on_two_cpus() {
    returns_every_byte("2");
}

/// Connects, and waits until the machine has accepted the connection. QEMU's listen queue has room for one connection.
/// If the queue is full, the host waits for a second before it tries to connect again.
fn connect_and_greet(port: u16) -> TcpStream {
    let mut stream = connect(port);
    stream.write_all(b"x").expect("the machine listens");
    let mut answer = [0; 2];
    assert_eq!(stream.read(&mut answer).expect("an answer"), 1);
    stream
}

/// About half of the clients leave data unread, so their connections are reset.
#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let machine = Server::echo(&["--smp=2"], 101);
    for round in 0..10 {
        let mut streams: Vec<_> = (0..10).map(|_| connect_and_greet(machine.port)).collect();
        for stream in streams.iter_mut().skip(round) {
            stream.write_all(b"nobody reads the answer").expect("the machine listens");
        }
    }
    drop(connect_and_greet(machine.port));
    let mut output = machine.output;
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(rest.ends_with(" bytes, 0 connections left\n"), "{rest}");
    let mut boot = machine.boot;
    assert_eq!(boot.0.wait().expect("boot ends").code(), Some(0));
}

/// The machine has no DHCP, and finds its address in the options of the kernel.
#[test]
fn address_may_be_an_option() {
    let options = ["--smp=1", "--kernel-option=ip=10.0.2.15/24", "--kernel-option=gateway=10.0.2.2"];
    let machine = Server::echo(&options, 1);
    send_and_compare(machine.connect(), 10_000);
    machine.end("echo: 10000 bytes, 0 connections left\n");
}

/// Serves one request on the host, with an answer of this many bytes. Returns the port.
pub(crate) fn serve_once(bytes: usize) -> u16 {
    serve_once_at(Ipv4Addr::LOCALHOST.into(), bytes)
}

/// Does the same as [`serve_once`], at this address of the host.
fn serve_once_at(address: IpAddr, bytes: usize) -> u16 {
    let listener = TcpListener::bind((address, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("a request");
        assert_eq!(line, "GET /page HTTP/1.0\r\n");
        write!(stream, "HTTP/1.0 200 OK\r\nX: y\r\n\r\n{}", "0123456789".repeat(bytes / 10)).expect("a reader");
        // The client may still be sending. If the connection were closed now, it would be reset, and the client would
        // lose the answer.
        stream.shutdown(Shutdown::Write).expect("the end");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    port
}

#[test]
fn machine_connects_to_the_host() {
    let (page, closed) = (serve_once(100_000), free_port());
    let fetch = |url: &str| {
        let output = boot(&["--smp=2", "--net=user"], &["fetch", url]).output().expect("boot runs");
        (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, text, said) = fetch(&format!("http://10.0.2.2:{page}/page"));
    assert_eq!(status, Some(0), "{said}");
    assert!(text == "0123456789".repeat(10_000).as_bytes(), "{} bytes", text.len());
    for (url, mistake) in [
        (&*format!("http://10.0.2.2:{closed}/"), "connection refused"),
        // The machine itself, on which nobody listens.
        ("http://localhost:9/", "connection refused"),
        ("http://a..b/", "not an IP address with a port"),
        ("https://10.0.2.2/", "there is no TLS, so only http is possible"),
    ] {
        let (status, text, said) = fetch(url);
        assert!(status == Some(1) && said.contains(&format!("fetch: {url}: {mistake}\n")) && text.is_empty(), "{said}");
    }
}

/// In QEMU's network, the host's `::1` has the address fec0::2, and a router announces the prefix fec0::/64.
#[test]
fn machine_connects_to_the_host_over_ipv6() {
    let fetch = |options: &[&str]| {
        let url = format!("http://[fec0::2]:{}/page", serve_once_at(Ipv6Addr::LOCALHOST.into(), 100_000));
        let output = boot(&[&["--smp=2", "--net=user"], options].concat(), &["fetch", &url]).output();
        let output = output.expect("boot runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == "0123456789".repeat(10_000).as_bytes(), "{} bytes", output.stdout.len());
    };
    fetch(&[]);
    fetch(&["--kernel-option=ip=fec0::77/64", "--kernel-option=gateway=fe80::2"]);
}

#[test]
fn machine_without_a_network_says_so() {
    let output = boot(&["--smp=1"], &["echo"]).output().expect("boot runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("echo: the machine has no network device: start it with `boot --net user`"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn port_that_is_in_use_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    let output = boot(&[&format!("--port={port}:7")], &["echo"]).output().expect("boot runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("--port: the port {port} of the host cannot be used: ")), "{said}");
    assert_eq!(output.status.code(), Some(64));
}

/// The connections for which the process has no socket left wait until others have ended.
#[test]
fn server_on_the_host_survives_more_clients_than_it_may_have_sockets() {
    const CLIENTS: usize = 60;
    let echo = Server::on_host("echo", CLIENTS);
    // `cargo run` has replaced itself with the program (`exec`), so the child process is the program.
    let process = Pid::from_child(&echo.boot.0);
    prlimit(Some(process), Resource::Nofile, Rlimit { current: Some(40), maximum: Some(40) }).expect("a limit");
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| echo.connect()).collect();
    for client in clients {
        send_and_compare(client, 17);
    }
    echo.end(&format!("echo: {} bytes, 0 connections left\n", 17 * CLIENTS));
}

#[test]
fn every_byte_returns_on_the_host() {
    let echo = Server::on_host("echo", 2);
    for bytes in [1 << 20, 17] {
        send_and_compare(echo.connect(), bytes);
    }
    echo.end(&format!("echo: {} bytes, 0 connections left\n", (1 << 20) + 17));
}
