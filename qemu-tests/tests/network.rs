//! Tests of the network: programs on the host talk to a program on the machine, through QEMU's user network.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// How long the machine may take to answer, on a busy host.
const PATIENCE: Duration = Duration::from_secs(100);

/// A machine that runs the program `echo`.
struct Echo {
    port: u16,
    boot: Child,
    output: BufReader<ChildStdout>,
}

/// Returns a port of the host that nobody used just now.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}

fn boot(options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.args(["--release", "--timeout", "180"]).args(options).args(program);
    command
}

impl Echo {
    /// Starts a machine whose program ends after this number of connections.
    fn start(options: &[&str], connections: usize) -> Self {
        let port = free_port();
        let forward = format!("--port={port}:7");
        let options = [&[forward.as_str()], options].concat();
        let connections = connections.to_string();
        let mut command = boot(&options, &["echo", "--connections", &connections]);
        let mut boot = command.stdout(Stdio::piped()).spawn().expect("boot runs");
        let mut output = BufReader::new(boot.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the machine prints a line");
        assert_eq!(line, "echo: port 7\n");
        Self { port, boot, output }
    }

    fn connect(&self) -> TcpStream {
        connect(self.port)
    }

    /// Checks that the program ends, and what it says in the end.
    fn end(mut self, said: &str) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, said);
        assert_eq!(self.boot.wait().expect("boot ends").code(), Some(0));
    }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("QEMU listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
    stream
}

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
    let machine = Echo::start(&["--smp", cpus], 4);
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

/// Half of the clients leave data unread, so their connections are reset.
#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let machine = Echo::start(&["--smp=2"], 101);
    for round in 0..10 {
        let mut streams: Vec<_> = (0..10).map(|_| machine.connect()).collect();
        for stream in streams.iter_mut().skip(round) {
            stream.write_all(b"nobody reads the answer").expect("the machine listens");
        }
    }
    let mut last = machine.connect();
    last.write_all(b"x").expect("the machine listens");
    assert_eq!(last.read(&mut [0; 2]).expect("an answer"), 1);
    drop(last);
    let (port, mut output) = (machine.port, machine.output);
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(rest.ends_with(" bytes, 0 connections left\n"), "{rest}");
    let mut boot = machine.boot;
    assert_eq!(boot.wait().expect("boot ends").code(), Some(0));
    // The port is free again.
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
        assert!(Instant::now() < end, "somebody still listens");
    }
}

/// The machine has no DHCP, and finds its address in the options of the kernel.
#[test]
fn address_may_be_an_option() {
    let options = ["--smp=1", "--kernel-option=ip=10.0.2.15/24", "--kernel-option=gateway=10.0.2.2"];
    let machine = Echo::start(&options, 1);
    send_and_compare(machine.connect(), 10_000);
    machine.end("echo: 10000 bytes, 0 connections left\n");
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

/// The same program on threads of the host.
#[test]
fn every_byte_returns_on_the_host() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let port = free_port();
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--manifest-path", manifest, "--package", "programs", "--bin", "echo", "--"]);
    command.args(["--port", &port.to_string(), "--connections", "2"]).stdout(Stdio::piped());
    let mut boot = command.spawn().expect("cargo runs");
    let mut output = BufReader::new(boot.stdout.take().expect("it is a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("the program prints a line");
    assert_eq!(line, format!("echo: port {port}\n"));
    let echo = Echo { port, boot, output };
    for bytes in [1 << 20, 17] {
        send_and_compare(echo.connect(), bytes);
    }
    echo.end(&format!("echo: {} bytes, 0 connections left\n", (1 << 20) + 17));
}
