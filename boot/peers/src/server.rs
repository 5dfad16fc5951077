//! The server on tokio for `compare net`: HTTP/1.1 by the crate `httparse`, with only what the client of that comparison
//! needs. Its paths are those of the program `httpd`.

use std::io::{self, ErrorKind};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::report::version_of;

const PAGE: &str = "hello, world\n";
const HEAD_BYTES: usize = 8 * 1024;
const PART_BYTES: usize = 64 * 1024;

/// The parts of a request's head that the server needs.
struct Head {
    bytes: usize,
    path: String,
    body: usize,
    keeps: bool,
}

/// Listens on `address`, and serves for ever. Each connection has a task.
pub fn run(address: &str) -> io::Result<()> {
    Runtime::new()?.block_on(async {
        let listener = TcpListener::bind(address).await?;
        println!("tokio {} and httparse {}", version_of("tokio"), version_of("httparse"));
        println!("peers: port {}", listener.local_addr()?.port());
        loop {
            let (stream, _) = listener.accept().await?;
            // An error of one connection, for example because the client has gone, must not end the server.
            tokio::spawn(async { converse(stream).await.unwrap_or(()) });
        }
    })
}

async fn converse(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut filled) = (vec![0; HEAD_BYTES], 0);
    loop {
        let head = loop {
            if let Some(head) = parse(&buffer[..filled])? {
                break head;
            }
            match stream.read(&mut buffer[filled..]).await? {
                0 => return Ok(()),
                count => filled += count,
            }
        };
        buffer.copy_within(head.bytes..filled, 0);
        filled -= head.bytes;
        let early = filled.min(head.body);
        buffer.copy_within(early..filled, 0);
        filled -= early;
        drop_body(&mut stream, head.body - early).await?;
        answer(&mut stream, &head).await?;
        if !head.keeps {
            return stream.shutdown().await;
        }
    }
}

async fn drop_body(stream: &mut TcpStream, mut bytes: usize) -> io::Result<()> {
    let mut part = vec![0; PART_BYTES.min(bytes)];
    while bytes != 0 {
        let most = part.len().min(bytes);
        match stream.read(&mut part[..most]).await? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => bytes -= count,
        }
    }
    Ok(())
}

async fn answer(stream: &mut TcpStream, head: &Head) -> io::Result<()> {
    let zeros = head.path.strip_prefix("/zeros/").and_then(|count| count.parse().ok());
    let length = zeros.unwrap_or(PAGE.len());
    let end = if head.keeps { "" } else { "Connection: close\r\n" };
    let text = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n{end}\r\n");
    let Some(mut left) = zeros else { return stream.write_all((text + PAGE).as_bytes()).await };
    stream.write_all(text.as_bytes()).await?;
    let part = vec![0; PART_BYTES];
    while left != 0 {
        let count = left.min(part.len());
        stream.write_all(&part[..count]).await?;
        left -= count;
    }
    Ok(())
}

/// Parses the head of a request. Returns `None` if it is not complete.
fn parse(head: &[u8]) -> io::Result<Option<Head>> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request.parse(head).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    let httparse::Status::Complete(bytes) = parsed else { return Ok(None) };
    let field = |name: &str| {
        let field = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(field.value).ok()
    };
    let body = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let keeps = !field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(Some(Head { bytes, path: request.path.unwrap_or_default().to_owned(), body, keeps }))
}
