//! Tests of the web server `httpd`, on the machine and on the host.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use ruzstd::decoding::StreamingDecoder;
use sha2::{Digest as _, Sha256};

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
    let machine = Server::start(&["--smp=2"], ("httpd", 80), 9);
    let close = "Host: x\r\nConnection: close\r\n\r\n";
    let answer = converse(&machine, format!("GET / HTTP/1.1\r\n{close}").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("<h1>It works</h1>"), "{answer}");
    // Two requests at once, of which the second ends the connection.
    let pipelined = format!("HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /?x HTTP/1.1\r\n{close}");
    let answer = converse(&machine, pipelined.as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answer}");
    assert!(answer.contains("\r\n\r\nHTTP/1.1") && answer.ends_with("the scheduler</a>.\n"), "{answer}");
    let answer = converse(&machine, format!("HEAD /sched/events HTTP/1.1\r\n{close}").as_bytes());
    assert!(
        answer.starts_with("HTTP/1.1 405 Method Not Allowed\r\n") && answer.contains("\r\nAllow: GET\r\n"),
        "{answer}"
    );
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
    machine.end("httpd: 10 requests\n");
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
    shows_the_scheduler(Server::start(&["--smp=2"], ("httpd", 80), 3), 2);
}

#[test]
fn scheduler_is_shown_live_on_the_host() {
    // The test does not know how many Ps the host has, but there is at least one.
    shows_the_scheduler(Server::on_host("httpd", 3), 1);
}

fn shows_the_scheduler(machine: Server, processors: u64) {
    let page = converse(&machine, b"GET /sched HTTP/1.0\r\n\r\n");
    assert!(page.contains("Content-Type: text/html") && page.contains("new EventSource(\"/sched/events\")"), "{page}");
    let mut viewer = machine.connect();
    viewer.write_all(b"GET /sched/events HTTP/1.1\r\nHost: x\r\n\r\n").expect("the machine listens");
    let mut lines = BufReader::new(viewer).lines().map_while(Result::ok);
    let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(head[0] == "HTTP/1.1 200 OK" && head.contains(&"Content-Type: text/event-stream".to_owned()), "{head:?}");
    // The state of P0, its G, the length of its queue, and how many observations found it busy.
    let first_of_processors = numbers(&mut lines, "processors");
    assert!(first_of_processors.len() == 4 && first_of_processors[0] <= 2, "{first_of_processors:?}");
    let [_, before, ..] = numbers(&mut lines, "totals")[..] else { panic!("too few totals") };
    let answer = converse(&machine, b"POST /sched/work HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    // 16 Gs for each P, the G that waits for them, and that of the last connection.
    let all = before + 16 * processors + 2;
    assert!((0..1000).any(|_| numbers(&mut lines, "totals")[1] >= all));
    drop(lines);
    machine.end("httpd: 3 requests\n");
}

/// Returns the line with which the server answers a body with this content.
fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n"
}

/// Returns a body with chunked transfer coding. The chunks have several lengths, and each has an extension that no
/// server knows. A trailer field follows the last chunk.
fn in_pieces(content: &[u8]) -> Vec<u8> {
    let (mut body, mut rest, mut length) = (Vec::new(), content, 1);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        write!(body, "{:X};name=value\r\n", piece.len()).expect("written");
        body.extend_from_slice(piece);
        body.extend(b"\r\n");
        (rest, length) = (after, length * 3 + 1);
    }
    body.extend(b"0\r\nTrailer: x\r\n\r\n");
    body
}

