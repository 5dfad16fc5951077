//! Connections, as programs use them.

use core::fmt;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use embedded_io::{ErrorType, Read, Write};
use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;
use gmp_sched::goroutine::GoroutineId;
use gmp_sched::platform::Platform;
use gmp_sched::time;
use smoltcp::socket::tcp::{RecvError, State as TcpState};

use crate::abandoned::caller;
use crate::address::{ToSocketAddr, lookup_name, with_each};
use crate::connections::Connection;
use crate::error::NetError;
use crate::packet::std_duration;
use crate::readiness::Waits;
use crate::settings::{Shutdown, check_keepalive};
use crate::stack::{Network, Stack};
use crate::state::State;

/// A TCP connection. All functions take `&self`, so several Gs can use a connection, each reading or writing.
///
/// Dropping the stream closes the connection. What was written is still sent, without a G that waits for it. If data
/// has arrived that was not read, the peer gets a reset.
pub struct TcpStream<Plat: Platform> {
    stack: &'static Stack<Plat>,
    index: usize,
    waits: &'static Waits<Plat>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl<Plat: Platform> fmt::Debug for TcpStream<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream").field("local", &self.local).field("peer", &self.peer).finish()
    }
}

impl<Plat: Network> TcpStream<Plat> {
    /// Connects to an address. Blocks the calling G until the peer has answered.
    ///
    /// # Errors
    ///
    /// In the cases of [`connect_until`](Self::connect_until), except for the limit.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn connect(address: impl ToSocketAddr) -> Result<Self, NetError> {
        Self::connect_until(address, Limit::NONE)
    }

    /// Like [`connect`](Self::connect), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// If there is no network, the address is not valid, the name has no address, nobody listens there, or the peer does
    /// not answer within 30 seconds. If the limit ends the wait.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn connect_until<'l>(address: impl ToSocketAddr, limit: impl Into<Limit<'l, Plat>>) -> Result<Self, NetError> {
        let limit = limit.into();
        with_each(
            address,
            |name, port| lookup_name::<Plat>(name, port, limit),
            |address| Self::connect_on(Plat::stack(address.ip())?, address, limit),
        )
    }
}

