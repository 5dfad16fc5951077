//! Workloads of the network: both ends of each connection are on this computer. On the machine this is the loopback of
//! `kernel-net`, which needs no device.

use core::sync::atomic::Ordering;

use kernel::clock::now;
use kernel::net::{NetError, TcpListener, TcpStream};
use kernel::prelude::*;
use programs::httpd;

use crate::platform::memory_in_use;
use crate::shared::report::{measure, report};
use crate::{BEGUN, EVENTS, measure_events};

/// Sends what arrives back to the peer, until the end of the stream.
fn echo(stream: &TcpStream) -> Result<(), NetError> {
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

/// Makes a connection. Returns the end that has connected, and the end that was accepted.
fn connect(listener: &TcpListener) -> Result<[TcpStream; 2], NetError> {
    let near = TcpStream::connect(listener.local_addr())?;
    Ok([near, listener.accept()?.0])
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

/// Measures the life of a connection: one end connects, the other accepts, and both are dropped.
pub(crate) fn connections() {
    const CONNECTIONS: u64 = 1_000;
    let listener = listen();
    // The first use of the network starts its G.
    drop(connect(&listener));
    measure("net_connect", CONNECTIONS, || {
        for _ in 0..CONNECTIONS {
            drop(connect(&listener).expect("nothing else uses the port"));
        }
    });
}

/// Measures a round trip of 64 bytes beside 1, 100, 1,000 and 10,000 idle connections, each with a G that waits for
/// data. Also measures the memory of an idle connection: both of its ends, and the G. Ends earlier if there is no room
/// for as many connections.
pub(crate) fn echoes() {
    const ROUNDS: u64 = 1_000;
    let listener = listen();
    let echoes = Arc::new(WaitGroup::new());
    let Ok(near) = serve(&listener, &echoes) else { return };
    let mut idle = Vec::new();
    let before = memory_in_use();
    for count in [1, 100, 1_000, 10_000] {
        while idle.len() < count {
            match serve(&listener, &echoes) {
                Ok(stream) => idle.push(stream),
                Err(error) => {
                    eprintln!("bench: {} connections: {error}", idle.len());
                    return;
                }
            }
        }
        // Until the end of this sleep, the ends of the new connections confirm to each other what they have received.
        sleep(Duration::from_millis(100));
        measure(&format!("net_echo_{count}"), ROUNDS, || {
            (0..ROUNDS).for_each(|_| round_trip(&near).expect("the other end answers"));
        });
    }
    if let (Some(before), Some(after)) = (before, memory_in_use()) {
        report("net_connection", after.saturating_sub(before) as f64 / idle.len() as f64, "B");
    }
    // Waits until the Gs at the other ends have ended, too, because they would disturb the next workload.
    drop((near, idle));
    echoes.wait();
}

/// Makes a connection to a G that echoes, and uses it once. Afterwards the G waits, and the buffers have been in use.
fn serve(listener: &TcpListener, echoes: &Arc<WaitGroup>) -> Result<TcpStream, NetError> {
    let [near, far] = connect(listener)?;
    echoes.go(move || echo(&far).unwrap_or(()));
    round_trip(&near)?;
    Ok(near)
}

/// Sends 64 bytes, and waits until they have returned.
fn round_trip(stream: &TcpStream) -> Result<(), NetError> {
    let (sent, mut received) = ([7; 64], [0; 64]);
    stream.write_all(&sent)?;
    let mut rest = &mut received[..];
    while !rest.is_empty() {
        let count = stream.read(rest)?;
        rest = &mut rest[count..];
    }
    Ok(())
}

/// Measures the time for each KiB of a long stream, which is written in parts of 64 KiB.
pub(crate) fn stream() {
    const PART: usize = 64 * 1024;
    const PARTS: u64 = 256;
    let [near, far] = connect(&listen()).expect("a connection");
    let reading = go(move || {
        let (mut part, mut total) = (vec![0; PART], 0);
        loop {
            match far.read(&mut part).expect("the other end writes") {
                0 => return total,
                count => total += count,
            }
        }
    });
    measure("net_stream_1k", PARTS * PART as u64 / 1024, || {
        let part = vec![7; PART];
        (0..PARTS).for_each(|_| near.write_all(&part).expect("the other end reads"));
        drop(near);
        assert_eq!(reading.join().expect("no panic") as u64, PARTS * PART as u64);
    });
}

/// Measures the time from a write at one end of a connection until the G that reads at the other end runs. In between,
/// the G that serves the loopback wakes and readies it.
pub(crate) fn wakes() {
    let [near, far] = connect(&listen()).expect("a connection");
    near.set_nodelay(true).expect("an open connection");
    measure_events("net_poll_wake", || {
        let reading = go(move || {
            let read = |_| {
                far.read(&mut [0]).expect("the other end writes");
                now() - BEGUN.swap(0, Ordering::Relaxed)
            };
            (0..EVENTS).map(read).sum()
        });
        for _ in 0..EVENTS {
            // The G `reading` begins to wait during this sleep. On a busy host it may take longer until it has the last byte.
            sleep(Duration::from_micros(100));
            while BEGUN.load(Ordering::Relaxed) != 0 {
                sleep(Duration::from_micros(100));
            }
            BEGUN.store(now(), Ordering::Relaxed);
            near.write_all(b"x").expect("the other end reads");
        }
        reading.join().expect("no panic")
    });
}

/// Measures a request to the server of the program `httpd`, over a connection that is kept, and over a connection of its
/// own. The client is as simple as that of the Go program: a write, and reads until the answer is complete.
pub(crate) fn requests() {
    const REQUESTS: u64 = 1_000;
    let listener = listen();
    let address = listener.local_addr();
    let server = go(move || {
        for _ in 0..=REQUESTS {
            let (stream, _) = listener.accept().expect("the client connects");
            go(move || httpd::converse(&stream)).detach();
        }
    });
    let dial = || TcpStream::connect(address).expect("the server accepts");
    let stream = dial();
    let request = "GET / HTTP/1.1\r\nHost: loopback\r\n\r\n";
    ask(&stream, request);
    measure("net_request", REQUESTS, || (0..REQUESTS).for_each(|_| ask(&stream, request)));
    drop(stream);
    measure("net_request_connect", REQUESTS, || {
        for _ in 0..REQUESTS {
            let stream = dial();
            ask(&stream, "GET / HTTP/1.1\r\nHost: loopback\r\nConnection: close\r\n\r\n");
            assert_eq!(stream.read(&mut [0]), Ok(0), "the server ends the connection");
        }
    });
    server.join().expect("no panic");
}

/// Sends a request, and reads the answer until its body is complete.
fn ask(stream: &TcpStream, request: &str) {
    stream.write_all(request.as_bytes()).expect("the server reads");
    let (mut answer, mut filled) = ([0; 1024], 0);
    while !answer[..filled].ends_with(httpd::INDEX.as_bytes()) {
        let count = stream.read(&mut answer[filled..]).expect("the server answers");
        assert_ne!(count, 0, "the answer ends too early");
        filled += count;
    }
}