#[test]
fn bodies_arrive_whole() {
    let machine = Server::start(&["--smp=2"], ("httpd", 80), 8);
    let mut content = vec![0; 1 << 20];
    fastrand::fill(&mut content);
    let post = |fields: &str| format!("POST /sha256 HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    // Three requests at once, of which the last one ends the connection.
    let mut requests = post("Transfer-Encoding: chunked\r\n").into_bytes();
    requests.extend(in_pieces(&content));
    requests.extend(post(&format!("Content-Length: {}\r\n", content.len())).bytes());
    requests.extend_from_slice(&content);
    requests.extend(post("Content-Length: 0\r\nConnection: close\r\n").bytes());
    let answer = converse(&machine, &requests);
    let bodies: Vec<&str> = answer.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
    assert_eq!(bodies.len(), 3, "{answer}");
    for (body, content) in bodies.into_iter().zip([&*content, &content, b""]) {
        assert!(body.ends_with(&format!("\r\n\r\n{}", hash(content))), "{answer}");
    }
    // This client waits for the response 100 before it sends the body.
    let mut stream = machine.connect();
    let expecting = post("Expect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n");
    stream.write_all(expecting.as_bytes()).expect("the machine listens");
    let mut word = [0; 25];
    stream.read_exact(&mut word).expect("a word");
    assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").expect("the machine listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text until the end");
    assert!(answer.ends_with(&hash(b"abc")), "{answer}");
    for (request, status) in [
        (post("Content-Length: 1073741825\r\n"), "413 Content Too Large"),
        (post("Transfer-Encoding: chunked\r\n") + "40000001\r\n", "413 Content Too Large"),
        (post("Transfer-Encoding: chunked\r\n") + "3\r\nabcd\r\n", "400 Bad Request"),
        (post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n") + "abc", "400 Bad Request"),
        // A body that does not come, and a head that does not end.
        (post("Content-Length: 3\r\n"), "408 Request Timeout"),
        ("GET / HTTP/1.1\r\nHost:".to_owned(), "408 Request Timeout"),
    ] {
        let mut stream = machine.connect();
        stream.write_all(request.as_bytes()).expect("the machine listens");
        let mut first = String::new();
        BufReader::new(stream).read_line(&mut first).expect("an answer");
        assert_eq!(first, format!("HTTP/1.1 {status}\r\n"), "{request}");
    }
    machine.end("httpd: 10 requests\n");
}

#[test]
fn ranges_of_a_disk_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("disk");
    let content: Vec<u8> = (0..100_001_u32).map(|number| (number % 251) as u8).collect();
    fs::write(&file, &content).expect("written");
    let disk = format!("--disk={}", file.display());
    let machine = Server::start(&["--smp=2", &disk], ("httpd", 80), 1);
    let mut stream = BufReader::new(machine.connect());
    for (method, range, status, expected) in [
        ("GET", "", "200 OK", &content[..]),
        ("HEAD", "Range: bytes=1-2\r\n", "200 OK", b""),
        ("GET", "Range: bytes=70000-99999\r\n", "206 Partial Content", &content[70_000..100_000]),
        ("GET", "Range: bytes=100000-\r\n", "206 Partial Content", &content[100_000..]),
        ("GET", "Range: bytes=-513\r\n", "206 Partial Content", &content[100_001 - 513..]),
        ("GET", "Range: bytes=100001-\r\n", "416 Range Not Satisfiable", b"416 Range Not Satisfiable\n"),
        ("POST", "", "405 Method Not Allowed", b"405 Method Not Allowed\n"),
    ] {
        let (head, body) = exchange(&mut stream, method, "/disk", range);
        assert_eq!(head[0], format!("HTTP/1.1 {status}"));
        assert!(body == expected, "{range} {}", body.len());
        let field = head.iter().find_map(|line| line.strip_prefix("Content-Range: bytes "));
        assert_eq!(field.is_some(), status.starts_with("206") || status.starts_with("416"), "{head:?}");
    }
    drop(stream);
    machine.end("httpd: 7 requests\n");
}

/// Sends a request with one more field, and reads the answer. Returns the lines of its head, and its body.
fn exchange(stream: &mut BufReader<TcpStream>, method: &str, path: &str, field: &str) -> (Vec<String>, Vec<u8>) {
    write!(stream.get_mut(), "{method} {path} HTTP/1.1\r\nHost: x\r\n{field}\r\n").expect("the machine listens");
    let mut lines = stream.by_ref().lines().map(|line| line.expect("text"));
    let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let length = head.iter().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    let mut body = vec![0; if method == "HEAD" { 0 } else { length.parse().expect("a number") }];
    stream.read_exact(&mut body).expect("a body");
    (head, body)
}

/// The image is that of the tests of file systems.
#[test]
fn files_of_a_file_system_are_served() {
    let compressed = fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files/image.zst")).expect("an image");
    let mut image = Vec::new();
    StreamingDecoder::new(compressed).expect("a compressed file").read_to_end(&mut image).expect("a whole file");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("image");
    fs::write(&file, image).expect("written");
    let machine = Server::start(&["--smp=2", &format!("--disk={}", file.display())], ("httpd", 80), 1);
    let mut stream = BufReader::new(machine.connect());
    // The file `large` contains each number 256 times.
    let large: Vec<u8> = (1_000_000..1_000_400_u32).flat_map(|word| (word / 256).to_le_bytes()).collect();
    for (path, field, status, expected) in [
        ("/files/hello.txt", "", 200, &b"hello, file system\n"[..]),
        ("/files/n%C3%A4me%20with%20spaces?x", "", 200, b"no newline at the end"),
        ("/files/many/../folder/deepest/note", "Range: bytes=256-258\r\n", 206, b"\x00\x01\x02"),
        ("/files/large", "Range: bytes=4000000-4001599\r\n", 206, &large),
        ("/files/empty", "", 200, b""),
        ("/files/empty", "Range: bytes=0-\r\n", 416, b"416 Range Not Satisfiable\n"),
        ("/files/nowhere", "", 404, b"404 Not Found\n"),
        ("/files/loop", "", 404, b"404 Not Found\n"),
        ("/files/many", "", 404, b"404 Not Found\n"),
        ("/files", "", 404, b"404 Not Found\n"),
        ("/files/%", "", 400, b"400 Bad Request\n"),
    ] {
        let (head, body) = exchange(&mut stream, "GET", path, field);
        assert!(head[0].starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {}", head[0]);
        assert!(body == expected, "{path}: {} bytes", body.len());
        assert_eq!(head.contains(&"Content-Type: text/plain".to_owned()), status >= 400 || path.ends_with(".txt"));
    }
    drop(stream);
    machine.end("httpd: 11 requests\n");
}

/// Each client sends a byte of its request from time to time, so that no single read takes long.
#[test]
fn slow_clients_are_told_so_and_do_not_disturb_others() {
    const CLIENTS: usize = 20;
    let machine = Server::start(&["--smp=2"], ("httpd", 80), CLIENTS + 1);
    let slow: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut stream = machine.connect();
            thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a limit");
                stream.write_all(b"GET / HTTP/1.1\r\nX: ").expect("the machine listens");
                let mut answer = String::new();
                loop {
                    // If the server has closed the connection, the write fails. The error is ignored, because the
                    // answer can still be read.
                    let _ = stream.write(b"x");
                    match stream.read_to_string(&mut answer) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        _ => return answer,
                    }
                }
            })
        })
        .collect();
    let answer = converse(&machine, b"GET / HTTP/1.0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for client in slow {
        let answer = client.join().expect("a client");
        assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    }
    // The server also counts the requests to which it has answered with status 408.
    machine.end("httpd: 21 requests\n");
}
