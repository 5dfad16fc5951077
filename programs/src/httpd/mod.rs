//! The web server of the program `httpd` (HTTP/1.1).
//!
//! Each connection has a G. It keeps the connection for further requests, which may come before the answers to earlier
//! ones (pipelining). A client that takes too long for a request is disconnected. The crate `httparse` parses the requests.
//!
//! | path | |
//! |---|---|
//! | `/sched` | shows live what the scheduler does |
//! | `/disk` | the content of the first disk (`--disk FILE`), or a range of it |
//! | `/files/PATH` | a file of the file system (ext2, ext3 or ext4) on that disk |
//! | `/sha256` | the hash of the body of a `POST` |
//! | `/zeros/N` | N bytes, for benchmarks |
//! | `/discard` | drops the body of a `POST`, for benchmarks |

use core::fmt::Write as _;
use core::sync::atomic::{AtomicU64, Ordering};

use kernel::net::{NetError, Shutdown, TcpStream};
use kernel::platform::Limit;
use kernel::prelude::*;
use sha2::{Digest as _, Sha256};

mod body;
mod files;
mod request;
mod sched;

use body::{Arrived, BODY_BYTES, Mistake};
use files::{Resource, kind};
use request::{Body, Code, Method, Request};

/// How many requests were answered.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// How long a client may take for the head of a request, and to take a part of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The bytes of a resource that are read at once.
const PART_BYTES: usize = 64 * 1024;

/// The page `/`.
pub const INDEX: &str = "<!doctype html><title>httpd</title><h1>It works</h1>\n\
                         <p>Each connection has a G. See <a href=/sched>the scheduler</a>.\n";

/// Returns how many requests were answered, on all connections.
#[must_use]
pub fn requests() -> u64 {
    REQUESTS.load(Ordering::Relaxed)
}

/// Answers the requests of a client, until it closes the connection or makes a mistake. Blocks the calling G.
///
/// # Errors
///
/// If the connection fails.
pub fn converse(stream: &TcpStream) -> Result<(), NetError> {
    let mut arrived = Arrived::new(stream);
    let mut client = Client { stream, keeps: true, has_body: true };
    loop {
        client.has_body = true;
        let result = next(&mut arrived).and_then(|request| {
            arrived.use_up(request.bytes);
            client.keeps = request.keeps;
            client.has_body = request.method != Method::Head;
            client.respond(&request, &mut arrived)
        });
        match result {
            Ok(()) if client.keeps => {}
            Ok(()) => return end(stream),
            Err(Mistake::Network(error)) => return Err(error),
            Err(Mistake::Status(status)) => {
                client.keeps = false;
                client.answer(status, "", "text/plain", &format!("{}\n", status.text()))?;
                return end(stream);
            }
        }
    }
}

/// Waits for the head of the next request.
fn next(arrived: &mut Arrived<'_>) -> Result<Request, Mistake> {
    let until = now() + PATIENCE;
    loop {
        if let Some(request) = request::parse(arrived.bytes())? {
            return Ok(request);
        }
        if arrived.is_full() {
            return Err(Code::HeadTooLarge.into());
        }
        arrived.wait(until)?;
    }
}

/// Ends a connection after its last answer. First reads what the client is still sending, because if data were left unread,
/// the client would get a reset, and might lose the answer (RFC 9112, 9.6).
fn end(stream: &TcpStream) -> Result<(), NetError> {
    stream.shutdown(Shutdown::Write)?;
    let until = now() + PATIENCE;
    while stream.read_until(&mut [0; 1024], until)? != 0 {}
    Ok(())
}

/// A client that waits for an answer.
struct Client<'a> {
    stream: &'a TcpStream,
    /// Whether the client may send another request.
    keeps: bool,
    /// Whether the answer has a body.
    has_body: bool,
}

