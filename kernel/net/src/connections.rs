//! The table of connections, in which `State` finds the connection of a packet.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use gmp_sched::platform::{OutOfResources, Platform};
use gmp_sched::time::Instant;
use hashbrown::HashMap;

use crate::buffers::{Buffers, MakeRoom};
use crate::connection::{Connection, Owner};
use crate::deadlines::Deadlines;
use crate::key::{Key, Protocol};
use crate::memory::Reserved;
use crate::readiness::{Readiness, Waits};

/// How many connections keep memory that contains no data: those that were used last. Such memory of the others is
/// freed. A test keeps none.
const WARM: usize = if cfg!(test) { 0 } else { 64 };

/// From this number of connections on, the memory that was taken away from them is freed. So it is freed for several at
/// once.
const COOLING: usize = if cfg!(test) { 1 } else { 16 };

struct Slot<Plat: Platform> {
    waits: &'static Waits<Plat>,
    /// For selects that wait for a read, or for a write.
    selects: [Readiness<Plat>; 2],
    place: Place,
    /// Whether the index is in `warm`, and in `cooling`.
    is_warm: bool,
    is_cooling: bool,
    /// Whether the index is in `unresolved`.
    is_listed: bool,
}

/// What is at an index.
#[expect(clippy::large_enum_variant, reason = "a table keeps as many places as there were connections at once")]
enum Place {
    /// Perhaps the buffers of an earlier connection.
    Free(Option<Buffers>),
    Used(Connection),
}

impl Place {
    fn connection(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Used(connection) => Some(connection),
            Self::Free(_) => None,
        }
    }

    /// Returns the buffers, and how many bytes their socket has to send if there is one.
    fn buffers(&mut self) -> Option<(&mut Buffers, Option<usize>)> {
        match self {
            Self::Used(connection) => {
                let queued = (connection.key.protocol == Protocol::Tcp).then(|| connection.socket().send_queue());
                Some((connection.buffers.as_mut()?, queued))
            }
            Self::Free(buffers) => Some((buffers.as_mut()?, None)),
        }
    }
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
    make_room: MakeRoom,
    /// The connections whose buffers have memory that contains no data. In the order in which this was found.
    warm: VecDeque<usize>,
    /// The connections that have given up such memory, as long as it cannot be freed yet. In the same order.
    cooling: VecDeque<usize>,
}

impl<Plat: Platform> Connections<Plat> {
    pub(crate) fn new(seed: u64, make_room: MakeRoom) -> Self {
        let by_key = HashMap::with_hasher(FixedState::with_seed(seed));
        let (slots, free, deadlines) = (Vec::new(), Vec::new(), Deadlines::new());
        let [unresolved, warm, cooling] = [const { VecDeque::new() }; 3];
        Self { slots, free, by_key, deadlines, unresolved, make_room, warm, cooling }
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
        self.by_key.try_reserve(1).map_err(|_| OutOfResources)?;
        if self.free.is_empty() {
            self.slots.try_reserve(1).map_err(|_| OutOfResources)?;
            // Each slot may become free.
            self.free.try_reserve(self.slots.len() + 1).map_err(|_| OutOfResources)?;
            // Each connection may be in each of the queues.
            for queue in [&mut self.unresolved, &mut self.warm, &mut self.cooling] {
                queue.try_reserve(self.slots.len() + 1 - queue.len()).map_err(|_| OutOfResources)?;
            }
            let waits = Reserved::new()?;
            self.deadlines.add_index()?;
            let waits = waits.fill(Waits::new());
            self.free.push(self.slots.len());
            let (selects, is_listed, is_warm, is_cooling) = (Default::default(), false, false, false);
            self.slots.push(Slot { waits, selects, place: Place::Free(None), is_warm, is_cooling, is_listed });
        }
        let Some(&index) = self.free.last() else { return Err(OutOfResources) };
        let place = &mut self.slots[index].place;
        let Place::Free(buffers) = place else { return Err(OutOfResources) };
        if key.protocol == Protocol::Tcp && buffers.is_none() {
            *buffers = Some(Buffers::new((self.make_room)()?));
        }
        *place = Place::Used(Connection::new(key, owner, buffers)?);
        self.free.pop();
        self.by_key.insert(key, index);
        Ok(index)
    }

