//! Connections of the operating system.

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, Read as _, Write as _};

use gmp_sched::time;
use kernel_net::{CONNECTING, NetError, Open, Shutdown, Socket, StreamSocket, Take, Way};
use socket2::{SockRef, TcpKeepalive};

use super::readiness::Watched;
use super::{CONNECTIONS, Counted, assert_may_block, error, lookup_name};
use crate::host::platform::{Kernel, Limit, Receiver};

/// A connection.
#[expect(missing_debug_implementations, reason = "the type that programs use implements it")]
pub struct Stream {
    stream: Watched<mio::net::TcpStream>,
    local: SocketAddr,
    peer: SocketAddr,
    /// Whether the program has shut down the half for reading, and that for writing. The host would go on to return
    /// what arrives after a shutdown, and has the same error for a write after a shutdown and for one after a reset.
    is_shut: [AtomicBool; 2],
    _counted: Counted,
}

impl Stream {
    pub(super) fn new(stream: Watched<mio::net::TcpStream>, peer: SocketAddr) -> Result<Self, NetError> {
        let local = stream.socket().local_addr().map_err(|it| error(&it))?;
        let is_shut = [const { AtomicBool::new(false) }; 2];
        Ok(Self { stream, local, peer, is_shut, _counted: Counted::new(&CONNECTIONS) })
    }

    fn is_shut(&self, way: Way) -> bool {
        // Ordering: Acquire; partner: the Release in `shutdown`. A G that `shutdown` has woken sees the flag.
        self.is_shut[way as usize].load(Ordering::Acquire)
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
        // Without a limit, the host would try for more than two minutes.
        let answered = limit.and(time::now::<Kernel>() + CONNECTING);
        let peer = stream.wait(Way::Write, answered, |stream| {
            // The attempt is over when the socket has an error or a peer (the manual of `mio`).
            match (stream.take_error()?, stream.peer_addr()) {
                (Some(error), _) => Err(error),
                (None, Ok(peer)) => Ok(peer),
                (None, Err(_)) => Err(io::ErrorKind::WouldBlock.into()),
            }
        });
        let peer = peer.map_err(|error| match error {
            NetError::Limit(_) if limit.err().is_none() => NetError::TimedOut,
            error => error,
        })?;
        Self::new(stream, peer)
    }
}

impl StreamSocket for Stream {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn receive(&self, buffer: &mut [u8], take: Take, limit: Limit<'_>) -> Result<usize, NetError> {
        if buffer.is_empty() {
            // The host would wait for a byte.
            assert_may_block();
            return Ok(0);
        }
        self.stream.wait(Way::Read, limit, |mut stream| match take {
            _ if self.is_shut(Way::Read) => Ok(0),
            Take::Bytes => stream.read(buffer),
            Take::Nothing => stream.peek(buffer),
        })
    }

    fn send(&self, data: &[u8], limit: Limit<'_>) -> Result<usize, NetError> {
        let write = |mut stream: &mio::net::TcpStream| {
            if self.is_shut(Way::Write) { Ok(Err(NetError::BrokenPipe)) } else { stream.write(data).map(Ok) }
        };
        self.stream.wait(Way::Write, limit, write).flatten()
    }

    fn shutdown(&self, how: Shutdown) -> Result<(), NetError> {
        // Ordering: Release; partner: the Acquire in `is_shut`.
        for (way, other) in [(Way::Read, Shutdown::Write), (Way::Write, Shutdown::Read)] {
            self.is_shut[way as usize].fetch_or(how != other, Ordering::Release);
        }
        let how = match how {
            Shutdown::Read => std::net::Shutdown::Read,
            Shutdown::Write => std::net::Shutdown::Write,
            Shutdown::Both => std::net::Shutdown::Both,
        };
        match self.stream.socket().shutdown(how) {
            // The connection has ended, so there is nothing to shut down.
            Err(it) if it.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result.map_err(|it| error(&it)),
        }
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
