//! What arrives from a client: bytes, and bodies of requests.

use httparse::{Status, parse_chunk_size};
use kernel::interrupted;
use kernel::net::{NetError, TcpStream};
use kernel::platform::Limit;
use kernel::prelude::*;

use super::PATIENCE;
use super::request::{Body, Code, HEAD_BYTES};

/// The largest body of a request.
pub(crate) const BODY_BYTES: u64 = 1 << 30;
/// How many bytes per second a client must send of a body.
const LEAST_RATE: u64 = 1024;
/// The longest line before a chunk of a body.
const LINE_BYTES: usize = 256;

/// Why there is no request, or not all of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mistake {
    /// The client makes a mistake, and gets this status.
    Status(Code),
    /// The connection has ended.
    Network(NetError),
}

impl From<Code> for Mistake {
    fn from(status: Code) -> Self {
        Self::Status(status)
    }
}

/// What has arrived from a client, and has not been used yet.
pub(crate) struct Arrived<'a> {
    stream: &'a TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    /// Whether the client is between two requests.
    is_idle: bool,
}

impl<'a> Arrived<'a> {
    pub(crate) fn new(stream: &'a TcpStream) -> Self {
        Self { stream, buffer: vec![0; HEAD_BYTES], filled: 0, is_idle: true }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    pub(crate) fn is_full(&self) -> bool {
        self.filled == self.buffer.len()
    }

    /// Waits for more bytes, if there is room. At the end of what the client sends, returns an error.
    pub(crate) fn wait(&mut self, until: Instant) -> Result<(), Mistake> {
        // An interrupt (Ctrl-C) ends this wait only between two requests, so that a request that has begun is answered.
        let begun = Limit::from(until);
        let limit = if self.filled == 0 && self.is_idle { Limit::from(interrupted()).and(until) } else { begun };
        match self.stream.read_until(&mut self.buffer[self.filled..], limit) {
            Ok(0) => Err(Mistake::Network(NetError::ConnectionReset)),
            Ok(count) => {
                self.filled += count;
                Ok(())
            }
            // If nothing has arrived, no request has timed out: the client has only kept its connection.
            Err(NetError::Limit(_)) if self.filled != 0 => Err(Code::RequestTimeout.into()),
            Err(error) => Err(Mistake::Network(error)),
        }
    }

    pub(crate) fn use_up(&mut self, count: usize) {
        self.buffer.copy_within(count..self.filled, 0);
        self.filled -= count;
    }

    /// Reads a body, and passes its pieces to `take`.
    pub(crate) fn body(&mut self, body: Body, take: impl FnMut(&[u8])) -> Result<(), Mistake> {
        self.is_idle = false;
        let result = self.pieces(body, take);
        self.is_idle = true;
        result.map_err(|mistake| match mistake {
            // Nothing has arrived, but the client is in the middle of its body.
            Mistake::Network(NetError::Limit(_)) => Code::RequestTimeout.into(),
            other => other,
        })
    }

    fn pieces(&mut self, body: Body, mut take: impl FnMut(&[u8])) -> Result<(), Mistake> {
        let begin = now();
        let mut total = 0;
        match body {
            Body::Bytes(bytes) => self.piece(bytes, &mut total, begin, &mut take),
            Body::Chunked => loop {
                let bytes = self.chunk_size(limit(begin, total))?;
                if bytes == 0 {
                    return self.trailers(limit(begin, total));
                }
                self.piece(bytes, &mut total, begin, &mut take)?;
                while self.filled < 2 {
                    self.wait(limit(begin, total))?;
                }
                if !self.bytes().starts_with(b"\r\n") {
                    return Err(Code::BadRequest.into());
                }
                self.use_up(2);
            },
        }
    }

    /// Reads this many bytes, and adds them to `total`, which is the length of the body so far.
    fn piece(
        &mut self,
        mut bytes: u64,
        total: &mut u64,
        begin: Instant,
        take: &mut impl FnMut(&[u8]),
    ) -> Result<(), Mistake> {
        if bytes > BODY_BYTES - *total {
            return Err(Code::ContentTooLarge.into());
        }
        while bytes != 0 {
            if self.filled == 0 {
                self.wait(limit(begin, *total))?;
            }
            let count = self.filled.min(usize::try_from(bytes).unwrap_or(usize::MAX));
            take(&self.buffer[..count]);
            self.use_up(count);
            bytes -= count as u64;
            *total += count as u64;
        }
        Ok(())
    }

    /// Reads the line before a chunk, and returns the size of the chunk.
    fn chunk_size(&mut self, until: Instant) -> Result<u64, Mistake> {
        loop {
            match parse_chunk_size(self.bytes()) {
                Ok(Status::Complete((line, bytes))) => {
                    self.use_up(line);
                    return Ok(bytes);
                }
                Ok(Status::Partial) if self.filled <= LINE_BYTES => self.wait(until)?,
                _ => return Err(Code::BadRequest.into()),
            }
        }
    }

    /// Reads the fields after the last chunk, which this server ignores, and the empty line after them.
    fn trailers(&mut self, until: Instant) -> Result<(), Mistake> {
        loop {
            match self.bytes().windows(2).position(|two| two == b"\r\n") {
                Some(line) => {
                    self.use_up(line + 2);
                    if line == 0 {
                        return Ok(());
                    }
                }
                None if self.is_full() => return Err(Code::HeadTooLarge.into()),
                None => self.wait(until)?,
            }
        }
    }
}

/// Returns when the next byte of a body must have arrived, after `total` bytes.
fn limit(begin: Instant, total: u64) -> Instant {
    begin + PATIENCE + Duration::from_secs(total / LEAST_RATE)
}
