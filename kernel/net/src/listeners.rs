//! The listeners of a stack. Connections of all shards come to them, so they have a lock of their own, which is taken
//! with the lock of at most one shard, and after it.
//!
//! ```text
//!   a shard          SYN ─▶ half-open ─▶ confirmed: ready ─────────┐
//!   the listeners           counted       in the queue             ▼
//!   accept                                the lock of the listeners, then that of the shard
//! ```
//!
//! A connection that `accept` has taken from the queue belongs to no other G, so it is still there when `accept` has
//! locked its shard. A listener that ends keeps its place until its connections have been reset, one shard after the
//! other: a new listener cannot get the connections of an old one.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use gmp_sched::cancel::Limit;
use gmp_sched::chan::Receiver;
use gmp_sched::goroutine::GoroutineId;
use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::sync::{LimitedMutex as _, Mutex};

use crate::abandoned::Users;
use crate::error::NetError;
use crate::key::{Key, overlap};
use crate::memory::{Reserved, room};
use crate::readiness::{Readiness, Served, Waits};
use crate::state::FIRST_FREE_PORT;
use crate::wake::WokenBy;

/// The largest number of connections of a listener that are half-open or wait for `accept`.
pub(crate) const BACKLOG: usize = 128;

/// Names a connection of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionId {
    pub(crate) shard: usize,
    pub(crate) index: usize,
}

/// A listener.
pub(crate) struct Listener {
    /// The address, which may be unspecified.
    address: IpAddr,
    port: u16,
    /// The connections that their peers have not confirmed.
    half_open: Vec<ConnectionId>,
    /// The connections that wait for `accept`.
    ready: VecDeque<ConnectionId>,
}

impl Listener {
    /// Returns the connections that no program has accepted.
    pub(crate) fn connections(self) -> impl Iterator<Item = ConnectionId> {
        self.half_open.into_iter().chain(self.ready)
    }
}

/// A place for a listener. `accept` waits in the queue `waits.readable`.
struct Place<Plat: Platform> {
    listener: Option<Listener>,
    waits: &'static Waits<Plat>,
    /// For selects that wait for a connection.
    select: Readiness<Plat>,
    users: Users,
    /// Whether a program still has the `StackListener` of this place. The listener may have ended before: see
    /// `abandoned`.
    is_owned: bool,
}

struct Table<Plat: Platform> {
    places: Vec<Place<Plat>>,
    /// Whether the link is broken.
    is_broken: bool,
    woken_by: WokenBy,
}

/// The listeners, by their indices.
pub(crate) struct Listeners<Plat: Platform>(Mutex<Table<Plat>, Plat>);

impl<Plat: Platform> Served for Table<Plat> {
    fn woken_by(&self) -> WokenBy {
        self.woken_by
    }
}

impl<Plat: Platform> Table<Plat> {
    fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.places.iter().filter_map(|place| place.listener.as_ref())
    }

    fn is_listened(&self, address: IpAddr, port: u16) -> bool {
        self.listeners().any(|other| other.port == port && overlap(other.address, address))
    }

    fn listener(&mut self, index: usize) -> Option<&mut Listener> {
        self.places[index].listener.as_mut()
    }

    /// Takes the next connection that waits for `accept`.
    fn take(&mut self, index: usize) -> Option<ConnectionId> {
        let Place { listener, select, .. } = &mut self.places[index];
        let ready = &mut listener.as_mut()?.ready;
        let connection = ready.pop_front()?;
        if !ready.is_empty() {
            select.announce();
        }
        Some(connection)
    }
}

impl<Plat: Platform> Listeners<Plat> {
    pub(crate) const fn new(woken_by: WokenBy) -> Self {
        Self(Mutex::new(Table { places: Vec::new(), is_broken: false, woken_by }))
    }

    /// Makes a listener. Returns its index and its port, which is a free one if the port of `at` is 0.
    pub(crate) fn listen(&self, at: SocketAddr) -> Result<(usize, u16), NetError> {
        let (table, address) = (&mut *self.0.lock(), at.ip());
        let is_free = |port: &u16| !table.is_listened(address, *port);
        let port = match at.port() {
            0 => (FIRST_FREE_PORT..=u16::MAX).find(is_free),
            port => Some(port).filter(is_free),
        };
        let port = port.ok_or(NetError::AddrInUse)?;
        let (half_open, ready) = (room(BACKLOG)?, room(BACKLOG)?.into());
        let unused = table.places.iter().position(|place| !place.is_owned);
        let index = unused.unwrap_or(table.places.len());
        if unused.is_none() {
            table.places.try_reserve(1).map_err(|_| OutOfResources)?;
            let (waits, select) = (Reserved::new()?.fill(Waits::new()), Readiness::new());
            table.places.push(Place { listener: None, waits, select, users: Users::Nobody, is_owned: false });
        }
        let place = &mut table.places[index];
        (place.listener, place.users) = (Some(Listener { address, port, half_open, ready }), Users::Nobody);
        place.is_owned = true;
        Ok((index, port))
    }

    /// Whether there is a listener with this port, and with an address that [overlaps](overlap) this one.
    pub(crate) fn is_listened(&self, address: IpAddr, port: u16) -> bool {
        self.0.lock().is_listened(address, port)
    }

