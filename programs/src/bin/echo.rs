//! Returns what peers send, the "hello world" of networks: `cargo run -- --port 7007:7 echo`, and then on the host
//! `nc 127.0.0.1 7007`.
//!
//! Each connection has a G, whose code looks as if it blocked. While it waits for its peer, only the G is parked.
//! One more G returns datagrams: `cargo run -- --port udp:7007:7 echo`, and then `nc -u 127.0.0.1 7007`.
//!
//! `--port N` is the port of the machine (default 7). With `--connections N` the program ends after N connections, and
//! prints how many bytes it has returned and how many connections are left, which is 0.

#![no_std]
#![cfg_attr(not(test), no_main)]

use core::sync::atomic::{AtomicU64, Ordering};

use kernel::interrupted;
use kernel::net::{self, MAX_DATAGRAM, NetError, TcpStream, UdpSocket};
use kernel::prelude::*;
use programs::ServerOptions;

kernel::main!(main);

/// How many bytes were returned to all peers.
static BYTES: AtomicU64 = AtomicU64::new(0);

/// How long the program waits at its end for the peers to confirm that their connections are closed.
const PATIENCE: Duration = Duration::from_secs(10);

fn main(args: &[&str]) -> i32 {
    let Some(options) = ServerOptions::parse("echo", args, 7) else { return 1 };
    match UdpSocket::bind(("0.0.0.0", options.port)) {
        Ok(socket) => go(move || echo_datagrams(&socket)).detach(),
        Err(error) => {
            eprintln!("echo: {error}");
            return 1;
        }
    }
    programs::serve("echo", options, echo, || {
        let end = now() + PATIENCE;
        while net::usage().connections != 0 && now() < end {
            sleep(Duration::from_millis(1));
        }
        println!("echo: {} bytes, {} connections left", BYTES.load(Ordering::Relaxed), net::usage().connections);
    })
}

/// Sends every byte back to the peer, until the end of the stream.
fn echo(stream: &TcpStream) -> Result<(), NetError> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match stream.read_until(&mut buffer, interrupted())? {
            0 => return Ok(()),
            count => {
                stream.write_all(&buffer[..count])?;
                BYTES.fetch_add(count as u64, Ordering::Relaxed);
            }
        }
    }
}

/// Returns every datagram to its sender, for ever.
fn echo_datagrams(socket: &UdpSocket) -> Result<(), NetError> {
    let mut buffer = [0; MAX_DATAGRAM];
    loop {
        let (count, sender) = socket.recv_from(&mut buffer)?;
        // Counted before the datagram is returned, because its peer may then end the program, which prints the count.
        BYTES.fetch_add(count as u64, Ordering::Relaxed);
        // Datagrams may be lost anyway, so one that cannot be returned is ignored.
        if socket.send_to(&buffer[..count], sender).is_err() {
            BYTES.fetch_sub(count as u64, Ordering::Relaxed);
        }
    }
}
