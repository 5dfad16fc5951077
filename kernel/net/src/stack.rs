//! A stack: its shards, and what they have in common.

#[cfg(test)]
mod exploration;
mod listener;
mod make;
mod stream;
#[cfg(test)]
mod tests;
mod udp;

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Add;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gmp_sched::cancel::Limit;
use gmp_sched::goroutine::GoroutineId;
use gmp_sched::platform::Platform;
use gmp_sched::sync::Mutex;
use smoltcp::wire::DnsQueryType;

pub use self::listener::StackListener;
pub(crate) use self::make::Memory;
pub use self::stream::StackStream;
pub use self::udp::StackDatagrams;
use crate::error::NetError;
use crate::listeners::{Listener, Listeners};
use crate::shard::Shard;
use crate::state::State;
use crate::steering::Steering;

/// The shard that has the UDP sockets, and the services: DHCP, DNS, and the search for IPv6 addresses.
pub(crate) const OWNER: usize = 0;

/// The addresses of a computer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Configuration {
    /// The address of the computer, and how many of its bits are those of the network. Without it, DHCP is used.
    pub address: Option<(Ipv4Addr, u8)>,
    /// The computer that passes packets on to other networks.
    pub gateway: Option<Ipv4Addr>,
    /// The IPv6 addresses.
    pub ipv6: Ipv6,
    /// The server that knows the addresses of names. If it is `None`, the servers that DHCP names are used.
    pub dns: Option<IpAddr>,
    /// Random: determines the sequence numbers and ports of connections.
    pub seed: u64,
    /// The number of shards among which the connections are divided, each with a lock and a G of its own: a power of two,
    /// or 0, which means 1. With several shards, several CPUs can work for the connections at the same time.
    pub shards: usize,
}

/// Which IPv6 addresses a computer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ipv6 {
    /// None.
    #[default]
    Off,
    /// One for its link, and another one if there is a router that says how it begins.
    Automatic,
    /// One for its link, except for a loopback, and this one.
    Fixed {
        /// The address, and how many of its bits are those of the network.
        address: (Ipv6Addr, u8),
        /// The computer that passes packets on to other networks.
        gateway: Option<Ipv6Addr>,
    },
}

/// How many objects of a stack are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Usage {
    /// Connections: those of streams, those that wait for `accept`, half-open ones, and those whose rest is being sent.
    pub connections: usize,
    /// Connections that the peer has not confirmed.
    pub half_open: usize,
    /// Listeners.
    pub listeners: usize,
    /// UDP sockets.
    pub udp_sockets: usize,
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            connections: self.connections + other.connections,
            half_open: self.half_open + other.half_open,
            listeners: self.listeners + other.listeners,
            udp_sockets: self.udp_sockets + other.udp_sockets,
        }
    }
}

/// A platform that has a stack for each address, so that programs need not name the stack.
pub trait Network: Platform {
    /// Returns the stack by which `address` is reached, or on which a listener with this address listens. The first
    /// call may set it up.
    ///
    /// # Errors
    ///
    /// [`NetError::NoNetwork`] if the computer has no network device, and other errors if the device cannot be used.
    fn stack(address: IpAddr) -> Result<&'static Stack<Self>, NetError>;
}

/// The protocols over one link.
pub struct Stack<Plat: Platform> {
    /// Each connection is in one of them. The first one is the [`OWNER`].
    shards: Vec<Shard<Plat>>,
    /// Gives the shards the frames of a link, if there are several.
    steering: Option<&'static Steering<Plat>>,
    listeners: &'static Listeners<Plat>,
    /// How many connections this computer has begun. They are begun in all shards in turn.
    begun: AtomicUsize,
    /// The Gs that have ended without dropping their values, and whose connections, listeners and UDP sockets are still there.
    abandoned: Mutex<Vec<GoroutineId>, Plat>,
    /// Whether `abandoned` contains any G.
    has_abandoned: AtomicBool,
}

impl<Plat: Platform> fmt::Debug for Stack<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}

