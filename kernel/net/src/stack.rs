//! A stack: its lock, and the G that serves its link.

mod listener;
mod stream;
mod udp;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Add;
use core::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::cancel::Limit;
use gmp_sched::goroutine::GoroutineId;
use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::sync::{LimitedCondvar as _, LimitedMutex as _, Mutex, MutexGuard};
use gmp_sched::time;
use smoltcp::wire::DnsQueryType;

pub use self::listener::StackListener;
pub use self::stream::StackStream;
pub use self::udp::StackDatagrams;
use crate::buffers::MakeRoom;
use crate::error::NetError;
use crate::link::Link;
use crate::readiness::Waits;
use crate::state::State;
use crate::wake::Wake;

/// The number of frames, and of connections with something due, after which the G that serves the link lets other Gs use the stack.
const BATCH: usize = 32;

/// The addresses of a computer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Configuration {
    /// The address of the computer, and how many of its bits are those of the network. Without it, DHCP is used.
    pub address: Option<(Ipv4Addr, u8)>,
    /// The computer that passes packets on to other networks.
    pub gateway: Option<Ipv4Addr>,
    /// The addresses of the kind IPv6.
    pub ipv6: Ipv6,
    /// The server that knows the addresses of names. Without it, those are used that DHCP names.
    pub dns: Option<IpAddr>,
    /// Random: determines the sequence numbers and ports of connections.
    pub seed: u64,
}

/// Which addresses of the kind IPv6 a computer has.
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
    state: Mutex<State<Plat>, Plat>,
    /// For calls that wait for an address of this computer, or of a name.
    pub(crate) configured: &'static Waits<Plat>,
    /// Wakes the G that serves the link.
    wake: Wake<Plat>,
    /// The Gs that have ended without dropping their values, and what they have left behind is still there.
    abandoned: Mutex<Vec<GoroutineId>, Plat>,
    /// Whether there are any.
    has_abandoned: AtomicBool,
    /// Whether the link is broken for ever, so that nobody has to serve it.
    is_closed: AtomicBool,
}

impl<Plat: Platform> fmt::Debug for Stack<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}

impl<Plat: Platform> Stack<Plat> {
    /// Makes a stack. `make_room` makes the buffers of connections. A G must call [`serve`](Self::serve).
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn new(
        link: Box<dyn Link>,
        make_room: MakeRoom,
        configuration: &Configuration,
    ) -> Result<Self, OutOfResources> {
        Self::with_wake(link, make_room, configuration, Wake::by_device())
    }

    /// Like [`new`](Self::new), for a link that announces frames to the G that serves it in this way.
    pub(crate) fn with_wake(
        link: Box<dyn Link>,
        make_room: MakeRoom,
        configuration: &Configuration,
        wake: Wake<Plat>,
    ) -> Result<Self, OutOfResources> {
        let state = State::new(link, make_room, configuration, time::now::<Plat>())?;
        let [has_abandoned, is_closed] = [const { AtomicBool::new(false) }; 2];
        let (configured, abandoned) = (state.configured, Mutex::new(Vec::new()));
        Ok(Self { state: Mutex::new(state), configured, wake, abandoned, has_abandoned, is_closed })
    }

    /// Wakes the G that serves the link. Called by the interrupt of the link. Callable from everywhere.
    pub fn announce(&'static self) {
        self.wake.raise();
    }

    /// Ends what a G has left behind, which ends without dropping its values: connections that it has used last, and
    /// listeners and UDP sockets that no other G has used. Their peers get a reset. Called by the G, which has no lock of
    /// this crate unless it panics in this crate. Blocks it for a short time. The G that serves the link does the rest.
    pub fn abandon(&'static self, goroutine: GoroutineId) {
        let mut abandoned = self.abandoned.lock();
        // Without memory, what the G had stays.
        if abandoned.try_reserve(1).is_ok() {
            abandoned.push(goroutine);
        }
        drop(abandoned);
        // Ordering: Release; partner: the swap in `serve`.
        self.has_abandoned.store(true, Ordering::Release);
        self.wake.raise();
    }

    /// Serves the link, for ever, or until the [network](crate::sim::Network) of a simulated host is dropped. Called by one
    /// G.
    ///
    /// # Panics
    ///
    /// If the caller is not a G, or another G serves the link.
    pub fn serve(&'static self) {
        // Ordering: the lock of the state, or `wake`, orders this and `close`.
        while !self.is_closed.load(Ordering::Relaxed) {
            self.end_abandoned();
            // ANCHOR: serve
            let mut state = self.state.lock();
            let now = time::now::<Plat>();
            let has_more = state.receive(BATCH, now) | state.run_timers(BATCH, now);
            let until = state.sleep();
            drop(state);
            if has_more {
                gmp_sched::yield_now::yield_now::<Plat>();
            } else {
                self.wake.wait_until(until);
            }
            // ANCHOR_END: serve
        }
    }