    /// Adds a half-open connection, which `add` makes, to the listener for this key. `add` gets the index of the
    /// listener. Returns `None` if there is no listener.
    ///
    /// # Errors
    /// If the listener has no room, and if `add` returns an error.
    pub(crate) fn begin(
        &self,
        key: Key,
        add: impl FnOnce(usize) -> Result<ConnectionId, OutOfResources>,
    ) -> Result<Option<ConnectionId>, OutOfResources> {
        let mut table = self.0.lock();
        let takes = |it: &Listener| it.port == key.port && overlap(it.address, key.local);
        let place = table.places.iter().position(|place| place.listener.as_ref().is_some_and(takes));
        let Some((index, listener)) = place.and_then(|index| Some((index, table.listener(index)?))) else {
            return Ok(None);
        };
        if listener.half_open.len() + listener.ready.len() >= BACKLOG {
            return Err(OutOfResources);
        }
        let added = add(index)?;
        // There is room for the whole backlog.
        listener.half_open.push(added);
        Ok(Some(added))
    }

    /// Notes that a connection is no longer half-open. If it `is_ready`, it now waits for `accept`, unless the listener
    /// has ended.
    pub(crate) fn leave_half_open(&self, index: usize, connection: ConnectionId, is_ready: bool) {
        let mut table = self.0.lock();
        let Some(listener) = table.listener(index) else { return };
        listener.half_open.retain(|&other| other != connection);
        if is_ready {
            // There is room for the whole backlog.
            listener.ready.push_back(connection);
            table.places[index].waits.readable.notify_one();
            table.places[index].select.announce();
        }
    }

    /// Waits for a connection, and removes it from the listener's queue. The caller has to pass it to
    /// [`State::take_over`](crate::state::State::take_over), which hands it to the program.
    ///
    /// # Errors
    /// If the limit ends the wait, the link is broken, or the listener was abandoned.
    pub(crate) fn wait(
        &self,
        index: usize,
        user: GoroutineId,
        limit: Limit<'_, Plat>,
    ) -> Result<ConnectionId, NetError> {
        let mut table = self.0.lock_until(limit)?;
        loop {
            if table.is_broken {
                return Err(NetError::Device);
            }
            if table.listener(index).is_none() {
                return Err(NetError::ConnectionReset);
            }
            table.places[index].users.add(user);
            if let Some(connection) = table.take(index) {
                return Ok(connection);
            }
            let waits = table.places[index].waits;
            waits.readable.wait_limited(&mut table, limit)?;
        }
    }

    /// Returns the receiver for a select that waits for a connection.
    pub(crate) fn acceptable(&self, index: usize, user: GoroutineId) -> Result<Receiver<(), Plat>, NetError> {
        let table = &mut *self.0.lock();
        let Place { listener, select, users, .. } = &mut table.places[index];
        users.add(user);
        let need_not_wait = listener.as_ref().is_none_or(|listener| !listener.ready.is_empty());
        select.receiver(table.woken_by, || table.is_broken || need_not_wait)
    }

    /// Ends a listener, if it has not ended. The caller has to reset its connections, and then to [free](Self::free)
    /// the place if the program has dropped the value.
    pub(crate) fn end(&self, index: usize) -> Option<Listener> {
        let place = &mut self.0.lock().places[index];
        place.select = Readiness::new();
        place.listener.take()
    }

    /// Frees the place of a listener, so that another one may get its index.
    pub(crate) fn free(&self, index: usize) {
        self.0.lock().places[index].is_owned = false;
    }

    /// Returns the first listener that has not ended, and that no other G than this one has used.
    pub(crate) fn left_by(&self, goroutine: GoroutineId) -> Option<usize> {
        let is_left = |place: &Place<Plat>| place.listener.is_some() && place.users == Users::One(goroutine);
        self.0.lock().places.iter().position(is_left)
    }

    /// Returns the first listener that has not ended.
    pub(crate) fn first(&self) -> Option<usize> {
        self.0.lock().places.iter().position(|place| place.listener.is_some())
    }

    /// Notes that the link is broken, so that no call succeeds any more, and wakes all Gs that wait.
    pub(crate) fn note_broken(&self) {
        let table = &mut *self.0.lock();
        table.is_broken = true;
        for place in &table.places {
            place.waits.readable.notify_all();
            place.select.announce();
        }
    }

    /// Returns the number of listeners, and that of their half-open connections.
    pub(crate) fn count(&self) -> (usize, usize) {
        let table = self.0.lock();
        (table.listeners().count(), table.listeners().map(|listener| listener.half_open.len()).sum())
    }

    /// Fills the backlog of a listener with connections that are never confirmed, except for `free` places.
    #[cfg(test)]
    pub(crate) fn fill(&self, index: usize, free: usize) {
        let mut table = self.0.lock();
        let half_open = &mut table.listener(index).unwrap().half_open;
        half_open.resize(BACKLOG - free, ConnectionId { shard: 0, index: usize::MAX });
    }

    /// Returns how many connections of a listener no program has accepted.
    #[cfg(test)]
    pub(crate) fn waiting(&self, index: usize) -> usize {
        let mut table = self.0.lock();
        let listener = table.listener(index).unwrap();
        listener.half_open.len() + listener.ready.len()
    }

    #[cfg(test)]
    pub(crate) fn take(&self, index: usize) -> Option<ConnectionId> {
        self.0.lock().take(index)
    }

    #[cfg(test)]
    pub(crate) fn set_users(&self, index: usize, users: Users) {
        self.0.lock().places[index].users = users;
    }
}
