//! The workloads in which a client on the host loads a server, which runs on a machine or on the host. For all peers, the
//! client is the program `load` on threads. Our server is the program `httpd`. Those of Go and tokio are in `boot/peers`.
//!
//! These workloads run only with the filter `net`, and only in the settings that measure time. If instructions are
//! counted, the only network is the loopback, and both ends of each connection are in one program: the benchmark.

use core::fmt::Write as _;
use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use boot_protocol::kernel_option::IP;

use super::peers::linux::Linux;
use super::peers::{Cache, Order, go, host, last_lines, machine, timed_out};
use super::setting::{Peer, Setting};
use crate::Error;
use crate::host_program::{self, Started};
use crate::process::Process;
use crate::qemu::{Configuration, Net, Port, Protocol};

/// The filter that selects these workloads.
pub(super) const FILTER: &str = "net";

/// The workloads of the benchmark that this filter selects if instructions are counted. They are listed by name,
/// because the name `skynet_100k` also contains the word `net`.
pub(super) const LOOPBACK: [&str; 5] = ["net_connect", "net_echo", "net_poll_wake", "net_stream", "net_request"];

/// The port on which the servers of machines listen.
const PORT: u16 = 80;

/// The address of the machine, in QEMU's network and on a TAP device. The host has the address `10.0.2.2`.
const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(60);

/// The length in bytes of each body in the workloads [`BULKS`].
const BULK: u32 = 32 << 20;

/// A workload: its name, the path and the options for `load`, and the number of requests to a machine.
type Workload = (&'static str, &'static str, &'static [&'static str], u32);

/// The workloads whose results are a rate of requests and their latencies.
const RATES: [Workload; 3] = [
    ("net_http_1", "/", &["--connections", "1"], 2_000),
    ("net_http_32", "/", &["--connections", "32"], 8_000),
    // QEMU accepts connections of the host late, and has room for only two connections that wait.
    ("net_http_connect", "/", &["--connections", "2", "--close"], 1_000),
];

/// The workloads with [`BULK`] bytes in each answer, or in each request.
const BULKS: [Workload; 2] = [
    ("net_http_download", "/zeros/33554432", &["--connections", "1"], 3),
    ("net_http_upload", "/discard", &["--connections", "1", "--body", "33554432"], 3),
];

/// The workload that runs a second time at half of its measured rate, for the latencies at this rate.
const HALVED: &str = "net_http_32";

/// A server on the host gets this many times the requests that a server on a machine gets.
const NATIVE: u32 = 10;

/// A server that can be started, and the client.
#[derive(Debug)]
pub struct Server {
    client: PathBuf,
    place: Place,
}

/// Where a server runs.
#[derive(Debug)]
enum Place {
    /// On our kernel: its ELF file.
    Kernel(PathBuf),
    /// On Linux, on a machine.
    Linux(Linux),
    /// On the host: a program, and its arguments before the port.
    Host(PathBuf, &'static [&'static str]),
}

/// A server that listens. It ends when this value is dropped.
#[derive(Debug)]
struct Running {
    _machine: Option<Process>,
    _program: Option<Started>,
    /// The address and the port at which the host reaches the server.
    address: SocketAddrV4,
    /// The line in which the server identifies itself. Ours has none.
    identity: String,
}

impl Server {
    /// Gets the server of a peer for a setting, and the client. Downloads and builds what is missing. Returns `None` if
    /// the peer has no server.
    ///
    /// # Errors
    ///
    /// A message that says what is missing and what the user can do about it.
    pub(super) fn get(peer: Peer, setting: Setting, cache: &Cache) -> Result<Option<Self>, Error> {
        let place = match (peer, setting) {
            (Peer::Ours, Setting::Native) => Place::Host(host::build_program("httpd")?, &["--port"]),
            (Peer::Ours, _) => Place::Kernel(machine::build("httpd")?),
            (Peer::Go, Setting::Native) => Place::Host(go::build(cache)?, &["serve"]),
            (Peer::Go, _) => Place::Linux(Linux::get(cache, go::build(cache)?)?),
            (Peer::Tokio, _) => Place::Host(host::build_peers()?, &["serve"]),
            _ => return Ok(None),
        };
        Ok(Some(Self { client: host::build_program("load")?, place }))
    }

