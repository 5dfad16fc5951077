//! Returns what peers send, the "hello world" of networks: `cargo run -- --port 7007:7 echo`, and then on the host
//! `nc 127.0.0.1 7007`.
//!
//! Each connection has a G, whose code looks as if it blocked. While it waits for its peer, only the G is parked.
//!
//! `--port N` is the port of the machine (7). With `--connections N` the program ends after N connections, and prints
//! how many bytes it has returned and how many connections are left, which is 0.

#![no_std]
#![cfg_attr(not(test), no_main)]

use core::sync::atomic::{AtomicU64, Ordering};

use kernel::net::{self, NetError, TcpStream};
use kernel::prelude::*;

kernel::main!(main);

/// How many bytes were returned to all peers.
static BYTES: AtomicU64 = AtomicU64::new(0);

/// How long the program waits at its end for the peers to confirm that their connections are closed.
const PATIENCE: Duration = Duration::from_secs(10);

fn main(args: &[&str]) -> i32 {
    programs::serve("echo", args, 7, echo, || {
        let end = now() + PATIENCE;
        while net::usage().connections != 0 && now() < end {
            sleep(Duration::from_millis(1));
        }
        println!("echo: {} bytes, {} connections left", BYTES.load(Ordering::Relaxed), net::usage().connections);
    })
}

/// Returns every byte to the peer, until its end.
fn echo(stream: &TcpStream) -> Result<(), NetError> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => {
                stream.write_all(&buffer[..count])?;
                BYTES.fetch_add(count as u64, Ordering::Relaxed);
            }
        }
    }
}
