//! A queue as the device sees it: the rings, and the memory of a request (virtio 1.2, 2.7).

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering};

use virtio_drivers::PhysAddr;

use crate::buffer::MAX_PIECES;
use crate::ring::{Descriptor, NEXT, TABLE, WRITABLE};

/// The memory that driver and device share.
///
/// # Safety
///
/// The pointers that [`at`](Self::at) returns must be valid for reads and writes for as long as the driver lets the
/// device use the memory.
pub unsafe trait SharedMemory {
    /// Returns a pointer to the `bytes` bytes at the physical address `address`, or `None` if these bytes are not
    /// shared with devices.
    fn at(address: PhysAddr, bytes: usize) -> Option<NonNull<u8>>;
}

/// Reads the descriptor with this number of the table at `table`. Returns `None` if it is not in shared memory.
fn descriptor<M: SharedMemory>(table: PhysAddr, number: u16) -> Option<Descriptor> {
    load::<M, Descriptor>(table.checked_add((size_of::<Descriptor>() * usize::from(number)) as PhysAddr)?)
}

/// Follows the chain that begins with the descriptor `first` of a table with this number of entries. Returns its
/// memory: what the device reads, and what it writes. Returns `None` if a piece is not shared memory, a descriptor is
/// not in the table, or there are too many pieces.
fn chain<M: SharedMemory>(table: PhysAddr, entries: u16, first: u16) -> Option<[Pieces; 2]> {
    let (mut readable, mut writable, mut number) = (Pieces::default(), Pieces::default(), first);
    loop {
        (number < entries).then_some(())?;
        let Descriptor { address, bytes, flags, next } = descriptor::<M>(table, number)?;
        let piece = (M::at(address, bytes as usize)?, bytes as usize);
        let list = if flags & WRITABLE == 0 { &mut readable } else { &mut writable };
        list.0.push(piece).ok()?;
        if flags & NEXT == 0 {
            return Some([readable, writable]);
        }
        number = next;
    }
}

/// The addresses of the rings of a queue, and how many requests the device has taken and completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rings {
    entries: u16,
    descriptors: PhysAddr,
    available: PhysAddr,
    used: PhysAddr,
    /// How many requests the device has taken, modulo 2^16.
    taken: u16,
    /// How many requests the device has completed, modulo 2^16.
    completed: u16,
}

/// Reads the value at `address`, which consists of integers. Returns `None` if the address is not in shared memory.
fn load<M: SharedMemory, T: Copy>(address: PhysAddr) -> Option<T> {
    // SAFETY: `at` returns memory that may be read. Only integers are read, so every content is valid.
    M::at(address, size_of::<T>()).map(|memory| unsafe { memory.cast::<T>().read_unaligned() })
}

/// Stores a number at `address`. Does nothing if this memory is not shared.
fn store<M: SharedMemory, T: Copy>(address: PhysAddr, value: T) {
    if let Some(memory) = M::at(address, size_of::<T>()) {
        // SAFETY: `at` returns memory that may be written.
        unsafe { memory.cast::<T>().write_unaligned(value) };
    }
}

/// Returns the field `idx` of a ring, which follows the field `flags`. Returns `None` if the field is not in shared
/// memory or not aligned.
fn index_of<'a, M: SharedMemory>(ring: PhysAddr) -> Option<&'a AtomicU16> {
    let index = M::at(ring + 2, size_of::<u16>())?.cast::<u16>();
    // SAFETY: the memory may be read and written while the device has the queue, and the reference is used at once.
    // Both sides access the index only by atomic operations.
    index.is_aligned().then(|| unsafe { AtomicU16::from_ptr(index.as_ptr()) })
}

impl Rings {
    pub(super) fn new(entries: u16, descriptors: PhysAddr, available: PhysAddr, used: PhysAddr) -> Self {
        Self { entries, descriptors, available, used, taken: 0, completed: 0 }
    }

    /// Takes the next request that the driver has made available. Returns the number of its first descriptor, or `None`
    /// if no request is available, or if a ring is not in shared memory or its index is not aligned.
    pub(super) fn take<M: SharedMemory>(&mut self) -> Option<u16> {
        // Ordering: Acquire, so that the device sees the descriptors and the data of the request.
        if index_of::<M>(self.available)?.load(Ordering::Acquire) == self.taken {
            return None;
        }
        let entry = self.taken % self.entries;
        self.taken = self.taken.wrapping_add(1);
        load::<M, u16>(self.available + 4 + 2 * u64::from(entry))
    }

    /// Returns the memory of the request whose first descriptor is `head`: what the device reads, and what it writes.
    /// Returns `None` if a piece is not shared memory, a descriptor is not in its table, or there are too many pieces.
    pub(super) fn pieces<M: SharedMemory>(&self, head: u16) -> Option<[Pieces; 2]> {
        let first = descriptor::<M>(self.descriptors, head % self.entries)?;
        if first.flags & TABLE == 0 {
            return chain::<M>(self.descriptors, self.entries, head % self.entries);
        }
        let entries = u16::try_from(first.bytes as usize / size_of::<Descriptor>()).ok()?;
        chain::<M>(first.address, entries, 0)
    }

    /// Passes a request back to the driver. `written` is the number of bytes that the device has written.
    pub(super) fn complete<M: SharedMemory>(&mut self, head: u16, written: u32) {
        let at = self.used + 4 + 8 * u64::from(self.completed % self.entries);
        store::<M, u32>(at, head.into());
        store::<M, u32>(at + 4, written);
        self.completed = self.completed.wrapping_add(1);
        if let Some(index) = index_of::<M>(self.used) {
            // Ordering: Release, so that the driver sees the entry and the data of the request.
            index.store(self.completed, Ordering::Release);
        }
    }
}

/// Pieces of memory, which together are a sequence of bytes.
#[derive(Debug, Default)]
pub(super) struct Pieces(heapless::Vec<(NonNull<u8>, usize), MAX_PIECES>);

impl Pieces {
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|&(_, bytes)| bytes).sum()
    }

    /// Copies bytes of the sequence, from `offset` on, to `into`. Stops when `into` is full or the sequence ends.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) {
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
    pub(super) fn write(&self, offset: usize, from: &[u8]) {
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
