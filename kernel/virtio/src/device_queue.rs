//! A queue as the device sees it: the rings, and the memory of a request (virtio 1.2, 2.7). For devices in software.

#![expect(unsafe_code, reason = "accesses the memory that the driver shares with devices")]

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering};

use crate::Dma;
use crate::ring::MAX_PIECES;
use crate::rings::{NEXT, TABLE, WRITABLE};

#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    bytes: u32,
    flags: u16,
    next: u16,
}

/// Reads the value at `address`, which consists of integers. Returns `None` if the address is not in shared memory.
fn load<M: Dma, T: Copy>(address: u64) -> Option<T> {
    // SAFETY: `at` returns memory that may be read. Only integers are read, so every content is valid.
    M::at(address, size_of::<T>()).map(|memory| unsafe { memory.cast::<T>().read_unaligned() })
}

/// Stores a number at `address`. Does nothing if this memory is not shared.
fn store<M: Dma, T: Copy>(address: u64, value: T) {
    if let Some(memory) = M::at(address, size_of::<T>()) {
        // SAFETY: `at` returns memory that may be written.
        unsafe { memory.cast::<T>().write_unaligned(value) };
    }
}

/// Returns the field `idx` of a ring, which follows the field `flags`. Returns `None` if the field is not in shared
/// memory or not aligned.
fn index_of<'a, M: Dma>(ring: u64) -> Option<&'a AtomicU16> {
    let index = M::at(ring + 2, size_of::<u16>())?.cast::<u16>();
    // SAFETY: the memory may be read and written while the device has the queue, and the reference is used at once.
    // Both sides access the index only by atomic operations.
    index.is_aligned().then(|| unsafe { AtomicU16::from_ptr(index.as_ptr()) })
}

/// Reads the descriptor with this number of a table. Returns `None` if it is not in the table or not in shared memory.
fn descriptor<M: Dma>(table: u64, entries: u16, number: u16) -> Option<Descriptor> {
    (number < entries).then_some(())?;
    load::<M, Descriptor>(table.checked_add((size_of::<Descriptor>() * usize::from(number)) as u64)?)
}

/// Follows the chain that begins with the descriptor `first` of a table with this number of entries. Returns its
/// memory: what the device reads, and what it writes. Returns `None` if a piece is not shared memory, a descriptor is
/// not in the table or refers to another table, there are too many pieces, or the device writes a piece before one that
/// it reads.
fn chain<M: Dma>(table: u64, entries: u16, first: u16) -> Option<[Chain; 2]> {
    let (mut chains, mut number) = ([Chain::default(), Chain::default()], first);
    loop {
        let Descriptor { address, bytes, flags, next } = descriptor::<M>(table, entries, number)?;
        let is_written = flags & WRITABLE != 0;
        (flags & TABLE == 0 && (is_written || chains[1].0.is_empty())).then_some(())?;
        let piece = (M::at(address, bytes as usize)?, bytes as usize);
        chains[usize::from(is_written)].0.push(piece).ok()?;
        if flags & NEXT == 0 {
            return Some(chains);
        }
        number = next;
    }
}

/// A queue that the driver has set up.
#[derive(Debug)]
pub struct DeviceQueue<M> {
    entries: u16,
    /// The addresses of the descriptors, the available ring and the used ring.
    descriptors: u64,
    available: u64,
    used: u64,
    /// How many requests the device has taken, modulo 2^16.
    taken: u16,
    /// How many requests the device has completed, modulo 2^16.
    completed: u16,
    memory: PhantomData<fn() -> M>,
}

impl<M: Dma> DeviceQueue<M> {
    /// Returns a queue with the size and the addresses that the driver has set.
    pub fn new(entries: u16, [descriptors, available, used]: [u64; 3]) -> Self {
        Self { entries, descriptors, available, used, taken: 0, completed: 0, memory: PhantomData }
    }

