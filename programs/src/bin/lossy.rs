//! What TCP makes of a bad network: two simulated hosts, one of which returns what the other one sends, while more and
//! more frames are lost. `cargo run -- --icount lossy` takes a moment, because with `--icount` a pause takes no time. Each
//! run with the same seed prints the same: `cargo run -- --icount lossy 7`.

#![no_std]
#![cfg_attr(not(test), no_main)]

use kernel::net::NetError;
use kernel::net::sim::{self, Conditions, Host, TcpListener, TcpStream, Totals};
use kernel::platform::Limit;
use kernel::prelude::*;

kernel::main!(main);

/// How many bytes are sent.
const BYTES: usize = 50_000;

fn main(args: &[&str]) -> i32 {
    let seed = args.first().map_or(Ok(1), |seed| seed.parse());
    let Ok(seed) = seed else {
        eprintln!("usage: lossy [SEED]");
        return 1;
    };
    println!("{BYTES} bytes to a host 10 ms away and back, at 10 Mbit/s");
    for percent in [0, 1, 5, 20] {
        let (result, totals) = run(percent, seed);
        let result = result.map_or_else(|error| error.to_string(), |took| format!("{:>6} ms", took.as_millis()));
        let (lost, sent, digest) = (totals.lost, totals.sent, totals.digest);
        println!("{percent:>2} % lost: {result}, {lost} of {sent} frames were lost, digest {digest:016x}");
    }
    0
}

/// Makes a network and two hosts, which exchange bytes. Returns how long that took, and what happened to the frames.
fn run(percent: u32, seed: u64) -> (Result<Duration, NetError>, Totals) {
    let network = sim::network(seed);
    let (loss, delay, rate) = (f64::from(percent) / 100.0, Duration::from_millis(10), Some(10_000_000));
    network.set_conditions(Conditions { loss, delay, rate, ..Conditions::default() });
    let hosts = [1, 2].map(|last| network.host([10, 0, 0, last]));
    let took = match hosts {
        [Ok(server), Ok(client)] => echo(server, client),
        [Err(error), _] | [_, Err(error)] => Err(error),
    };
    (took, network.totals())
}

/// Accepts one connection, and sends every byte back to the peer, until the end of the stream.
fn serve(listener: &TcpListener) -> Result<(), NetError> {
    let (stream, _) = listener.accept()?;
    let mut buffer = [0; 4_096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

/// Sends bytes, and reads them back. Returns how long that took.
fn echo(server: &'static Host, client: &'static Host) -> Result<Duration, NetError> {
    let listener = TcpListener::bind_on(server, "10.0.0.1:7")?;
    let serves = go(move || serve(&listener));
    let begin = now();
    let stream = Arc::new(TcpStream::connect_on(client, "10.0.0.1:7", Limit::NONE)?);
    let sent: Arc<[u8]> = (0..BYTES).map(|at| (at / 7) as u8).collect();
    let (writer, data) = (stream.clone(), sent.clone());
    let writes = go(move || writer.write_all(&data));
    let (mut received, mut buffer) = (Vec::new(), [0; 4_096]);
    while received.len() < BYTES {
        match stream.read(&mut buffer)? {
            0 => return Err(NetError::ConnectionReset),
            count => received.extend_from_slice(&buffer[..count]),
        }
    }
    let took = now() - begin;
    assert!(*received == *sent, "TCP keeps the data whole");
    writes.join().expect("no panic")?;
    drop(stream);
    serves.join().expect("no panic")?;
    Ok(took)
}
