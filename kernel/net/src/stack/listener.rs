//! Listeners of a stack.

use alloc::vec::Vec;
use core::net::SocketAddr;

use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;
use gmp_sched::platform::Platform;

use super::{Network, Stack, StackStream};
use crate::abandoned::caller;
use crate::address::{ToSocketAddr, lookup_name};
use crate::error::NetError;
use crate::listener::TcpListener;
use crate::socket::{ListenerSocket, Open, Socket, Way};

/// A listener of a stack.
#[expect(missing_debug_implementations, reason = "the type that programs use implements it")]
pub struct StackListener<Plat: Platform> {
    stack: &'static Stack<Plat>,
    pub(super) index: usize,
    address: SocketAddr,
}

impl<Plat: Platform> TcpListener<StackListener<Plat>> {
    /// Like [`bind`](Self::bind), on this stack. The address is `0.0.0.0`, `[::]`, or one of the stack.
    ///
    /// # Errors
    ///
    /// In the cases of [`bind`](Self::bind).
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or must not block.
    #[track_caller]
    pub fn bind_on(stack: &'static Stack<Plat>, address: impl ToSocketAddr) -> Result<Self, NetError> {
        StackListener::bind(stack, address.to_socket_addr()?).map(Self)
    }
}

impl<Plat: Platform> StackListener<Plat> {
    #[track_caller]
    fn bind(stack: &'static Stack<Plat>, address: SocketAddr) -> Result<Self, NetError> {
        let (index, port) = stack.bind(address.ip(), |_| stack.listeners.listen(address))?;
        Ok(Self { stack, index, address: SocketAddr::new(address.ip(), port) })
    }
}

impl<Plat: Platform> Socket for StackListener<Plat> {
    type Platform = Plat;

    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn selectable(&self, _: Way) -> Result<Receiver<(), Plat>, NetError> {
        self.stack.listeners.acceptable(self.index, caller::<Plat>())
    }
}

impl<Plat: Network> Open for StackListener<Plat> {
    fn lookup(name: &str, port: u16, limit: Limit<'_, Plat>) -> Result<Vec<SocketAddr>, NetError> {
        lookup_name(name, port, limit)
    }

    fn open(address: SocketAddr, _: Limit<'_, Plat>) -> Result<Self, NetError> {
        Self::bind(Plat::stack(address.ip())?, address)
    }
}

impl<Plat: Platform> ListenerSocket for StackListener<Plat> {
    type Stream = StackStream<Plat>;

    fn accept(&self, limit: Limit<'_, Plat>) -> Result<StackStream<Plat>, NetError> {
        let user = caller::<Plat>();
        let connection = self.stack.listeners.wait(self.index, user, limit)?;
        let shard = &self.stack.shards[connection.shard];
        shard.with(|state| {
            state.take_over(connection.index)?;
            Ok(StackStream::new(shard, state, connection.index, user))
        })
    }
}

impl<Plat: Platform> Drop for StackListener<Plat> {
    fn drop(&mut self) {
        self.stack.end_listener(self.index);
        self.stack.listeners.free(self.index);
    }
}
