//! The web server `httpd` on the machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};

use super::Server;

/// Sends `request`, and returns everything that the server sends until it closes the connection.
fn converse(machine: &Server, request: &[u8]) -> String {
    let mut stream = machine.connect();
    stream.write_all(request).expect("the machine listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text until the end");
    answer
}

#[test]
fn pages_are_served() {
    let machine = Server::start(&["--smp=2"], ("httpd", 80), 8);
    let close = "Host: x\r\nConnection: close\r\n\r\n";
    let answer = converse(&machine, format!("GET / HTTP/1.1\r\n{close}").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("<h1>It works</h1>"), "{answer}");
    // Two requests at once, of which the second ends the connection.
    let pipelined = format!("HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /?x HTTP/1.1\r\n{close}");
    let answer = converse(&machine, pipelined.as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answer}");
    assert!(answer.contains("\r\n\r\nHTTP/1.1") && answer.ends_with("the scheduler</a>.\n"), "{answer}");
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(9_000));
    for (request, status) in [
        (&*format!("GET /nowhere HTTP/1.1\r\n{close}"), "404 Not Found"),
        (&*format!("POST / HTTP/1.1\r\n{close}"), "405 Method Not Allowed"),
        ("GET / HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("\u{1}\r\n\r\n", "400 Bad Request"),
        ("GET / HTTP/1.0\r\n\r\n", "200 OK"),
        (&*long, "431 Request Header Fields Too Large"),
    ] {
        let mut stream = machine.connect();
        stream.write_all(request.as_bytes()).expect("the machine reads the whole request");
        let mut first = String::new();
        BufReader::new(stream).read_line(&mut first).expect("an answer");
        assert_eq!(first, format!("HTTP/1.1 {status}\r\n"));
    }
    machine.end("httpd: 9 requests\n");
}

/// Reads the next event of the scheduler's page. Returns the numbers of the array `name` in it.
fn numbers(events: &mut impl Iterator<Item = String>, name: &str) -> Vec<u64> {
    let line = events.find(|line| line.starts_with("data: {")).expect("an event");
    let (_, rest) = line.split_once(&format!("\"{name}\":[")).expect("the array");
    let array = rest.split_once(']').expect("its end").0;
    array.split(", ").map(|number| number.trim_start_matches('[').parse().expect("a number")).collect()
}

#[test]
fn scheduler_is_shown_live() {
    let machine = Server::start(&["--smp=2"], ("httpd", 80), 3);
    let page = converse(&machine, b"GET /sched HTTP/1.0\r\n\r\n");
    assert!(page.contains("Content-Type: text/html") && page.contains("new EventSource(\"/sched/events\")"), "{page}");
    let mut viewer = machine.connect();
    viewer.write_all(b"GET /sched/events HTTP/1.1\r\nHost: x\r\n\r\n").expect("the machine listens");
    let mut lines = BufReader::new(viewer).lines().map_while(Result::ok);
    let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(head[0] == "HTTP/1.1 200 OK" && head.contains(&"Content-Type: text/event-stream".to_owned()), "{head:?}");
    // The state of P0, its G, the length of its queue, and how many observations found it busy.
    assert_eq!(numbers(&mut lines, "processors").len(), 4);
    let [_, before, ..] = numbers(&mut lines, "totals")[..] else { panic!("too few totals") };
    let answer = converse(&machine, b"POST /sched/work HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    // 16 Gs for each P, the G that waits for them, and that of the last connection.
    while numbers(&mut lines, "totals")[1] < before + 34 {}
    drop(lines);
    machine.end("httpd: 3 requests\n");
}
