//! Prints what a web server sends for a URL: `cargo run -- --net user fetch http://10.0.2.2:8000/`. In QEMU's user
//! network, 10.0.2.2 is the host. There is no TLS.

#![no_std]
#![cfg_attr(not(test), no_main)]

use httparse::{Response, Status};
use kernel::net::{self, NetError, TcpStream};
use kernel::prelude::*;

kernel::main!(main);

/// The largest head of an answer, and the largest number of its fields.
const HEAD_BYTES: usize = 16 * 1024;
const FIELDS: usize = 64;
/// How long the server may take for the connection, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(30);

fn main(args: &[&str]) -> i32 {
    let [url] = args else {
        eprintln!("usage: fetch http://HOST[:PORT][/PATH]");
        return 1;
    };
    match parse_url(url).and_then(|(host, path)| fetch(&host, path)) {
        Ok(200) => 0,
        Ok(status) => {
            eprintln!("fetch: {url}: the server answers with the status {status}");
            1
        }
        Err(mistake) => {
            eprintln!("fetch: {url}: {mistake}");
            1
        }
    }
}

/// Returns the name or address of the server with its port, and the path.
fn parse_url(url: &str) -> Result<(String, &str), String> {
    if url.starts_with("https:") {
        return Err("there is no TLS, so only http is possible".into());
    }
    let rest = url.strip_prefix("http://").ok_or("a URL begins with http://")?;
    let (host, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
    Ok((if host.contains(':') { host.into() } else { format!("{host}:80") }, path))
}

/// Connects to the first address of `host` that accepts a connection.
fn connect(host: &str) -> Result<TcpStream, NetError> {
    let mut result = Err(NetError::NameNotFound);
    for address in net::lookup_host_until(host, now() + PATIENCE)? {
        result = TcpStream::connect_until(address, now() + PATIENCE);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Prints the body of the answer, and returns its status.
fn fetch(host: &str, path: &str) -> Result<u16, String> {
    let failed = |error: NetError| error.to_string();
    let stream = connect(host).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all_until(request.as_bytes(), now() + PATIENCE).map_err(failed)?;
    let (mut buffer, mut filled, mut status) = (vec![0; HEAD_BYTES], 0, None);
    loop {
        let count = stream.read_until(&mut buffer[filled..], now() + PATIENCE).map_err(failed)?;
        if count == 0 {
            return status.ok_or_else(|| "the answer has no head".into());
        }
        filled += count;
        if status.is_none() {
            let Some((code, bytes)) = parse_head(&buffer[..filled])? else {
                if filled == buffer.len() {
                    return Err("the head of the answer is too large".into());
                }
                continue;
            };
            status = Some(code);
            buffer.copy_within(bytes..filled, 0);
            filled -= bytes;
        }
        print!("{}", String::from_utf8_lossy(&buffer[..filled]));
        filled = 0;
    }
}

/// Returns the status of an answer and the length of its head, or `None` if the head is not complete.
fn parse_head(head: &[u8]) -> Result<Option<(u16, usize)>, String> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut response = Response::new(&mut fields);
    match response.parse(head) {
        Ok(Status::Complete(bytes)) => Ok(Some((response.code.unwrap_or_default(), bytes))),
        Ok(Status::Partial) => Ok(None),
        Err(error) => Err(format!("the answer is not HTTP: {error}")),
    }
}
