//! Listeners of a stack.

use alloc::vec::Vec;
use core::net::SocketAddr;

use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;
use gmp_sched::platform::Platform;
use gmp_sched::time;

use super::{Network, Stack, StackStream};
use crate::abandoned::caller;
use crate::address::{ToSocketAddr, lookup_name};
use crate::error::NetError;
use crate::listener::TcpListener;
use crate::readiness::Waits;
use crate::socket::{ListenerSocket, Open, Socket, Way};

/// A listener of a stack.
#[expect(missing_debug_implementations, reason = "the type that programs use implements it")]
pub struct StackListener<Plat: Platform> {
    stack: &'static Stack<Plat>,
    index: usize,
    address: SocketAddr,
    waits: &'static Waits<Plat>,
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
        stack.bind(address.ip(), |state| {
            let (index, port, waits) = state.listen(address)?;
            Ok(Self { stack, index, address: SocketAddr::new(address.ip(), port), waits })
        })
    }
}

impl<Plat: Platform> Socket for StackListener<Plat> {
    type Platform = Plat;

    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn selectable(&self, _: Way) -> Result<Receiver<(), Plat>, NetError> {
        let user = caller::<Plat>();
        self.stack.with(|state| {
            state.listeners[self.index].users.add(user);
            state.acceptable(self.index)
        })
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
        self.stack.wait(limit, &self.waits.readable, |state| {
            let place = &mut state.listeners[self.index];
            if place.is_abandoned {
                return Some(Err(NetError::ConnectionReset));
            }
            place.users.add(user);
            let index = state.accept(self.index)?;
            Some(Ok(StackStream::new(self.stack, state, index, user)))
        })
    }
}

impl<Plat: Platform> Drop for StackListener<Plat> {
    fn drop(&mut self) {
        self.stack.with(|state| state.unlisten(self.index, time::now::<Plat>()));
    }
}
