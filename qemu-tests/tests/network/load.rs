//! Tests of the program `load` on the machine, with a web server on the host.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{boot, free_port};

/// The numbers of requests and of connections that the server on the host has counted.
#[derive(Default)]
struct Counted {
    requests: AtomicUsize,
    connections: AtomicUsize,
}

/// Starts a server on the host that closes each connection after `requests_per_connection` requests. Returns its port and
/// its counters.
fn serve(requests_per_connection: usize) -> (u16, Arc<Counted>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let counted = Arc::new(Counted::default());
    let of_server = counted.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counted = of_server.clone();
            counted.connections.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || answer(stream, requests_per_connection, &counted));
        }
    });
    (port, counted)
}

fn answer(mut stream: TcpStream, requests: usize, counted: &Counted) {
    let mut lines = BufReader::new(stream.try_clone().expect("another handle")).lines().map_while(Result::ok);
    for number in 1..=requests {
        let Some(first) = lines.next() else { return };
        assert_eq!(first, "GET /page HTTP/1.1");
        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        counted.requests.fetch_add(1, Ordering::Relaxed);
        let last = if number == requests { "Connection: close\r\n" } else { "" };
        // The body is longer than the buffer of the client.
        let body = "x".repeat(20_000);
        let length = body.len();
        write!(stream, "HTTP/1.1 200 OK\r\n{last}Content-Length: {length}\r\n\r\n{body}").expect("a reader");
    }
}

#[test]
fn all_requests_are_answered_over_few_connections() {
    let (port, counted) = serve(20);
    let url = format!("http://10.0.2.2:{port}/page");
    let program = ["load", &url, "--connections", "4", "--requests", "200"];
    let output = boot(&["--smp=2", "--net=user"], &program).output().expect("boot runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("load: 200 requests over 4 connections in "), "{text}");
    assert!(text.contains(" requests/s\nlatency: p50 ") && text.contains("####"), "{text}");
    // The server also counts the first request of each of the four connections, which the program does not measure.
    assert_eq!(counted.requests.load(Ordering::Relaxed), 204);
    let connections = counted.connections.load(Ordering::Relaxed);
    assert!((11..=14).contains(&connections), "{connections}");
}

#[test]
fn server_that_does_not_answer_is_an_error() {
    let url = format!("http://10.0.2.2:{}/page", free_port());
    let output = boot(&["--smp=1", "--net=user"], &["load", &url]).output().expect("boot runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("load: connection refused"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
