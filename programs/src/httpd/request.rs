//! The head of a request.

use core::mem::MaybeUninit;

use httparse::{Header, Status};
use kernel::prelude::*;

/// The largest head of a request, and the largest number of its fields.
pub(crate) const HEAD_BYTES: usize = 8 * 1024;
const FIELDS: usize = 64;

/// A status code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    Ok,
    PartialContent,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    ContentTooLarge,
    RangeNotSatisfiable,
    HeadTooLarge,
    Internal,
    NotImplemented,
}

impl Code {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::PartialContent => "206 Partial Content",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::ContentTooLarge => "413 Content Too Large",
            Self::RangeNotSatisfiable => "416 Range Not Satisfiable",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Internal => "500 Internal Server Error",
            Self::NotImplemented => "501 Not Implemented",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
    Other,
}

/// Where the body of a request ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// After this many bytes.
    Bytes(u64),
    /// In chunks: each has its length before it, and the last one has the length 0.
    Chunked,
}

/// The part of a resource that a client wants: the first byte and the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Range {
    From(u64, Option<u64>),
    /// The last bytes.
    Last(u64),
}

impl Range {
    /// Returns the offsets of the first byte and after the last one, or `None` if no byte is in the range.
    pub(crate) fn within(self, length: u64) -> Option<(u64, u64)> {
        let (begin, end) = match self {
            Self::From(first, last) => (first, last.map_or(length, |last| length.min(last.saturating_add(1)))),
            Self::Last(count) => (length.saturating_sub(count), length),
        };
        (begin < end).then_some((begin, end))
    }
}

/// A request without its body.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Request {
    /// The length of the head.
    pub(crate) bytes: usize,
    pub(crate) method: Method,
    /// The path, without what follows a question mark.
    pub(crate) path: String,
    pub(crate) body: Body,
    pub(crate) range: Option<Range>,
    /// Whether the client waits for the status 100 before it sends the body.
    pub(crate) expects: bool,
    /// Whether the client may send another request.
    pub(crate) keeps: bool,
}

/// Parses the head of a request. Returns `None` if it is not complete.
///
/// # Errors
///
/// The status with which the server answers, if the request is wrong. What the client sends after such a request cannot be
/// parsed.
pub(crate) fn parse(head: &[u8]) -> Result<Option<Request>, Code> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut request = httparse::Request::new(&mut []);
    let bytes = match request.parse_with_uninit_headers(head, &mut fields) {
        Ok(Status::Complete(bytes)) => bytes,
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Code::HeadTooLarge),
        Err(_) => return Err(Code::BadRequest),
    };
    let fields = Fields(request.headers);
    let is_new = request.version == Some(1);
    // RFC 9112, 3.2: a request of HTTP/1.1 must name its host exactly once.
    let hosts = fields.all("host").count();
    if hosts > 1 || (is_new && hosts == 0) {
        return Err(Code::BadRequest);
    }
    let wishes = |word: &str| fields.all("connection").any(|value| has_word(value, word));
    Ok(Some(Request {
        bytes,
        method: match request.method.unwrap_or_default() {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            _ => Method::Other,
        },
        path: request.path.unwrap_or_default().split('?').next().unwrap_or_default().to_owned(),
        body: fields.body(is_new)?,
        // `If-Range` never matches, because the answers have no dates and tags. So the whole resource is sent then.
        range: fields.all("range").next().and_then(range).filter(|_| fields.all("if-range").next().is_none()),
        expects: is_new && fields.all("expect").any(|value| value.eq_ignore_ascii_case("100-continue")),
        keeps: if is_new { !wishes("close") } else { wishes("keep-alive") },
    }))
}

