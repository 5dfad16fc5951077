//! The table of connections.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};

use foldhash::fast::FixedState;
use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::sync::Condvar;
use gmp_sched::time::Instant;
use hashbrown::HashMap;
use smoltcp::iface::{SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::socket::udp;

use crate::deadlines::Deadlines;

/// The buffers of a connection, for data that was received and for data to send.
const BUFFER_BYTES: usize = 16 * 1024;

/// How many datagrams each of the two buffers of a UDP socket holds at most.
const DATAGRAMS: usize = 16;

/// What distinguishes the connections of this computer, which has one address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub(crate) protocol: Protocol,
    pub(crate) peer: Ipv4Addr,
    pub(crate) peer_port: u16,
    pub(crate) port: u16,
}

/// A protocol with ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

impl Key {
    /// Returns the key of a UDP socket, which gets the datagrams of all peers.
    pub(crate) const fn of_datagrams(port: u16) -> Self {
        Self { protocol: Protocol::Udp, peer: Ipv4Addr::UNSPECIFIED, peer_port: 0, port }
    }
}

/// To whom a connection belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// To the listener with this index. The peer has not confirmed the connection yet.
    HalfOpen(usize),
    /// To the listener with this index, in its queue for `accept`.
    Queued(usize),
    /// To a stream of the program.
    Stream,
    /// To a UDP socket of the program.
    Datagrams,
    /// To no one: the program has dropped its stream, and the rest of the data is being sent.
    Closing,
}

/// A connection, or a UDP socket.
pub(crate) struct Connection {
    pub(crate) key: Key,
    pub(crate) owner: Owner,
    /// The socket is alone in its set: see the documentation of the crate.
    pub(crate) sockets: SocketSet<'static>,
    handle: SocketHandle,
    /// The only peer of a UDP socket, if the program has chosen one.
    pub(crate) peer: Option<SocketAddrV4>,
    /// When the connection is given up if it belongs to no stream, and nothing arrives. When the datagrams of a UDP
    /// socket are dropped if its neighbour does not answer.
    pub(crate) end: Instant,
    /// Whether its last segment could not be sent because the MAC address of the neighbour is not known.
    pub(crate) is_unresolved: bool,
    /// Whether the program has shut down the half for reading, and that for writing.
    pub(crate) is_shut: [bool; 2],
}

impl Connection {
    fn new(key: Key, owner: Owner) -> Result<Self, OutOfResources> {
        let mut storage = Vec::new();
        // The set does not allocate memory when the socket is added.
        storage.try_reserve_exact(1).map_err(|_| OutOfResources)?;
        storage.push(SocketStorage::EMPTY);
        let mut sockets = SocketSet::new(storage);
        let handle = match key.protocol {
            Protocol::Tcp => sockets.add(Socket::new(SocketBuffer::new(buffer()?), SocketBuffer::new(buffer()?))),
            Protocol::Udp => sockets.add(udp::Socket::new(datagrams()?, datagrams()?)),
        };
        Ok(Self {
            key,
            owner,
            sockets,
            handle,
            peer: None,
            end: Instant::NEVER,
            is_unresolved: false,
            is_shut: [false; 2],
        })
    }

    /// Returns the socket of any other owner.
    pub(crate) fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Returns the socket of an owner that is [`Owner::Datagrams`].
    pub(crate) fn datagrams(&mut self) -> &mut udp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

fn buffer() -> Result<Vec<u8>, OutOfResources> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(BUFFER_BYTES).map_err(|_| OutOfResources)?;
    bytes.resize(BUFFER_BYTES, 0);
    Ok(bytes)
}

fn datagrams() -> Result<udp::PacketBuffer<'static>, OutOfResources> {
    let mut places = Vec::new();
    places.try_reserve_exact(DATAGRAMS).map_err(|_| OutOfResources)?;
    places.resize(DATAGRAMS, udp::PacketMetadata::EMPTY);
    Ok(udp::PacketBuffer::new(places, buffer()?))
}

/// The wait queues of a connection, which are used with the lock of the stack. Never freed, only used again.
pub(crate) struct Waits<Plat: Platform> {
    pub(crate) readable: Condvar<Plat>,
    pub(crate) writable: Condvar<Plat>,
}

impl<Plat: Platform> Waits<Plat> {
    /// Allocates wait queues. On stable Rust, safe code can allocate room for one value fallibly only as a vector.
    pub(crate) fn allocate() -> Result<&'static Self, OutOfResources> {
        let mut one = Vec::new();
        one.try_reserve_exact(1).map_err(|_| OutOfResources)?;
        one.push(Self { readable: Condvar::new(), writable: Condvar::new() });
        Ok(&one.leak()[0])
    }
}