impl<Plat: Platform> Stack<Plat> {
    /// Wakes the G that takes frames from the link. Called by the interrupt of the link. Callable from everywhere.
    pub fn announce(&'static self) {
        match self.steering {
            Some(steering) => steering.announce(),
            None => self.owner().announce(),
        }
    }

    /// Ends what is left behind by a G that ends without dropping its values: connections that it has used last, and
    /// listeners and UDP sockets that no other G has used. Their peers get a reset. Called by the G, which has no lock
    /// of this crate unless it panics in this crate. Blocks it for a short time. A G that serves the stack does the
    /// rest.
    pub fn abandon(&'static self, goroutine: GoroutineId) {
        let mut abandoned = self.abandoned.lock();
        // Without memory, what the G had stays.
        if abandoned.try_reserve(1).is_ok() {
            abandoned.push(goroutine);
        }
        drop(abandoned);
        // Ordering: Release; partner: the swap in `end_abandoned`.
        self.has_abandoned.store(true, Ordering::Release);
        self.owner().announce();
    }

    /// Returns how many Gs serve the stack.
    pub fn servers(&self) -> usize {
        self.shards.len() + usize::from(self.steering.is_some())
    }

    /// Serves a part of the stack, for ever, or until the [network](crate::sim::Network) of a simulated host is
    /// dropped. A stack needs a G for each number from 0 to [`servers`](Self::servers) - 1, which calls this function
    /// with the number.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or another G serves this part.
    pub fn serve(&'static self, number: usize) {
        match (self.shards.get(number), self.steering) {
            (Some(owner), _) if number == OWNER => owner.serve(|| {
                self.end_abandoned();
                self.tell_addresses();
            }),
            (Some(shard), _) => shard.serve(|| {}),
            (None, Some(steering)) => {
                let shard = |number: usize| &self.shards[number];
                steering.serve(|number| shard(number).announce(), |number| shard(number).serve_now());
            }
            (None, None) => {}
        }
    }

    /// Ends all connections, listeners and UDP sockets of a link that is broken, and then the Gs that serve it.
    pub(crate) fn close(&'static self) {
        // First, so that no call finds the end of its listener before that of the link.
        self.listeners.note_broken();
        while let Some(listener) = self.listeners.first() {
            self.end_listener(listener);
        }
        self.shards.iter().for_each(Shard::close);
        self.steering.inspect(|steering| steering.close());
    }

    /// Ends what Gs have left behind that have ended.
    fn end_abandoned(&'static self) {
        // Ordering: Acquire; partner: `abandon`. The numbers are there when the flag is set.
        if !self.has_abandoned.swap(false, Ordering::Acquire) {
            return;
        }
        let ended = core::mem::take(&mut *self.abandoned.lock());
        for goroutine in ended {
            self.shards.iter().for_each(|shard| shard.with(|state| state.abandon(goroutine, state.now())));
            while let Some(listener) = self.listeners.left_by(goroutine) {
                self.end_listener(listener);
            }
        }
    }

    /// Tells the other shards the addresses that the services have found.
    fn tell_addresses(&'static self) {
        let [owner, others @ ..] = &self.shards[..] else { return };
        if !others.is_empty()
            && let Some(own) = owner.take_news()
        {
            others.iter().for_each(|shard| shard.with(|state| state.adopt(own, state.now())));
        }
    }

    /// Ends a listener, and resets its connections that no program has accepted. Its index stays in use.
    fn end_listener(&'static self, index: usize) {
        for it in self.listeners.end(index).into_iter().flat_map(Listener::connections) {
            self.shards[it.shard].with(|state| state.reset(it.index, index, state.now()));
        }
    }

    /// Returns the shard with the UDP sockets and the services.
    fn owner(&self) -> &Shard<Plat> {
        &self.shards[OWNER]
    }

    /// Returns the shard for the next connection that this computer begins.
    fn next_shard(&self) -> &Shard<Plat> {
        &self.shards[self.begun.fetch_add(1, Ordering::Relaxed) % self.shards.len()]
    }