    /// Starts the server, loads it, and ends it. Returns the results as a benchmark prints them, and, if a load has
    /// failed, the reason.
    ///
    /// # Errors
    ///
    /// If the server or the client cannot be started.
    pub(super) fn run(&self, order: &Order<'_>) -> Result<(String, Option<String>), Error> {
        let server = self.start(order)?;
        let ours = concat!("gmp-sched ", env!("CARGO_PKG_VERSION"), ", its program httpd");
        let mut results = format!("{}\n", if server.identity.is_empty() { ours } else { &server.identity });
        for (workload, is_bulk) in RATES.map(|rate| (rate, false)).into_iter().chain(BULKS.map(|bulk| (bulk, true))) {
            let name = workload.0;
            let [rate, median, high] = match self.load(order, server.address, workload, None)? {
                Ok(measured) => measured,
                Err(reason) => return Ok((results, Some(reason))),
            };
            // Writing to a string cannot fail.
            let mut report = |suffix: &str, value: f64, unit: &str| {
                let _ = writeln!(results, "bench {name}{suffix} procs={} {value:.1} {unit}", order.procs);
            };
            if is_bulk {
                report("", f64::from(BULK >> 20) / (median / 1e6), "MiB/s");
                continue;
            }
            report("", rate, "requests/s");
            report("_p50", median, "us");
            report("_p99", high, "us");
            if name == HALVED {
                match self.load(order, server.address, workload, Some(rate / 2.0))? {
                    Ok([_, median, high]) => {
                        report("_half_p50", median, "us");
                        report("_half_p99", high, "us");
                    }
                    Err(reason) => return Ok((results, Some(reason))),
                }
            }
        }
        Ok((results + "bench done\n", None))
    }

    /// Loads a server with requests at this rate or, if `rate` is `None`, as fast as possible. Returns the measured rate,
    /// and the median and the 99th percentile of the latencies in microseconds, or why the client has failed.
    fn load(
        &self,
        order: &Order<'_>,
        address: SocketAddrV4,
        (name, path, options, requests): Workload,
        rate: Option<f64>,
    ) -> Result<Result<[f64; 3], String>, Error> {
        let factor = if order.setting == Setting::Native { NATIVE } else { 1 };
        let mut command = Command::new(&self.client);
        command.arg(format!("http://{address}{path}")).args(options);
        command.args(["--requests", &(requests * factor).to_string()]).stderr(Stdio::piped());
        if let Some(rate) = rate {
            command.args(["--rate", &format!("{:.0}", rate.max(1.0))]);
        }
        let cannot = |error| Error::Build(format!("`{}` cannot be run: {error}", self.client.display()));
        let ended = host_program::run(command, Some(order.limit)).map_err(cannot)?;
        Ok(match ended.status {
            None => Err(timed_out(order.limit)),
            Some(status) if !status.success() => Err(format!("{name}{}", last_lines(&ended.errors))),
            Some(_) => {
                parse(&ended.output).ok_or_else(|| format!("{name} printed no rate{}", last_lines(&ended.output)))
            }
        })
    }