impl<Plat: Platform> TcpStream<Plat> {
    /// Like [`connect_until`](Self::connect_until), over this stack.
    ///
    /// # Errors
    ///
    /// In the cases of [`connect_until`](Self::connect_until).
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn connect_on<'l>(
        stack: &'static Stack<Plat>,
        address: impl ToSocketAddr,
        limit: impl Into<Limit<'l, Plat>>,
    ) -> Result<Self, NetError> {
        let limit = limit.into();
        let address = address.to_socket_addr()?;
        let user = caller::<Plat>();
        let stream = stack.wait(limit, &stack.configured.readable, |state| {
            let known = state.source_if_known(address.ip())?;
            let index = known.and_then(|_| state.connect(address, time::now::<Plat>()));
            Some(index.map(|index| Self::new(stack, state, index, user)))
        })?;
        let began = time::now::<Plat>();
        stack.wait(limit, &stream.waits.writable, |state| match state.connection(stream.index)?.socket().state() {
            TcpState::SynSent => None,
            TcpState::Closed if time::now::<Plat>() < began + Duration::from_secs(29) => {
                Some(Err(NetError::ConnectionRefused))
            }
            TcpState::Closed => Some(Err(NetError::TimedOut)),
            _ => Some(Ok(())),
        })?;
        Ok(stream)
    }

    /// Makes the stream of a connection that belongs to no other one. The caller uses it.
    pub(crate) fn new(stack: &'static Stack<Plat>, state: &mut State<Plat>, index: usize, user: GoroutineId) -> Self {
        state.note_user(index, user);
        let none = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let key = state.connection(index).map(|connection| connection.key);
        let local = key.map_or(none, |key| SocketAddr::new(key.local, key.port));
        let peer = key.map_or(none, |key| SocketAddr::new(key.peer, key.peer_port));
        Self { stack, index, waits: state.waits(index), local, peer }
    }

    /// Returns the address of this end.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the address of the peer.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// Reads bytes that have arrived, at least one. Returns their number, which is 0 at the end of the data, or if
    /// `buffer` is empty. Blocks the calling G until there are bytes.
    ///
    /// # Errors
    ///
    /// [`NetError::ConnectionReset`] if the peer has ended the connection before the end of its data.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, NetError> {
        self.read_until(buffer, Limit::NONE)
    }

    /// Like [`read`](Self::read), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// In the cases of [`read`](Self::read), and if the limit ends the wait. No data is lost.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn read_until<'l>(&self, buffer: &mut [u8], limit: impl Into<Limit<'l, Plat>>) -> Result<usize, NetError> {
        self.receive(buffer.is_empty(), limit.into(), |connection| connection.receive(buffer))
    }

    /// Like [`read`](Self::read), but leaves the bytes to the next read.
    ///
    /// # Errors
    ///
    /// In the cases of [`read`](Self::read).
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn peek(&self, buffer: &mut [u8]) -> Result<usize, NetError> {
        self.receive(buffer.is_empty(), Limit::NONE, |connection| connection.socket().peek_slice(buffer))
    }

    /// Returns a receiver for a case of a `select!`. It gets a value when a read need not wait. Later, or if another G uses
    /// the stream, the value may not be true any more. So take the receiver anew for each select, and give the call after
    /// it a limit if others could come first. The channel is closed when the stream is dropped.
    ///
    /// # Errors
    ///
    /// There is no memory for the channel.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn readable(&self) -> Result<Receiver<(), Plat>, NetError> {
        self.selectable(0)
    }

    /// Like [`readable`](Self::readable), for writes.
    ///
    /// # Errors
    ///
    /// There is no memory for the channel.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn writable(&self) -> Result<Receiver<(), Plat>, NetError> {
        self.selectable(1)
    }

    #[track_caller]
    fn selectable(&self, way: usize) -> Result<Receiver<(), Plat>, NetError> {
        let user = caller::<Plat>();
        self.stack.with(|state| {
            state.note_user(self.index, user);
            state.selectable(self.index, way)
        })
    }

    #[track_caller]
    fn receive(
        &self,
        is_empty: bool,
        limit: Limit<'_, Plat>,
        mut take: impl FnMut(&mut Connection) -> Result<usize, RecvError>,
    ) -> Result<usize, NetError> {
        let (index, user) = (self.index, caller::<Plat>());
        self.stack.wait(limit, &self.waits.readable, |state| {
            state.note_user(index, user);
            let connection = state.connection(index)?;
            if is_empty || connection.is_shut[0] {
                return Some(Ok(0));
            }
            let result = match take(connection) {
                Ok(0) => return None,
                Ok(count) => Ok(count),
                Err(RecvError::Finished) => Ok(0),
                Err(RecvError::InvalidState) => Err(NetError::ConnectionReset),
            };
            // The peer may have to know that there is room again.
            state.settle(index, time::now::<Plat>());
            Some(result)
        })
    }

    /// Writes bytes, at least one. Returns how many of them will be sent. Blocks the calling G until there is room.
    ///
    /// # Errors
    ///
    /// [`NetError::BrokenPipe`] after a shutdown, and [`NetError::ConnectionReset`] if the connection has ended. Bytes
    /// that were written before may be lost then. [`NetError::OutOfResources`] if there is no memory for the bytes.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn write(&self, data: &[u8]) -> Result<usize, NetError> {
        self.write_until(data, Limit::NONE)
    }

    /// Like [`write`](Self::write), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// In the cases of [`write`](Self::write), and if the limit ends the wait. Nothing was written then.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn write_until<'l>(&self, data: &[u8], limit: impl Into<Limit<'l, Plat>>) -> Result<usize, NetError> {
        let (index, user) = (self.index, caller::<Plat>());
        self.stack.wait(limit.into(), &self.waits.writable, |state| {
            state.note_user(index, user);
            let connection = state.connection(index)?;
            let is_shut = connection.is_shut[1];
            match connection.send(data) {
                Ok(0) if !data.is_empty() => None,
                Ok(count) => {
                    state.settle(index, time::now::<Plat>());
                    Some(Ok(count))
                }
                Err(NetError::ConnectionReset) if is_shut => Some(Err(NetError::BrokenPipe)),
                Err(error) => Some(Err(error)),
            }
        })
    }

    /// Writes all bytes. Blocks the calling G until there was room for the last one.
    ///
    /// # Errors
    ///
    /// In the cases of [`write`](Self::write).
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn write_all(&self, data: &[u8]) -> Result<(), NetError> {
        self.write_all_until(data, Limit::NONE)
    }

    /// Like [`write_all`](Self::write_all), but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// In the cases of [`write`](Self::write), and if the limit ends a wait. A part of the data may have been written.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn write_all_until<'l>(&self, data: &[u8], limit: impl Into<Limit<'l, Plat>>) -> Result<(), NetError> {
        let (limit, mut rest) = (limit.into(), data);
        while !rest.is_empty() {
            rest = &rest[self.write_until(rest, limit)?..];
        }
        Ok(())
    }

    /// Shuts down one half of the connection, or both. Gs that wait in that half return. Does not block for long.
    ///
    /// # Errors
    ///
    /// If the device is broken.
    pub fn shutdown(&self, how: Shutdown) -> Result<(), NetError> {
        self.change(|connection| {
            connection.is_shut[0] |= how != Shutdown::Write;
            connection.is_shut[1] |= how != Shutdown::Read;
            if how != Shutdown::Read {
                connection.socket().close();
            }
        })?;
        self.waits.readable.notify_all();
        self.waits.writable.notify_all();
        Ok(())
    }

    /// Sets whether small writes are sent at once. Otherwise a small write may wait for the answer to an earlier one
    /// (Nagle's algorithm). The default is `false`.
    ///
    /// # Errors
    ///
    /// If the device is broken.
    pub fn set_nodelay(&self, nodelay: bool) -> Result<(), NetError> {
        self.change(|connection| connection.socket().set_nagle_enabled(!nodelay))
    }

    /// Sets after how much silence an empty segment asks the peer whether it is still there. If the peer is silent for
    /// three times as long, the connection has ended: reads and writes return an error. `None`, the default, asks never.
    ///
    /// # Errors
    ///
    /// [`NetError::InvalidInput`] if `silence` is shorter than a second or longer than nine hours. If the device is
    /// broken.
    pub fn set_keepalive(&self, silence: Option<Duration>) -> Result<(), NetError> {
        check_keepalive(silence)?;
        self.change(|connection| {
            connection.keepalive = silence;
            connection.socket().set_keep_alive(silence.and_then(std_duration));
        })
    }

    fn change(&self, change: impl FnOnce(&mut Connection)) -> Result<(), NetError> {
        self.stack.with(|state| {
            state.check_link()?;
            state.note_user(self.index, caller::<Plat>());
            state.connection(self.index).map(change);
            state.settle(self.index, time::now::<Plat>());
            Ok(())
        })
    }
}

impl<Plat: Platform> Drop for TcpStream<Plat> {
    fn drop(&mut self) {
        self.stack.with(|state| state.release(self.index, time::now::<Plat>()));
    }
}

impl<Plat: Platform> ErrorType for TcpStream<Plat> {
    type Error = NetError;
}

impl<Plat: Platform> Read for TcpStream<Plat> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, NetError> {
        Self::read(self, buffer)
    }
}

impl<Plat: Platform> Write for TcpStream<Plat> {
    fn write(&mut self, data: &[u8]) -> Result<usize, NetError> {
        Self::write(self, data)
    }

    /// Does nothing: what was written is being sent.
    fn flush(&mut self) -> Result<(), NetError> {
        Ok(())
    }
}
