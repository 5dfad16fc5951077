//! What clients of web servers have in common.

use httparse::{Response, Status};
use kernel::net::{self, NetError, TcpStream};
use kernel::prelude::*;

/// The largest head of an answer, and the largest number of its fields.
pub const HEAD_BYTES: usize = 16 * 1024;
const FIELDS: usize = 64;

/// How long a server may take for the connection, and for each part of an answer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the name or address of the server of a URL with its port, and the path.
///
/// # Errors
///
/// If `url` is not a URL of `http`.
pub fn parse_url(url: &str) -> Result<(String, &str), String> {
    if url.starts_with("https:") {
        return Err("there is no TLS, so only http is possible".into());
    }
    let rest = url.strip_prefix("http://").ok_or("a URL begins with http://")?;
    let (host, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
    // An address in brackets is an IPv6 address, which contains colons itself.
    let name_ends = host.rfind(']').map_or(0, |end| end + 1);
    Ok((if host[name_ends..].contains(':') { host.into() } else { format!("{host}:80") }, path))
}

/// Connects to the first address of `host` that accepts a connection. Blocks the calling G.
///
/// # Errors
///
/// If the name has no address, or no address accepts a connection in time.
pub fn connect(host: &str) -> Result<TcpStream, NetError> {
    let mut result = Err(NetError::NameNotFound);
    for address in net::lookup_host_until(host, now() + PATIENCE)? {
        result = TcpStream::connect_until(address, now() + PATIENCE);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// The head of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The length of the head.
    pub bytes: usize,
    /// The length of the body. If it is `None`, the end of the connection ends the body.
    pub length: Option<usize>,
    /// Whether the server keeps the connection for further requests.
    pub keeps: bool,
}

/// Parses the head of an answer. Returns `None` if it is not complete.
///
/// # Errors
///
/// If the answer is not HTTP, or its body comes in pieces (`Transfer-Encoding`).
pub fn parse_head(head: &[u8]) -> Result<Option<Head>, String> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut response = Response::new(&mut fields);
    let bytes = match response.parse(head) {
        Ok(Status::Complete(bytes)) => bytes,
        Ok(Status::Partial) => return Ok(None),
        Err(error) => return Err(format!("the answer is not HTTP: {error}")),
    };
    let field = |name: &str| {
        let found = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| field.value.trim_ascii())
    };
    if field("transfer-encoding").is_some() {
        return Err("the body comes in pieces, which this client cannot put together".into());
    }
    let length = field("content-length").and_then(|value| str::from_utf8(value).ok()?.parse().ok());
    let is_new = response.version == Some(1);
    let keeps = is_new && !field("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close"));
    Ok(Some(Head { status: response.code.unwrap_or_default(), bytes, length, keeps: keeps && length.is_some() }))
}

/// Sends a request, and reads the answer to its end. `buffer` has room for the largest head. Returns the head. Blocks the
/// calling G.
///
/// # Errors
///
/// If the connection fails, the server takes too long, or the answer has another status than 200.
pub fn exchange(stream: &TcpStream, request: &str, buffer: &mut [u8]) -> Result<Head, String> {
    let until = now() + PATIENCE;
    stream.write_all_until(request.as_bytes(), until).map_err(|error| error.to_string())?;
    let (mut filled, mut parsed) = (0, None);
    loop {
        let room = if parsed.is_some() { &mut buffer[..] } else { &mut buffer[filled..] };
        let count = stream.read_until(room, until).map_err(|error| error.to_string())?;
        filled += count;
        if parsed.is_none() {
            parsed = parse_head(&buffer[..filled])?;
        }
        match parsed {
            Some(Head { bytes, length: Some(length), .. }) if filled - bytes >= length => break,
            Some(Head { length: None, .. }) if count == 0 => break,
            _ if count == 0 => return Err("the answer ends too early".into()),
            None if filled == buffer.len() => return Err("the head of the answer is too large".into()),
            _ => {}
        }
    }
    match parsed {
        Some(head @ Head { status: 200, .. }) => Ok(head),
        Some(head) => Err(format!("the server answers with the status {}", head.status)),
        None => Err("the answer has no head".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_a_host_with_a_port_and_a_path() {
        for (url, host, path) in [
            ("http://a", "a:80", "/"),
            ("http://1.2.3.4:5/b?c", "1.2.3.4:5", "/b?c"),
            ("http://[::1]:5/", "[::1]:5", "/"),
            ("http://[fec0::2]/", "[fec0::2]:80", "/"),
        ] {
            assert_eq!(parse_url(url), Ok((host.to_owned(), path)));
        }
        for url in ["https://a/", "a", "ftp://a"] {
            assert!(parse_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn head_says_where_the_body_ends() {
        let head = |text: &str| parse_head(text.as_bytes());
        let ok = |length, keeps, text: &str| Ok(Some(Head { status: 200, bytes: text.len(), length, keeps }));
        let text = "HTTP/1.1 200 OK\r\nContent-length: 7\r\n\r\n";
        assert_eq!(head(text), ok(Some(7), true, text));
        assert_eq!(head(&text[..text.len() - 1]), Ok(None));
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: Close\r\n\r\n";
        assert_eq!(head(text), ok(Some(7), false, text));
        let text = "HTTP/1.0 200 OK\r\n\r\n";
        assert_eq!(head(text), ok(None, false, text));
        assert!(head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        assert!(head("nonsense\r\n\r\n").is_err());
    }
}