    /// Starts the server, and waits until it listens.
    fn start(&self, order: &Order<'_>) -> Result<Running, Error> {
        let port = free_port()?;
        let machine = machine::configuration(order.setting);
        // The machine has one network, and the host reaches the server through it.
        let (machine, address) = match (&self.place, order.tap) {
            (Place::Host(..), _) => (machine, SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)),
            (_, None) => {
                let ports = vec![Port { protocol: Protocol::Tcp, host: port, guest: PORT }];
                (Configuration { net: Net::User, ports, ..machine }, SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
            }
            (_, Some(name)) => {
                let kernel_options = vec![format!("{IP}={MACHINE}/24")];
                let machine = Configuration { net: Net::Tap(name.to_owned()), kernel_options, ..machine };
                (machine, SocketAddrV4::new(MACHINE, PORT))
            }
        };
        machine.check_network()?;
        let (machine, program, output) = match &self.place {
            Place::Kernel(elf) => {
                let (machine, output, _input) = Process::start(&machine.qemu_arguments(elf, &[])?, Vec::new())?;
                (Some(machine), None, output)
            }
            Place::Linux(linux) => {
                let (machine, output) = linux.serve(&machine, &format!("serve :{PORT}"))?;
                (Some(machine), None, output)
            }
            Place::Host(program, words) => {
                // Each server has as many threads, or Ps, as it may use CPUs. So `taskset` also sets the number of Ps.
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", &format!("0-{}", order.procs - 1)]).arg(program).args(*words);
                let takes_address = words == &["serve"];
                command.arg(if takes_address { format!("{}:{port}", Ipv4Addr::LOCALHOST) } else { port.to_string() });
                let cannot =
                    |error| Error::Build(format!("`{}` cannot be run by `taskset`: {error}", program.display()));
                let (program, output) = host_program::start(command).map_err(cannot)?;
                (None, Some(program), output)
            }
        };
        let identity = wait_until_it_listens(output)?;
        Ok(Running { _machine: machine, _program: program, address, identity })
    }
}

/// Returns a port of the host that nothing uses.
fn free_port() -> Result<u16, Error> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| Error::Usage(format!("there is no free port: {error}")))
}

/// Waits until a server has printed a line such as `httpd: port 80`. Returns the line before it, if there is one. A
/// thread then reads the output until it ends, so that the pipe is never full and the server never waits.
fn wait_until_it_listens(output: ChildStdout) -> Result<String, Error> {
    let (sender, listens) = mpsc::channel();
    thread::spawn(move || {
        let (mut output, mut before) = (BufReader::new(output), String::new());
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|count| count != 0) {
            let text = String::from_utf8_lossy(&line).trim().to_owned();
            if text.contains(": port ") {
                // The send fails if the receiver has been dropped, because the time is over.
                let _ = sender.send(Ok(before));
                return drop(output.read_to_end(&mut line));
            }
            before = text;
            line.clear();
        }
        let _ = sender.send(Err(before));
    });
    let failed = |why: &str| Error::Qemu(format!("the server does not listen: {why}"));
    listens.recv_timeout(START).map_err(|error| failed(&error.to_string()))?.map_err(|last| failed(&last))
}

/// Parses what `load` prints. Returns the rate, and the median and the 99th percentile of latencies in microseconds.
fn parse(printed: &str) -> Option<[f64; 3]> {
    let rate = printed.lines().find_map(|line| line.strip_suffix(" requests/s")?.rsplit(' ').next()?.parse().ok())?;
    let latency = |name: &str| microseconds(printed.split_once(name)?.1.split([' ', ',']).next()?);
    Some([rate, latency("p50 ")?, latency("p99 ")?])
}

/// Parses a duration as Rust writes it, such as `1.2ms`.
fn microseconds(text: &str) -> Option<f64> {
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.')?;
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "ns" => 1e-3,
        "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_latencies_of_the_client_are_parsed() {
        let printed = "load: 10000 requests over 32 connections in 0.44 s: 22614 requests/s\n\
                       latency: p50 901.5µs, p99 6.7ms, longest 1.1s\n    < 1ms     2557 ###\n";
        assert_eq!(parse(printed), Some([22_614.0, 901.5, 6_700.0]));
        assert_eq!(parse("load: nothing"), None);
        assert_eq!([microseconds("5ns"), microseconds("2s"), microseconds("2")], [Some(0.005), Some(2e6), None]);
    }

    #[test]
    fn bulk_is_as_long_as_the_words_say() {
        assert!(BULKS[0].1.ends_with(&BULK.to_string()) && BULKS[1].2.contains(&&*BULK.to_string()));
    }
}