struct Slot<Plat: Platform> {
    waits: &'static Waits<Plat>,
    connection: Option<Connection>,
    /// Whether the index is in `unresolved`.
    is_listed: bool,
}

/// The connections, each with an index and wait queues. The table keeps the memory of its largest size.
pub(crate) struct Connections<Plat: Platform> {
    slots: Vec<Slot<Plat>>,
    free: Vec<usize>,
    by_key: HashMap<Key, usize, FixedState>,
    /// When connections need attention.
    deadlines: Deadlines,
    /// The connections that wait for the MAC address of a neighbour.
    unresolved: VecDeque<usize>,
}

impl<Plat: Platform> Connections<Plat> {
    pub(crate) fn new(seed: u64) -> Self {
        let by_key = HashMap::with_hasher(FixedState::with_seed(seed));
        let (slots, free, unresolved) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { slots, free, by_key, deadlines: Deadlines::new(), unresolved }
    }

    /// Returns the number of connections.
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the index of the connection that gets the segments with this key.
    pub(crate) fn find(&self, key: Key) -> Option<usize> {
        self.by_key.get(&key).copied()
    }

    /// Adds a connection, and returns its index. No connection has the key.
    pub(crate) fn add(&mut self, key: Key, owner: Owner) -> Result<usize, OutOfResources> {
        let connection = Connection::new(key, owner)?;
        self.by_key.try_reserve(1).map_err(|_| OutOfResources)?;
        if self.free.is_empty() {
            self.slots.try_reserve(1).map_err(|_| OutOfResources)?;
            // Each slot may become free.
            self.free.try_reserve(self.slots.len() + 1).map_err(|_| OutOfResources)?;
            // Each connection may wait for a neighbour.
            let missing = self.slots.len() + 1 - self.unresolved.len();
            self.unresolved.try_reserve(missing).map_err(|_| OutOfResources)?;
            let waits = Waits::allocate()?;
            self.deadlines.add_index()?;
            self.free.push(self.slots.len());
            self.slots.push(Slot { waits, connection: None, is_listed: false });
        }
        let Some(index) = self.free.pop() else { return Err(OutOfResources) };
        self.slots[index].connection = Some(connection);
        self.by_key.insert(key, index);
        Ok(index)
    }

    /// From now on, no segment goes to the connection, so that the peer can use the port for another one.
    pub(crate) fn forget_key(&mut self, index: usize) {
        if let Some(connection) = &self.slots[index].connection
            && self.by_key.get(&connection.key) == Some(&index)
        {
            self.by_key.remove(&connection.key);
        }
    }

    /// Removes a connection.
    pub(crate) fn remove(&mut self, index: usize) {
        self.forget_key(index);
        if self.slots[index].connection.take().is_some() {
            self.deadlines.set(index, Instant::NEVER);
            self.free.push(index);
        }
    }

    pub(crate) fn get(&mut self, index: usize) -> Option<&mut Connection> {
        self.slots.get_mut(index)?.connection.as_mut()
    }

    pub(crate) fn waits(&self, index: usize) -> &'static Waits<Plat> {
        self.slots[index].waits
    }

    /// Returns the indices of all connections that were ever used at the same time.
    pub(crate) fn indices(&self) -> core::ops::Range<usize> {
        0..self.slots.len()
    }

    /// Notes when a connection needs attention again, and whether it waits for the address of a neighbour.
    pub(crate) fn note(&mut self, index: usize, due: Instant) {
        self.deadlines.set(index, due);
        let slot = &mut self.slots[index];
        let is_unresolved = slot.connection.as_ref().is_some_and(|connection| connection.is_unresolved);
        if is_unresolved && !slot.is_listed {
            slot.is_listed = true;
            self.unresolved.push_back(index);
        }
    }

    /// Returns when the first connection needs attention, and which one that is.
    pub(crate) fn first_due(&self) -> Option<(Instant, usize)> {
        self.deadlines.first()
    }

    /// Returns how many connections may wait for the address of a neighbour.
    pub(crate) fn unresolved(&self) -> usize {
        self.unresolved.len()
    }

    /// Takes one of the connections that may wait for the address of a neighbour.
    pub(crate) fn take_unresolved(&mut self) -> Option<usize> {
        let index = self.unresolved.pop_front()?;
        self.slots[index].is_listed = false;
        Some(index)
    }
}
