//! A virtqueue, as the device sees it: the addresses that the driver has set, the descriptors of a request, and the memory
//! that they describe (virtio 1.2, 2.7).

use std::slice;

use crate::memory::Memory;

/// The addresses of the parts of a queue, as the driver has set them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    entries: u16,
    descriptors: u64,
    available: u64,
    used: u64,
    /// The number of requests that the device has taken from the queue, modulo 2^16.
    taken: u16,
    completed: u16,
}

/// A descriptor: address, length, flags, next.
type Descriptor = (u64, u32, u16, u16);
const NEXT: u16 = 1;
const WRITABLE: u16 = 2;
const TABLE: u16 = 4;

fn peek<T: Copy>(address: u64) -> Option<T> {
    // SAFETY: `shared` has checked that the memory is allocated. The read needs no alignment. Every content is valid,
    // because `T` is an integer in all calls.
    Memory::shared(address, size_of::<T>()).map(|memory| unsafe { memory.cast::<T>().read_unaligned() })
}

fn poke<T>(address: u64, value: T) {
    if let Some(memory) = Memory::shared(address, size_of::<T>()) {
        // SAFETY: `shared` has checked that the memory is allocated. The write needs no alignment.
        unsafe { memory.cast::<T>().write_unaligned(value) };
    }
}

/// Reads the descriptor `index` of a table.
fn descriptor(table: u64, entries: u16, index: u16) -> Option<Descriptor> {
    (index < entries).then_some(())?;
    let at = table.checked_add(16 * u64::from(index)).filter(|at| at.checked_add(16).is_some())?;
    Some((peek(at)?, peek(at + 8)?, peek(at + 12)?, peek(at + 14)?))
}

/// Follows the chain that begins with the descriptor `head` of a table. Returns its memory: what the device may read,
/// and then what it may write. Returns `None` if a descriptor is not in the table or refers to another table, or if the
/// chain is longer than the table. Also returns `None` if the device may write a piece before one that it may read.
fn chain(table: u64, entries: u16, head: u16) -> Option<[Chain; 2]> {
    let (mut chains, mut index) = ([Chain::default(), Chain::default()], head);
    for _ in 0..entries {
        let (address, bytes, flags, next) = descriptor(table, entries, index)?;
        let is_written = flags & WRITABLE != 0;
        (flags & TABLE == 0 && (is_written || chains[1].0.is_empty())).then_some(())?;
        chains[usize::from(is_written)].0.push((address, bytes as usize));
        if flags & NEXT == 0 {
            return Some(chains);
        }
        index = next;
    }
    None
}

impl Queue {
    /// A queue that the driver has just set up.
    pub(super) fn new(entries: u16, descriptors: u64, available: u64, used: u64) -> Self {
        Self { entries, descriptors, available, used, taken: 0, completed: 0 }
    }

    /// Takes the next request that the driver has made available.
    pub(super) fn take(&mut self) -> Option<u16> {
        if peek::<u16>(self.available + 2)? == self.taken {
            return None;
        }
        let slot = self.taken % self.entries;
        self.taken = self.taken.wrapping_add(1);
        peek(self.available + 4 + 2 * u64::from(slot))
    }

    /// Returns the memory of the request whose first descriptor is `head`: what the device may read, and then what it
    /// may write. Returns `None` if the descriptors violate the protocol: see [`chain`].
    pub(super) fn pieces(&self, head: u16) -> Option<[Chain; 2]> {
        let (address, bytes, flags, _) = descriptor(self.descriptors, self.entries, head)?;
        if flags & TABLE == 0 {
            return chain(self.descriptors, self.entries, head);
        }
        // No descriptor follows that of a table, and the device does not write the table. The table consists of whole
        // descriptors, and has at most as many as the queue has entries.
        (flags == TABLE && bytes.is_multiple_of(16) && bytes / 16 <= self.entries.into()).then_some(())?;
        chain(address, (bytes / 16) as u16, 0)
    }

    pub(super) fn complete(&mut self, token: u32, written: u32) {
        let at = self.used + 4 + 8 * u64::from(self.completed % self.entries);
        poke(at, token);
        poke(at + 4, written);
        self.completed = self.completed.wrapping_add(1);
        poke(self.used + 2, self.completed);
    }
}

/// Addresses and lengths of pieces of memory. The meaning of a request does not depend on how its memory is divided
/// into pieces (virtio 1.2, 2.7.4).
#[derive(Default)]
pub(super) struct Chain(Vec<(u64, usize)>);

impl Chain {
    /// The lengths of the pieces.
    pub(super) fn lengths(&self) -> impl ExactSizeIterator<Item = usize> {
        self.0.iter().map(|&(_, bytes)| bytes)
    }

    pub(super) fn bytes(&self) -> usize {
        self.lengths().sum()
    }

    /// Returns a copy of the memory, or `None` if a part of it is not shared with the device.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        for &(address, bytes) in &self.0 {
            let from = Memory::shared(address, bytes)?;
            // SAFETY: `shared` has checked that the memory is allocated, and no other code writes to it meanwhile.
            all.extend_from_slice(unsafe { slice::from_raw_parts(from, bytes) });
        }
        Some(all)
    }

    /// Writes `data` to the beginning of the memory, as far as it is shared with the device.
    pub(super) fn write(&self, data: &[u8]) {
        let mut rest = data;
        for &(address, bytes) in &self.0 {
            let (part, others) = rest.split_at(bytes.min(rest.len()));
            if let Some(into) = Memory::shared(address, part.len()) {
                // SAFETY: `shared` has checked that the memory is allocated. `part` is other memory.
                unsafe { into.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            }
            rest = others;
        }
    }
}