impl Client<'_> {
    fn respond(&mut self, request: &Request, arrived: &mut Arrived<'_>) -> Result<(), Mistake> {
        let is_read = matches!(request.method, Method::Get | Method::Head);
        match (&*request.path, request.method) {
            ("/sha256", Method::Post) => return self.hash(request, arrived),
            ("/discard", Method::Post) => {
                self.receive(request, arrived, |_| {})?;
                return self.answer(Code::Ok, "", "text/plain", "dropped\n").map_err(Mistake::Network);
            }
            _ => {}
        }
        // From here on, no body is read. A request that has one ends its connection, because the next request would begin
        // after the body.
        self.keeps &= request.body == Body::Bytes(0);
        let answered = match (&*request.path, request.method) {
            ("/", _) if is_read => self.answer(Code::Ok, "", "text/html", INDEX),
            ("/sched", _) if is_read => self.answer(Code::Ok, "", "text/html", sched::PAGE),
            ("/sched/events", Method::Get) => {
                REQUESTS.fetch_add(1, Ordering::Relaxed);
                self.keeps = false;
                sched::stream(self.stream)
            }
            ("/sched/work", Method::Post) => {
                sched::work();
                self.answer(Code::Ok, "", "text/plain", "Gs compute and sleep for five seconds\n")
            }
            ("/sched/work" | "/sha256" | "/discard", _) => self.fail(Code::MethodNotAllowed, "Allow: POST\r\n"),
            ("/sched/events", _) => self.fail(Code::MethodNotAllowed, "Allow: GET\r\n"),
            ("/" | "/sched", _) => self.fail(Code::MethodNotAllowed, "Allow: GET, HEAD\r\n"),
            (path, _) => match Resource::find(path) {
                Ok(resource) if is_read => self.send(request, resource),
                Ok(_) => self.fail(Code::MethodNotAllowed, "Allow: GET, HEAD\r\n"),
                Err(status) => self.fail(status, ""),
            },
        };
        answered.map_err(Mistake::Network)
    }

    fn fail(&self, status: Code, fields: &str) -> Result<(), NetError> {
        self.answer(status, fields, "text/plain", &format!("{}\n", status.text()))
    }

    fn answer(&self, status: Code, fields: &str, kind: &str, body: &str) -> Result<(), NetError> {
        let mut text = self.head(status, fields, kind, body.len() as u64);
        if self.has_body {
            text += body;
        }
        self.write(text.as_bytes())
    }

    /// Returns the head of an answer.
    fn head(&self, status: Code, fields: &str, kind: &str, length: u64) -> String {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        let end = if self.keeps { "" } else { "Connection: close\r\n" };
        let mut head = String::with_capacity(256);
        // This is faster than `format!`, which would take a twentieth of the instructions of a short request.
        for text in ["HTTP/1.1 ", status.text(), "\r\nContent-Type: ", kind, "\r\nContent-Length: "] {
            head.push_str(text);
        }
        // Writing to a string cannot fail.
        let _ = write!(head, "{length}");
        for text in ["\r\n", fields, end, "\r\n"] {
            head.push_str(text);
        }
        head
    }

    fn write(&self, data: &[u8]) -> Result<(), NetError> {
        self.stream.write_all_until(data, Limit::after(PATIENCE))
    }

    /// Reads the body of a request, and passes its pieces to `take`.
    fn receive(&self, request: &Request, arrived: &mut Arrived<'_>, take: impl FnMut(&[u8])) -> Result<(), Mistake> {
        if matches!(request.body, Body::Bytes(bytes) if bytes > BODY_BYTES) {
            return Err(Code::ContentTooLarge.into());
        }
        if request.expects && arrived.bytes().is_empty() {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(Mistake::Network)?;
        }
        arrived.body(request.body, take)
    }

    /// Answers with the hash of the body of a request.
    fn hash(&self, request: &Request, arrived: &mut Arrived<'_>) -> Result<(), Mistake> {
        let mut hash = Sha256::new();
        self.receive(request, arrived, |piece| hash.update(piece))?;
        let mut text = String::new();
        for byte in hash.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
        self.answer(Code::Ok, "", "text/plain", &text).map_err(Mistake::Network)
    }

    /// Answers with a resource, or a range of it.
    fn send(&self, request: &Request, mut resource: Resource) -> Result<(), NetError> {
        let length = resource.length();
        // RFC 9110, 14.2: a range means something only for GET.
        let (status, fields, begin, end) = match request.range.filter(|_| request.method == Method::Get) {
            None => (Code::Ok, "Accept-Ranges: bytes\r\n".to_owned(), 0, length),
            Some(range) => match range.within(length) {
                None => return self.fail(Code::RangeNotSatisfiable, &format!("Content-Range: bytes */{length}\r\n")),
                Some((begin, end)) => {
                    let fields = format!("Content-Range: bytes {begin}-{}/{length}\r\n", end - 1);
                    (Code::PartialContent, fields, begin, end)
                }
            },
        };
        self.write(self.head(status, &fields, kind(&request.path), end - begin).as_bytes())?;
        let (mut buffer, mut at) = (vec![0; PART_BYTES], begin);
        while self.has_body && at < end {
            let part = &mut buffer[..PART_BYTES.min(usize::try_from(end - at).unwrap_or(PART_BYTES))];
            // The client has been told the length, so an error of the disk can only end the connection.
            resource.read(at, part).ok_or(NetError::Other)?;
            self.write(part)?;
            at += part.len() as u64;
        }
        Ok(())
    }
}