/// The fields of a head.
struct Fields<'a>(&'a [Header<'a>]);

impl Fields<'_> {
    /// Returns the values of all fields with this name. A value that is not UTF-8 counts as empty.
    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| str::from_utf8(field.value).unwrap_or_default().trim_ascii())
    }

    /// Returns where the body ends (RFC 9112, 6.3). Fields that contradict each other are an error, because another
    /// server between this one and the client may have believed the other field.
    fn body(&self, is_new: bool) -> Result<Body, Code> {
        let mut codings = self.all("transfer-encoding");
        let mut lengths = self.all("content-length");
        match (codings.next(), lengths.next()) {
            (None, None) => Ok(Body::Bytes(0)),
            (None, Some(length)) => {
                let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
                let is_clear = is_number && lengths.all(|other| other == length);
                length.parse().ok().filter(|_| is_clear).map(Body::Bytes).ok_or(Code::BadRequest)
            }
            (Some(_), Some(_)) => Err(Code::BadRequest),
            (Some(_), None) if !is_new => Err(Code::BadRequest),
            (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") && codings.next().is_none() => {
                Ok(Body::Chunked)
            }
            (Some(_), None) => Err(Code::NotImplemented),
        }
    }
}

/// Whether a list with commas has this word.
fn has_word(list: &str, word: &str) -> bool {
    list.split(',').any(|other| other.trim_ascii().eq_ignore_ascii_case(word))
}

/// Parses a range (RFC 9110, 14.1.2). Returns `None` if it is not valid, or if there are several ranges. The whole file is
/// then the answer, as the RFC allows.
fn range(value: &str) -> Option<Range> {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    match value.strip_prefix("bytes=")?.split_once('-')? {
        ("", count) => Some(Range::Last(number(count)?)),
        (first, "") => Some(Range::From(number(first)?, None)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Range::From(first, Some(last)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Result<Request, Code> {
        parse(format!("POST /a?b HTTP/1.1\r\nHost: x\r\n{text}\r\n").as_bytes())
            .map(|request| request.expect("complete"))
    }

    #[test]
    fn end_of_the_body_is_clear_or_an_error() {
        let body = |text: &str| fields(text).map(|request| request.body);
        assert_eq!(body(""), Ok(Body::Bytes(0)));
        assert_eq!(body("Content-Length: 7\r\ncontent-length: 7\r\n"), Ok(Body::Bytes(7)));
        assert_eq!(body("Transfer-Encoding: Chunked\r\n"), Ok(Body::Chunked));
        for text in [
            "Content-Length: 7\r\nContent-Length: 8\r\n",
            "Content-Length: 7, 7\r\n",
            "Content-Length: +7\r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n",
            "Host: y\r\n",
        ] {
            assert_eq!(fields(text), Err(Code::BadRequest), "{text}");
        }
        for text in ["Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n"] {
            assert_eq!(fields(text), Err(Code::NotImplemented), "{text}");
        }
        let old = parse(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(old, Err(Code::BadRequest));
    }

    #[test]
    fn connection_is_kept_unless_a_word_of_a_list_says_otherwise() {
        assert!(fields("Connection: closed, upgrade\r\n").expect("a request").keeps);
        assert!(!fields("Connection: upgrade, Close\r\n").expect("a request").keeps);
        let old = |text: &str| parse(text.as_bytes()).expect("right").expect("complete").keeps;
        assert!(!old("GET / HTTP/1.0\r\n\r\n") && old("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn range_is_within_the_resource_or_not_satisfiable() {
        for (value, expected) in [
            ("bytes=0-0", Some((0, 1))),
            ("bytes=3-", Some((3, 10))),
            ("bytes=3-99", Some((3, 10))),
            ("bytes=-4", Some((6, 10))),
            ("bytes=-99", Some((0, 10))),
            ("bytes=10-", None),
            ("bytes=-0", None),
            ("bytes=0-18446744073709551615", Some((0, 10))),
        ] {
            assert_eq!(range(value).expect("a range").within(10), expected, "{value}");
        }
        for value in ["bytes=4-3", "bytes=-", "bytes=a-b", "bytes=1-2,4-5", "lines=1-2", "bytes=+1-2"] {
            assert_eq!(range(value), None, "{value}");
        }
        assert_eq!(fields("Range: bytes=1-2\r\nIf-Range: x\r\n").expect("a request").range, None);
    }
}
