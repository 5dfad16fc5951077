//! A small HTTP/1.1 server: `cargo run -- --port 8080:80 httpd`, and then open <http://127.0.0.1:8080/>.
//!
//! Each connection has a G. It keeps the connection for further requests, which may come before the answers to earlier
//! ones (pipelining). A client that takes too long for a request is disconnected. There are two pages: `/`, and
//! `/sched`, which shows live what the scheduler does. The crate `httparse` parses the requests.
//!
//! `--port N` is the port of the machine (80). With `--connections N` the program ends after N connections.

#![no_std]
#![cfg_attr(not(test), no_main)]

use core::sync::atomic::{AtomicU64, Ordering};

use httparse::{Request, Status};
use kernel::net::{NetError, Shutdown, TcpStream};
use kernel::platform::Limit;
use kernel::prelude::*;
use programs::ServerOptions;

mod sched;

kernel::main!(main);

/// How many requests were answered.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// The largest head of a request, and the largest number of its fields.
const HEAD_BYTES: usize = 8 * 1024;
const FIELDS: usize = 64;
/// How long a client may take for the head of a request, and to take an answer.
const PATIENCE: Duration = Duration::from_secs(10);

const INDEX: &str = "<!doctype html><title>httpd</title><h1>It works</h1>\n\
                     <p>Each connection has a G. See <a href=/sched>the scheduler</a>.\n";

fn main(args: &[&str]) -> i32 {
    let Some(options) = ServerOptions::parse("httpd", args, 80) else { return 1 };
    programs::serve("httpd", options, converse, || {
        println!("httpd: {} requests", REQUESTS.load(Ordering::Relaxed));
    })
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Asked {
    /// The length of the head.
    bytes: usize,
    status: Code,
    page: Page,
    /// Whether the answer has a body.
    has_body: bool,
    /// Whether the client may send another request.
    keeps: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    Index,
    Scheduler,
    /// The events that [`Page::Scheduler`] shows.
    Events,
    /// Gives the scheduler something to do.
    Work,
    None,
}

/// A status code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Code {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    HeadTooLarge,
}

impl Code {
    fn text(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
        }
    }
}

/// Answers the requests of a client, until it closes the connection or makes a mistake.
fn converse(stream: &TcpStream) -> Result<(), NetError> {
    let (mut buffer, mut filled) = (vec![0; HEAD_BYTES], 0);
    loop {
        let until = now() + PATIENCE;
        let asked = loop {
            if let Some(asked) = parse(&buffer[..filled]) {
                break asked;
            }
            if filled == buffer.len() {
                return answer_last(stream, failed(Code::HeadTooLarge));
            }
            match stream.read_until(&mut buffer[filled..], until) {
                Ok(0) => return Ok(()),
                Ok(count) => filled += count,
                // A client that has sent nothing only keeps its connection.
                Err(NetError::Limit(_)) if filled != 0 => return answer_last(stream, failed(Code::RequestTimeout)),
                Err(error) => return Err(error),
            }
        };
        if asked.page == Page::Events {
            REQUESTS.fetch_add(1, Ordering::Relaxed);
            return sched::stream(stream);
        }
        if !asked.keeps {
            return answer_last(stream, asked);
        }
        answer(stream, asked)?;
        buffer.copy_within(asked.bytes..filled, 0);
        filled -= asked.bytes;
    }
}

/// A request that is answered with an error, after which the connection ends.
fn failed(status: Code) -> Asked {
    Asked { bytes: 0, status, page: Page::None, has_body: true, keeps: false }
}

/// Parses the head of a request. Returns `None` if it is not complete.
fn parse(head: &[u8]) -> Option<Asked> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = Request::new(&mut fields);
    let bytes = match request.parse(head) {
        Ok(Status::Complete(bytes)) => bytes,
        Ok(Status::Partial) => return None,
        Err(httparse::Error::TooManyHeaders) => return Some(failed(Code::HeadTooLarge)),
        Err(_) => return Some(failed(Code::BadRequest)),
    };
    let field = |name: &str| {
        let found = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| field.value.trim_ascii())
    };
    let is_new = request.version == Some(1);
    // RFC 9112, 3.2: a request of HTTP/1.1 names its host. No page takes a body, and none is read here.
    let has_body = field("transfer-encoding").is_some() || field("content-length").is_some_and(|length| length != b"0");
    if (is_new && field("host").is_none()) || has_body {
        return Some(failed(Code::BadRequest));
    }
    let wish = field("connection").unwrap_or_default();
    let keeps = if is_new { !wish.eq_ignore_ascii_case(b"close") } else { wish.eq_ignore_ascii_case(b"keep-alive") };
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    let (status, page) = match (request.method.unwrap_or_default(), path) {
        ("GET" | "HEAD", "/") => (Code::Ok, Page::Index),
        ("GET" | "HEAD", "/sched") => (Code::Ok, Page::Scheduler),
        ("GET", "/sched/events") => (Code::Ok, Page::Events),
        ("POST", "/sched/work") => (Code::Ok, Page::Work),
        ("GET" | "HEAD", _) => (Code::NotFound, Page::None),
        _ => (Code::MethodNotAllowed, Page::None),
    };
    Some(Asked { bytes, status, page, has_body: request.method != Some("HEAD"), keeps })
}

fn answer(stream: &TcpStream, asked: Asked) -> Result<(), NetError> {
    REQUESTS.fetch_add(1, Ordering::Relaxed);
    let (kind, body) = match asked.page {
        Page::Index => ("text/html", INDEX.to_owned()),
        Page::Scheduler => ("text/html", sched::PAGE.to_owned()),
        Page::Work => {
            sched::work();
            ("text/plain", "Gs compute and sleep for five seconds\n".to_owned())
        }
        Page::Events | Page::None => ("text/plain", format!("{}\n", asked.status.text())),
    };
    let mut text = format!("HTTP/1.1 {}\r\nContent-Type: {kind}\r\n", asked.status.text());
    text += &format!("Content-Length: {}\r\n", body.len());
    if asked.status == Code::MethodNotAllowed {
        text += "Allow: GET, HEAD\r\n";
    }
    if !asked.keeps {
        text += "Connection: close\r\n";
    }
    text += "\r\n";
    if asked.has_body {
        text += &body;
    }
    stream.write_all_until(text.as_bytes(), Limit::after(PATIENCE))
}

/// Answers a request, and ends the connection. First reads what the client is still sending. If data is left unread at
/// the end, the client gets a reset, and may lose the answer (RFC 9112, 9.6).
fn answer_last(stream: &TcpStream, asked: Asked) -> Result<(), NetError> {
    answer(stream, asked)?;
    stream.shutdown(Shutdown::Write)?;
    let until = now() + PATIENCE;
    while stream.read_until(&mut [0; 1024], until)? != 0 {}
    Ok(())
}
