//! Connections of a stack.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;
use gmp_sched::goroutine::GoroutineId;
use gmp_sched::platform::Platform;
use smoltcp::socket::tcp::{RecvError, State as TcpState};

use super::{Network, Stack};
use crate::abandoned::caller;
use crate::address::{ToSocketAddr, lookup_name};
use crate::connection::Connection;
use crate::error::NetError;
use crate::packet::std_duration;
use crate::readiness::Waits;
use crate::settings::Shutdown;
use crate::shard::Shard;
use crate::socket::{Open, Socket, StreamSocket, Take, Way};
use crate::state::State;
use crate::stream::TcpStream;

/// A connection of a stack.
#[expect(missing_debug_implementations, reason = "the type that programs use implements it")]
pub struct StackStream<Plat: Platform> {
    shard: &'static Shard<Plat>,
    index: usize,
    waits: &'static Waits<Plat>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl<Plat: Platform> TcpStream<StackStream<Plat>> {
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
        StackStream::connect(stack, address.to_socket_addr()?, limit.into()).map(Self)
    }
}

impl<Plat: Platform> StackStream<Plat> {
    #[track_caller]
    fn connect(stack: &'static Stack<Plat>, address: SocketAddr, limit: Limit<'_, Plat>) -> Result<Self, NetError> {
        let user = caller::<Plat>();
        let shard = stack.next_shard();
        let (stream, began) = shard.wait(limit, &shard.configured.readable, |state| {
            let (known, now) = (state.source_if_known(address.ip())?, state.now());
            let index = known.and_then(|_| state.connect(address, now));
            Some(index.map(|index| (Self::new(shard, state, index, user), now)))
        })?;
        shard.wait(limit, &stream.waits.writable, |state| {
            let connection = state.connection(stream.index)?;
            match connection.socket().state() {
                TcpState::SynSent => connection.refusal.map(Err),
                TcpState::Closed if state.now() < began + Duration::from_secs(29) => {
                    Some(Err(NetError::ConnectionRefused))
                }
                TcpState::Closed => Some(Err(NetError::TimedOut)),
                _ => Some(Ok(())),
            }
        })?;
        Ok(stream)
    }

    /// Makes the stream of a connection that belongs to no other one. The caller uses it.
    pub(super) fn new(shard: &'static Shard<Plat>, state: &mut State<Plat>, index: usize, user: GoroutineId) -> Self {
        state.note_user(index, user);
        let none = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let key = state.connection(index).map(|connection| connection.key);
        let local = key.map_or(none, |key| SocketAddr::new(key.local, key.port));
        let peer = key.map_or(none, |key| SocketAddr::new(key.peer, key.peer_port));
        Self { shard, index, waits: state.waits(index), local, peer }
    }

    fn change(&self, change: impl FnOnce(&mut Connection)) -> Result<(), NetError> {
        self.shard.with(|state| {
            state.check_link()?;
            state.note_user(self.index, caller::<Plat>()).map(change);
            state.settle(self.index, state.now());
            Ok(())
        })
    }
}

impl<Plat: Platform> Socket for StackStream<Plat> {
    type Platform = Plat;

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn selectable(&self, way: Way) -> Result<Receiver<(), Plat>, NetError> {
        let user = caller::<Plat>();
        self.shard.with(|state| {
            state.note_user(self.index, user);
            state.selectable(self.index, way)
        })
    }
}

impl<Plat: Network> Open for StackStream<Plat> {
    fn lookup(name: &str, port: u16, limit: Limit<'_, Plat>) -> Result<Vec<SocketAddr>, NetError> {
        lookup_name(name, port, limit)
    }

    fn open(address: SocketAddr, limit: Limit<'_, Plat>) -> Result<Self, NetError> {
        Self::connect(Plat::stack(address.ip())?, address, limit)
    }
}

impl<Plat: Platform> StreamSocket for StackStream<Plat> {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn receive(&self, buffer: &mut [u8], take: Take, limit: Limit<'_, Plat>) -> Result<usize, NetError> {
        let (index, user) = (self.index, caller::<Plat>());
        self.shard.wait(limit, &self.waits.readable, |state| {
            let connection = state.note_user(index, user)?;
            if buffer.is_empty() || connection.is_shut[0] {
                return Some(Ok(0));
            }
            let received = match take {
                Take::Bytes => connection.receive(buffer),
                Take::Nothing => connection.socket().peek_slice(buffer),
            };
            Some(match received {
                Ok(0) => return None,
                Ok(count) => {
                    state.settle_read(index, count);
                    Ok(count)
                }
                Err(RecvError::Finished) => Ok(0),
                Err(RecvError::InvalidState) => Err(connection.reset()),
            })
        })
    }

    fn send(&self, data: &[u8], limit: Limit<'_, Plat>) -> Result<usize, NetError> {
        let (index, user) = (self.index, caller::<Plat>());
        self.shard.wait(limit, &self.waits.writable, |state| {
            let connection = state.note_user(index, user)?;
            if connection.is_shut[1] {
                return Some(Err(NetError::BrokenPipe));
            }
            match connection.send(data) {
                Ok(0) if !data.is_empty() => None,
                Ok(count) => {
                    state.settle(index, state.now());
                    Some(Ok(count))
                }
                Err(error) => Some(Err(error)),
            }
        })
    }

    fn shutdown(&self, how: Shutdown) -> Result<(), NetError> {
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

    fn set_nodelay(&self, nodelay: bool) -> Result<(), NetError> {
        self.change(|connection| connection.socket().set_nagle_enabled(!nodelay))
    }

    fn set_keepalive(&self, silence: Option<Duration>) -> Result<(), NetError> {
        self.change(|connection| {
            connection.keepalive = silence;
            connection.socket().set_keep_alive(silence.and_then(std_duration));
        })
    }
}

impl<Plat: Platform> Drop for StackStream<Plat> {
    fn drop(&mut self) {
        self.shard.with(|state| state.release(self.index, state.now()));
    }
}
