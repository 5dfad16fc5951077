//! A server on the machine or on the host, for the tests.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How long the server may take to answer, on a busy host.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);

/// A running server: in most tests `echo`, on the machine.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) boot: Running,
    pub(crate) output: BufReader<ChildStdout>,
}

/// A command that is killed if the test panics, so that the machine does not run until its time-out.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // After the end of the command this has no effect.
        let _ = self.0.kill();
    }
}

/// Returns a port of the host that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}

pub(crate) fn boot(options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
    command.args(["--release", "--timeout", "180"]).args(options).args(program);
    command
}

impl Server {
    /// Starts `echo` on a machine. The program ends after this number of connections.
    pub(crate) fn echo(options: &[&str], connections: usize) -> Self {
        Self::start(options, ("echo", 7), connections)
    }

    pub(crate) fn start(options: &[&str], (program, guest): (&str, u16), connections: usize) -> Self {
        let port = free_port();
        let forward = format!("--port={port}:{guest}");
        let options = [&[forward.as_str()], options].concat();
        let connections = connections.to_string();
        let mut command = boot(&options, &[program, "--connections", &connections]);
        let mut boot = Running(command.stdout(Stdio::piped()).spawn().expect("boot runs"));
        let mut output = BufReader::new(boot.0.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the machine prints a line");
        assert_eq!(line, format!("{program}: port {guest}\n"));
        Self { port, boot, output }
    }

    /// Starts `program` on threads of the host.
    pub(crate) fn on_host(program: &str, connections: usize) -> Self {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let port = free_port();
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--manifest-path", manifest, "--package", "programs", "--bin", program, "--"]);
        command.args(["--port", &port.to_string(), "--connections", &connections.to_string()]);
        let mut boot = Running(command.stdout(Stdio::piped()).spawn().expect("cargo runs"));
        let mut output = BufReader::new(boot.0.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the program prints a line");
        assert_eq!(line, format!("{program}: port {port}\n"));
        Self { port, boot, output }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.port)
    }

    /// Waits until the program ends. Checks that its status is 0, and that the rest of its output is `said`.
    pub(crate) fn end(mut self, said: &str) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, said);
        assert_eq!(self.boot.0.wait().expect("boot ends").code(), Some(0));
    }
}

pub(crate) fn connect(port: u16) -> TcpStream {
    connect_to((Ipv4Addr::LOCALHOST, port))
}

pub(crate) fn connect_to(address: (Ipv4Addr, u16)) -> TcpStream {
    let stream = TcpStream::connect(address).expect("QEMU or the machine listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
    stream
}