    /// Returns the IPv4 address of the computer, or `None` if DHCP has not found it yet.
    pub fn address(&'static self) -> Option<Ipv4Addr> {
        self.owner().with(|state| state.own.ipv4).map(|own| own.address())
    }

    /// Whether the link is connected, as far as the device knows.
    pub fn is_link_up(&'static self) -> bool {
        self.owner().with(|state| state.is_link_up())
    }

    /// Returns how many connections and listeners there are.
    pub fn usage(&'static self) -> Usage {
        let (listeners, half_open) = self.listeners.count();
        let counts = self.shards.iter().map(|shard| shard.with(|state| state.count()));
        let (connections, udp_sockets) = counts.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
        Usage { connections, half_open, listeners, udp_sockets }
    }

    /// Makes a listener or a UDP socket by `bind`. The address has to be one of the computer, or to stand for all of
    /// them.
    fn bind<R>(
        &'static self,
        address: IpAddr,
        bind: impl FnOnce(&mut State<Plat>) -> Result<R, NetError>,
    ) -> Result<R, NetError> {
        self.owner().with(|state| {
            if !address.is_unspecified() && !state.interface.has_ip_addr(address) {
                return Err(NetError::AddrNotAvailable);
            }
            state.check_link()?;
            bind(state)
        })
    }

    /// Waits until the computer has an IPv4 address, and returns it.
    ///
    /// # Errors
    ///
    /// If the limit ends the wait, or the device is broken.
    pub fn wait_for_address<'l>(&'static self, limit: impl Into<Limit<'l, Plat>>) -> Result<Ipv4Addr, NetError> {
        match self.wait_for_source(IpAddr::V4(Ipv4Addr::UNSPECIFIED), limit.into())? {
            IpAddr::V4(address) => Ok(address),
            IpAddr::V6(_) => Err(NetError::AddrNotAvailable),
        }
    }

    /// Waits until the computer has an address from which it can reach `peer`, and returns it.
    ///
    /// # Errors
    /// If the limit ends the wait, the device is broken, or no router names an IPv6 address.
    pub(crate) fn wait_for_source(&'static self, peer: IpAddr, limit: Limit<'_, Plat>) -> Result<IpAddr, NetError> {
        let owner = self.owner();
        owner.wait(limit, &owner.configured.readable, |state| state.source_if_known(peer))
    }

    /// Looks up the addresses of a name. IPv6 addresses are looked up only if the name has no IPv4 address, and if the
    /// computer has an IPv6 address that is valid beyond its link.
    ///
    /// # Errors
    ///
    /// [`NetError::NameNotFound`] if there is no server for names, the server does not know the name, or it does not
    /// answer. Another error if the name is not valid, too many names are looked up at the same time, the limit ends the
    /// wait, or the device is broken.
    pub fn lookup<'l>(&'static self, name: &str, limit: impl Into<Limit<'l, Plat>>) -> Result<Vec<IpAddr>, NetError> {
        let limit = limit.into();
        let server = self.owner().with(|state| state.services.name_server);
        self.wait_for_source(server.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), limit)?;
        match self.query(name, DnsQueryType::A, limit) {
            Err(NetError::NameNotFound) if self.owner().with(|state| state.own.global.is_some()) => {
                self.query(name, DnsQueryType::Aaaa, limit)
            }
            result => result,
        }
    }

    fn query(&'static self, name: &str, kind: DnsQueryType, limit: Limit<'_, Plat>) -> Result<Vec<IpAddr>, NetError> {
        let owner = self.owner();
        let query = owner.with(|state| state.ask(name, kind, state.now()))?;
        let mut is_over = false;
        let addresses = owner.wait(limit, &owner.configured.readable, |state| {
            let answer = state.answer(query);
            is_over = answer.is_some();
            answer
        });
        if !is_over {
            owner.with(|state| state.cancel(query));
        }
        addresses
    }
}
