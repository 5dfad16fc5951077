//! Listeners of the operating system.

use alloc::vec::Vec;
use core::net::SocketAddr;
use std::io;

use kernel_net::{ListenerSocket, NetError, Open, Socket, Way};

use super::readiness::Watched;
use super::stream::Stream;
use super::{Counted, LISTENERS, assert_may_block, error, lookup_name, loopback};
use crate::host::platform::{Kernel, Limit, Receiver};

/// A listener.
#[expect(missing_debug_implementations, reason = "the type that programs use implements it")]
pub struct Listener {
    listener: Watched<mio::net::TcpListener>,
    address: SocketAddr,
    _counted: Counted,
}

impl Socket for Listener {
    type Platform = Kernel;

    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn selectable(&self, way: Way) -> Result<Receiver<()>, NetError> {
        self.listener.select(way)
    }
}

impl Open for Listener {
    fn lookup(name: &str, port: u16, limit: Limit<'_>) -> Result<Vec<SocketAddr>, NetError> {
        lookup_name(name, port, limit)
    }

    fn open(address: SocketAddr, _: Limit<'_>) -> Result<Self, NetError> {
        assert_may_block();
        let listener = mio::net::TcpListener::bind(loopback(address)?);
        let listener = listener.map_err(|it| error(&it))?;
        let address = listener.local_addr().map_err(|it| error(&it))?;
        Ok(Self { listener: Watched::new(listener)?, address, _counted: Counted::new(&LISTENERS) })
    }
}

impl ListenerSocket for Listener {
    type Stream = Stream;

    fn accept(&self, limit: Limit<'_>) -> Result<Stream, NetError> {
        // After a reset of the connection, the host does not know the peer's address any more, so the address is kept
        // here.
        let (stream, peer) = self.listener.wait(Way::Read, limit, |listener| {
            loop {
                match listener.accept() {
                    // The connection has ended already. There may be others.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    result => return result,
                }
            }
        })?;
        Stream::new(Watched::new(stream)?, peer)
    }
}