    /// Ends all connections, listeners and UDP sockets of a link that is broken, and then the G that serves it.
    pub(crate) fn close(&'static self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.state.lock().close(time::now::<Plat>());
        self.wake.raise();
    }

    /// Ends what Gs have left behind that have ended.
    fn end_abandoned(&'static self) {
        // Ordering: Acquire; partner: `abandon`. The numbers are there when the flag is set.
        if self.has_abandoned.swap(false, Ordering::Acquire) {
            let (mut state, now) = (self.state.lock(), time::now::<Plat>());
            self.abandoned.lock().drain(..).for_each(|goroutine| state.abandon(goroutine, now));
        }
    }

    /// Returns the IPv4 address of the computer, or `None` if DHCP has not found it yet.
    pub fn address(&self) -> Option<Ipv4Addr> {
        self.state.lock().address()
    }

    /// Whether the link is connected, as far as the device knows.
    pub fn is_link_up(&self) -> bool {
        self.state.lock().is_link_up()
    }

    /// Returns how many connections and listeners there are.
    pub fn usage(&self) -> Usage {
        self.state.lock().usage()
    }

    /// Makes a listener or a UDP socket by `bind`. The address has to be one of the computer, or to stand for all of them.
    fn bind<R>(
        &'static self,
        address: IpAddr,
        bind: impl FnOnce(&mut State<Plat>) -> Result<R, NetError>,
    ) -> Result<R, NetError> {
        self.with(|state| {
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
        self.wait(limit, &self.configured.readable, |state| state.source_if_known(peer))
    }

    /// Looks up the addresses of a name. Those of the kind IPv6 are looked up only if there is none of the kind IPv4, and if
    /// the computer has an address of the kind IPv6 that is valid beyond its link.
    ///
    /// # Errors
    ///
    /// [`NetError::NameNotFound`] if there is no server for names, the server does not know the name, or it does not
    /// answer. If the name is not valid, too many names are looked up at the same time, the limit ends the wait, or the
    /// device is broken.
    pub fn lookup<'l>(&'static self, name: &str, limit: impl Into<Limit<'l, Plat>>) -> Result<Vec<IpAddr>, NetError> {
        let limit = limit.into();
        let server = self.with(|state| state.services.name_server);
        self.wait_for_source(server.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), limit)?;
        match self.query(name, DnsQueryType::A, limit) {
            Err(NetError::NameNotFound) if self.with(|state| state.ipv6.has_global()) => {
                self.query(name, DnsQueryType::Aaaa, limit)
            }
            result => result,
        }
    }

    fn query(&'static self, name: &str, kind: DnsQueryType, limit: Limit<'_, Plat>) -> Result<Vec<IpAddr>, NetError> {
        let query = self.with(|state| state.ask(name, kind, time::now::<Plat>()))?;
        let mut is_over = false;
        let addresses = self.wait(limit, &self.configured.readable, |state| {
            let answer = state.answer(query);
            is_over = answer.is_some();
            answer
        });
        if !is_over {
            self.with(|state| state.cancel(query));
        }
        addresses
    }

    /// Locks the state for as long as it takes to call `act`.
    pub(crate) fn with<R>(&'static self, act: impl FnOnce(&mut State<Plat>) -> R) -> R {
        self.finish(self.state.lock(), act)
    }

    /// Calls `act` with the state, and then unlocks it.
    fn finish<R>(
        &'static self,
        mut state: MutexGuard<'_, State<Plat>, Plat>,
        act: impl FnOnce(&mut State<Plat>) -> R,
    ) -> R {
        let result = act(&mut state);
        self.unlock(state);
        result
    }

    /// Ends a piece of work, and unlocks the state. The G that serves the link is woken only afterwards: it may displace
    /// the caller, and would wait for the lock.
    fn unlock(&'static self, mut state: MutexGuard<'_, State<Plat>, Plat>) {
        let is_needed = state.finish();
        drop(state);
        if is_needed {
            self.wake.raise();
        }
    }

    /// Calls `act` with the state until it returns a result. Before each further call, waits in the queue that `queue`
    /// returns.
    ///
    /// # Errors
    /// If the limit ends the wait, or the device is broken.
    pub(crate) fn wait<R>(
        &'static self,
        limit: Limit<'_, Plat>,
        queue: &gmp_sched::sync::Condvar<Plat>,
        mut act: impl FnMut(&mut State<Plat>) -> Option<Result<R, NetError>>,
    ) -> Result<R, NetError> {
        // ANCHOR: wait
        let mut state = self.state.lock_until(limit)?;
        loop {
            state.check_link()?;
            if let Some(result) = act(&mut state) {
                self.unlock(state);
                return result;
            }
            if state.finish() {
                self.wake.raise();
            }
            queue.wait_limited(&mut state, limit)?;
        }
        // ANCHOR_END: wait
    }
}