    /// Takes the next request that the driver has made available. Returns its token, or `None` if no request is
    /// available, or if the available ring is not in shared memory or not aligned.
    pub fn take(&mut self) -> Option<u16> {
        // Ordering: Acquire, so that the device sees the descriptors and the data of the request.
        if index_of::<M>(self.available)?.load(Ordering::Acquire) == self.taken {
            return None;
        }
        let entry = self.taken % self.entries;
        self.taken = self.taken.wrapping_add(1);
        load::<M, u16>(self.available + 4 + 2 * u64::from(entry))
    }

    /// Returns the memory of the request with this token: what the device reads, and what it writes. Returns `None` if
    /// a piece is not shared memory, or the descriptors violate the protocol.
    pub fn chains(&self, token: u16) -> Option<[Chain; 2]> {
        let first = descriptor::<M>(self.descriptors, self.entries, token)?;
        if first.flags & TABLE == 0 {
            return chain::<M>(self.descriptors, self.entries, token);
        }
        // No descriptor follows that of a table, and the device does not write the table. The table consists of whole
        // descriptors, and has at most as many as the queue has entries.
        let entries = first.bytes / size_of::<Descriptor>() as u32;
        let is_table = first.flags == TABLE && first.bytes.is_multiple_of(size_of::<Descriptor>() as u32);
        (is_table && entries <= self.entries.into()).then_some(())?;
        chain::<M>(first.address, entries as u16, 0)
    }

    /// Passes a request back to the driver. `written` is the number of bytes that the device has written. A device that
    /// keeps to the protocol does this once for each token that it has taken.
    pub fn complete(&mut self, token: u32, written: u32) {
        let at = self.used + 4 + 8 * u64::from(self.completed % self.entries);
        store::<M, u32>(at, token);
        store::<M, u32>(at + 4, written);
        self.completed = self.completed.wrapping_add(1);
        if let Some(index) = index_of::<M>(self.used) {
            // Ordering: Release, so that the driver sees the entry and the data of the request.
            index.store(self.completed, Ordering::Release);
        }
    }
}

/// Pieces of memory, which together are a sequence of bytes. The meaning of a request does not depend on how its memory
/// is divided into pieces (virtio 1.2, 2.7.4).
#[derive(Debug, Default)]
pub struct Chain(heapless::Vec<(NonNull<u8>, usize), MAX_PIECES>);

impl Chain {
    /// Returns the lengths of the pieces.
    pub fn lengths(&self) -> impl ExactSizeIterator<Item = usize> {
        self.0.iter().map(|&(_, bytes)| bytes)
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.lengths().sum()
    }

    /// Copies bytes of the sequence, from `offset` on, to `into`. Stops when `into` is full or the sequence ends.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let mut into = into;
        self.for_each(offset, into.len(), |piece, bytes| {
            let (part, rest) = core::mem::take(&mut into).split_at_mut(bytes);
            // SAFETY: `piece` is valid for `bytes` bytes, as is `part`. The piece is shared memory, which is never a
            // part of a slice, so it does not overlap `part`.
            unsafe { part.as_mut_ptr().copy_from_nonoverlapping(piece.as_ptr(), bytes) };
            into = rest;
        });
    }

    /// Copies `from` to the sequence, from `offset` on. Stops when all of `from` is copied or the sequence ends.
    pub fn write(&self, offset: usize, from: &[u8]) {
        let mut from = from;
        self.for_each(offset, from.len(), |piece, bytes| {
            let (part, rest) = from.split_at(bytes);
            // SAFETY: `piece` is valid for `bytes` bytes, as is `part`. The piece is shared memory, which is never a
            // part of a slice, so it does not overlap `part`.
            unsafe { piece.as_ptr().copy_from_nonoverlapping(part.as_ptr(), bytes) };
            from = rest;
        });
    }

    /// Calls `visit` for each piece, with the part of the piece that belongs to the `length` bytes from `offset` on.
    /// This part may be empty.
    fn for_each(&self, mut offset: usize, mut length: usize, mut visit: impl FnMut(NonNull<u8>, usize)) {
        for &(start, bytes) in &self.0 {
            let skipped = offset.min(bytes);
            let part = length.min(bytes - skipped);
            // SAFETY: `skipped` is at most the length of the piece.
            visit(unsafe { start.add(skipped) }, part);
            offset -= skipped;
            length -= part;
        }
    }
}