    /// From now on, no segment goes to the connection, so that the peer can use the port for another one.
    pub(crate) fn forget_key(&mut self, index: usize) {
        if let Place::Used(connection) = &self.slots[index].place
            && self.by_key.get(&connection.key) == Some(&index)
        {
            self.by_key.remove(&connection.key);
        }
    }

    /// Removes a connection.
    pub(crate) fn remove(&mut self, index: usize) {
        self.forget_key(index);
        let slot = &mut self.slots[index];
        slot.selects = [const { Readiness::new() }; 2];
        if let Place::Used(connection) = &mut slot.place {
            // Drops the socket.
            slot.place = Place::Free(connection.buffers.take());
            self.deadlines.set(index, Instant::NEVER);
            self.free.push(index);
            self.note_memory(index);
        }
    }

    pub(crate) fn get(&mut self, index: usize) -> Option<&mut Connection> {
        self.slots.get_mut(index)?.place.connection()
    }

    pub(crate) fn waits(&self, index: usize) -> &'static Waits<Plat> {
        self.slots[index].waits
    }

    /// Wakes the Gs that wait for a read, or for a write.
    pub(crate) fn wake(&self, index: usize, [can_read, can_write]: [bool; 2]) {
        let Slot { waits, selects: [read, write], .. } = &self.slots[index];
        if can_read {
            waits.readable.notify_all();
            read.announce();
        }
        if can_write {
            waits.writable.notify_all();
            write.announce();
        }
    }

    /// Closes the channels for selects, because nobody uses the connection any more.
    pub(crate) fn close_selects(&mut self, index: usize) {
        self.slots[index].selects = [const { Readiness::new() }; 2];
    }

    /// Returns what selects use to wait for a connection, and whether a read, and a write, need not wait.
    pub(crate) fn selects(&mut self, index: usize) -> (&mut [Readiness<Plat>; 2], [bool; 2]) {
        let slot = &mut self.slots[index];
        (&mut slot.selects, slot.place.connection().map_or([true; 2], Connection::is_ready))
    }

    /// Returns all indices that a connection has, or has had.
    pub(crate) fn indices(&self) -> core::ops::Range<usize> {
        0..self.slots.len()
    }

    /// Notes when a connection needs attention again, and whether it waits for the address of a neighbour.
    pub(crate) fn note(&mut self, index: usize, due: Instant) {
        self.deadlines.set(index, due);
        let slot = &mut self.slots[index];
        let is_unresolved = slot.place.connection().is_some_and(|connection| connection.sent.is_unresolved);
        if is_unresolved && !slot.is_listed {
            slot.is_listed = true;
            self.unresolved.push_back(index);
        }
        self.note_memory(index);
    }

    /// Notes whether the buffers of a connection have memory that contains no data. If too many connections have such
    /// memory, takes away that of the one that has had it longest. Frees what was taken away.
    pub(crate) fn note_memory(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.is_warm || slot.place.buffers().is_none_or(|(buffers, queued)| buffers.spare(queued) == 0) {
            return;
        }
        slot.is_warm = true;
        self.warm.push_back(index);
        if self.warm.len() > WARM
            && let Some(index) = self.warm.pop_front()
        {
            let slot = &mut self.slots[index];
            slot.is_warm = false;
            let is_cold = slot.place.buffers().is_none_or(|(buffers, queued)| !buffers.withdraw(queued));
            if !is_cold && !slot.is_cooling {
                slot.is_cooling = true;
                self.cooling.push_back(index);
            }
        }
        if self.cooling.len() < COOLING {
            return;
        }
        while let Some(&index) = self.cooling.front()
            && self.slots[index].place.buffers().is_none_or(|(buffers, _)| buffers.reclaim())
        {
            self.cooling.pop_front();
            self.slots[index].is_cooling = false;
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

    /// Returns how many pages of buffers have memory.
    #[cfg(test)]
    pub(crate) fn pages_with_memory(&mut self) -> u32 {
        self.slots
            .iter_mut()
            .filter_map(|slot| slot.place.buffers())
            .map(|(buffers, _)| buffers.present().count_ones())
            .sum()
    }
}
