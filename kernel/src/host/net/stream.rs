//! Connections of the operating system.

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, Read as _, Write as _};

use kernel_net::{NetError, Open, Shutdown, Socket, StreamSocket, Take, Way};
use socket2::{SockRef, TcpKeepalive};

use super::readiness::Watched;
use super::{CONNECTIONS, Counted, error, lookup_name};
use crate::host::platform::{Kernel, Limit, Receiver};

/// A connection.
#[expect(missing_debug_implementations, reason = "the type that programs use implements it")]
pub struct Stream {
    stream: Watched<mio::net::TcpStream>,
    local: SocketAddr,
    peer: SocketAddr,
    _counted: Counted,
}

impl Stream {
    pub(super) fn new(stream: Watched<mio::net::TcpStream>) -> Result<Self, NetError> {
        let local = stream.socket().local_addr().map_err(|it| error(&it))?;
        let peer = stream.socket().peer_addr().map_err(|it| error(&it))?;
        Ok(Self { stream, local, peer, _counted: Counted::new(&CONNECTIONS) })
    }
}

impl Socket for Stream {
    type Platform = Kernel;

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn selectable(&self, way: Way) -> Result<Receiver<()>, NetError> {
        self.stream.select(way)
    }
}

impl Open for Stream {
    fn lookup(name: &str, port: u16, limit: Limit<'_>) -> Result<Vec<SocketAddr>, NetError> {
        lookup_name(name, port, limit)
    }

    fn open(address: SocketAddr, limit: Limit<'_>) -> Result<Self, NetError> {
        let stream = Watched::new(mio::net::TcpStream::connect(address).map_err(|it| error(&it))?)?;
        stream.wait(Way::Write, limit, |stream| {
            // The attempt is over when the socket has an error or a peer (the manual of `mio`).
            match (stream.take_error()?, stream.peer_addr()) {
                (Some(error), _) => Err(error),
                (None, Ok(_)) => Ok(()),
                (None, Err(_)) => Err(io::ErrorKind::WouldBlock.into()),
            }
        })?;
        Self::new(stream)
    }
}

impl StreamSocket for Stream {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn receive(&self, buffer: &mut [u8], take: Take, limit: Limit<'_>) -> Result<usize, NetError> {
        self.stream.wait(Way::Read, limit, |mut stream| match take {
            Take::Bytes => stream.read(buffer),
            Take::Nothing => stream.peek(buffer),
        })
    }

    fn send(&self, data: &[u8], limit: Limit<'_>) -> Result<usize, NetError> {
        self.stream.wait(Way::Write, limit, |mut stream| stream.write(data))
    }

    fn shutdown(&self, how: Shutdown) -> Result<(), NetError> {
        let how = match how {
            Shutdown::Read => std::net::Shutdown::Read,
            Shutdown::Write => std::net::Shutdown::Write,
            Shutdown::Both => std::net::Shutdown::Both,
        };
        self.stream.socket().shutdown(how).map_err(|it| error(&it))
    }

    fn set_nodelay(&self, nodelay: bool) -> Result<(), NetError> {
        self.stream.socket().set_nodelay(nodelay).map_err(|it| error(&it))
    }

    fn set_keepalive(&self, silence: Option<Duration>) -> Result<(), NetError> {
        let socket = SockRef::from(self.stream.socket());
        let result = match silence {
            None => socket.set_keepalive(false),
            Some(silence) => {
                let asks = TcpKeepalive::new().with_time(silence).with_interval(silence).with_retries(2);
                socket.set_tcp_keepalive(&asks)
            }
        };
        result.map_err(|it| error(&it))
    }
}
