//! A split queue (virtio 1.2, 2.7), from the driver's side.
//!
//! ```text
//! one block of the memory that is shared with devices
//! ┌─────────────────────────┬──────────────────────┬────────────────────────────────────┐
//! │ descriptors             │ available ring       │ used ring                          │
//! │ address, length, flags, │ the tokens of the    │ the tokens of completed requests,  │
//! │ next                    │ requests, as added   │ and how much the device has written│
//! └─────────────────────────┴──────────────────────┴────────────────────────────────────┘
//!   written by the driver                            written by the device
//! ```
//!
//! Each piece of memory of a request has a descriptor. With *indirect* descriptors, those of a request form a table in
//! the request's first buffer. The table has one descriptor in the queue, so each request takes one entry. Otherwise
//! the descriptors of a request form a chain in the queue, and each piece takes an entry. The token of a request is the
//! number of its first descriptor in the queue.
//!
//! The device may write to all of this memory at any time. So the driver reads only the used ring, and reads each field
//! once for each request. What else it has to know about its descriptors is in the field `next`, which the device
//! cannot access.
//!
//! The crate virtio-drivers has such a queue, too. But that queue allocates the table of each request from the heap
//! when the request is added, and its size is a constant of its type.

#![expect(unsafe_code, reason = "accesses the memory that the device accesses, too")]

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering, fence};

use virtio_drivers::transport::Transport;
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

use crate::before_shared_read;
use crate::buffer::{MAX_PIECES, Piece, Pieces};
use crate::device::OpenError;
use crate::protocol::INDIRECT;

/// The largest number of entries of a queue.
pub(crate) const MAX_ENTRIES: usize = 256;
/// A device whose queue has fewer entries than this is refused.
const MIN_ENTRIES: usize = 16;
/// In a queue without indirect descriptors, this number of entries is available for each buffer. A request with one
/// buffer takes two entries: for the piece that the device reads, and for the piece that it writes. Each further buffer
/// takes one entry.
const BUFFER_ENTRIES: usize = 2;

/// The flag of a descriptor that another descriptor follows.
pub(crate) const NEXT: u16 = 1;
/// The flag of a descriptor whose memory the device writes.
pub(crate) const WRITABLE: u16 = 2;
/// The flag of the available ring which says that the device need not interrupt.
const NO_INTERRUPT: u16 = 1;
/// The flag of a descriptor whose memory is a table of descriptors.
pub(crate) const TABLE: u16 = 4;

/// A descriptor, as the device reads it. The fields are in little endian, as on the processors that this driver runs
/// on.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    pub(crate) address: PhysAddr,
    pub(crate) bytes: u32,
    pub(crate) flags: u16,
    pub(crate) next: u16,
}

/// An entry of the used ring.
#[repr(C)]
#[derive(Clone, Copy)]
struct Used {
    token: u32,
    written: u32,
}

/// The size of a table of descriptors for the largest number of pieces.
pub(crate) const TABLE_BYTES: usize = MAX_PIECES * size_of::<Descriptor>();

/// Returns the offset of the available ring. The ring consists of 16-bit words: flags, an index, one word for each
/// entry, and a last word that is not used.
fn available_offset(entries: usize) -> usize {
    entries * size_of::<Descriptor>()
}

/// Returns the offset of the used ring. The ring consists of two 16-bit words (flags and an index), an entry of type
/// [`Used`] for each entry of the queue, and a last word that is not used.
fn used_offset(entries: usize) -> usize {
    (available_offset(entries) + (entries + 3) * size_of::<u16>()).next_multiple_of(align_of::<Used>())
}

/// The memory of a queue. Freed when the value is dropped.
struct Memory<H: Hal> {
    start: NonNull<u8>,
    address: PhysAddr,
    entries: usize,
    hal: PhantomData<fn() -> H>,
}

// SAFETY: only the device and the holder of this value access the memory, so the value may move to another thread.
unsafe impl<H: Hal> Send for Memory<H> {}

impl<H: Hal> Memory<H> {
    /// Allocates the memory of a queue, filled with zeros.
    fn new(entries: usize) -> Result<Self, OpenError> {
        let (address, start) = H::dma_alloc(Self::pages(entries), BufferDirection::Both);
        let memory = Self { start, address, entries, hal: PhantomData };
        if address == 0 {
            core::mem::forget(memory);
            return Err(OpenError::OutOfMemory);
        }
        Ok(memory)
    }

    /// Fills the memory with zeros. The writes are volatile, so the compiler does not move them behind the writes to
    /// registers by which the device gets the memory again. Otherwise the device could see the indices of the old
    /// queue.
    fn clear(&self) {
        for offset in (0..Self::pages(self.entries) * PAGE_SIZE).step_by(size_of::<u64>()) {
            // SAFETY: the memory is valid and aligned, and there are no references to it.
            unsafe { self.at::<u64>(offset).write_volatile(0) };
        }
    }

    fn pages(entries: usize) -> usize {
        (used_offset(entries) + 3 * size_of::<u16>() + entries * size_of::<Used>()).div_ceil(PAGE_SIZE)
    }

    /// Returns a pointer to the value of type `T` at `offset`.
    fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset + size_of::<T>() <= Self::pages(self.entries) * PAGE_SIZE, "within the queue's memory");
        // SAFETY: the assertion ensures that the result is within the memory.
        let pointer = unsafe { self.start.add(offset) }.cast::<T>();
        debug_assert!(pointer.is_aligned());
        pointer
    }

    /// Returns the index of the ring at `offset`. The index is the second word of the ring.
    fn index(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: the memory is valid as long as `self`, and is aligned. While the device has the queue, both sides
        // access an index only as a whole.
        unsafe { AtomicU16::from_ptr(self.at::<u16>(offset + 2).as_ptr()) }
    }

    fn set_descriptor(&self, index: u16, descriptor: Descriptor) {
        let at = self.at::<Descriptor>(usize::from(index) * size_of::<Descriptor>());
        // SAFETY: the memory is valid and aligned, and there are no references to it.
        unsafe { at.write_volatile(descriptor) };
    }
}

impl<H: Hal> Drop for Memory<H> {
    fn drop(&mut self) {
        // SAFETY: the memory came from `dma_alloc`, with this number of pages. A ring is dropped only if the device
        // never got the memory, or after the device has been reset.
        unsafe { H::dma_dealloc(self.address, self.start, Self::pages(self.entries)) };
    }
}

/// A queue of a device.
pub(crate) struct Ring<H: Hal> {
    /// The number of the queue in its device.
    number: u16,
    memory: Memory<H>,
    is_indirect: bool,
    /// For each descriptor the number of the next one: in the same chain, or in the list of free descriptors.
    next: Vec<u16>,
    /// The first free descriptor, if there is one.
    free: u16,
    free_count: usize,
    /// How many requests were added, modulo 2^16.
    added: u16,
    /// How many completed requests were taken, modulo 2^16.
    taken: u16,
}

impl<H: Hal> fmt::Debug for Ring<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("entries", &self.entries()).finish_non_exhaustive()
    }
}

impl<H: Hal> Ring<H> {
    /// Sets up the queue `number` of a device with these negotiated `features`. If this fails, the device does not use
    /// the queue.
    pub(crate) fn new(transport: &mut impl Transport, number: u16, features: u64) -> Result<Self, OpenError> {
        let offered = (transport.max_queue_size(number) as usize).min(MAX_ENTRIES);
        // The number of entries is a power of two (virtio 1.2, 2.7).
        let entries = offered.checked_ilog2().map_or(0, |exponent| 1 << exponent);
        if entries < MIN_ENTRIES {
            return Err(OpenError::Refused);
        }
        let mut next = Vec::new();
        next.try_reserve_exact(entries).map_err(|_| OpenError::OutOfMemory)?;
        next.resize(entries, 0);
        // A table may not have more descriptors than the queue has entries (virtio 1.2, 2.7.5.3.1).
        let is_indirect = features & INDIRECT != 0 && entries >= MAX_PIECES;
        let memory = Memory::new(entries)?;
        let mut ring = Self { number, memory, is_indirect, next, free: 0, free_count: 0, added: 0, taken: 0 };
        ring.set_up(transport)?;
        Ok(ring)
    }

    /// Sets up the queue again, with the same size and in the same memory. The device has been reset, so it no longer
    /// uses what was there before. Allocates nothing.
    pub(crate) fn renew(&mut self, transport: &mut impl Transport) -> Result<(), OpenError> {
        if (transport.max_queue_size(self.number) as usize) < self.entries() {
            return Err(OpenError::Refused);
        }
        self.memory.clear();
        self.set_up(transport)
    }

    /// Passes the memory, which is filled with zeros, to the device.
    fn set_up(&mut self, transport: &mut impl Transport) -> Result<(), OpenError> {
        if transport.queue_used(self.number) {
            return Err(OpenError::Refused);
        }
        let entries = self.entries();
        (self.free, self.free_count, self.added, self.taken) = (0, entries, 0, 0);
        self.next.iter_mut().zip(1..).for_each(|(next, following)| *next = following);
        let at = |offset: usize| self.memory.address + offset as PhysAddr;
        let (available, used) = (at(available_offset(entries)), at(used_offset(entries)));
        transport.queue_set(self.number, entries as u32, at(0), available, used);
        Ok(())
    }

    /// Returns the number of the queue in its device.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Returns the number of entries.
    pub(crate) fn entries(&self) -> usize {
        self.next.len()
    }

    /// Sets whether the device interrupts when it has completed a request. After turning interrupts on, the caller must
    /// check for completed requests, because the device may have completed one just before.
    pub(crate) fn set_interrupts(&self, are_on: bool) {
        let flags = if are_on { 0 } else { NO_INTERRUPT };
        let at = self.memory.at::<u16>(available_offset(self.entries()));
        // SAFETY: the memory is valid and aligned, and there are no references to it.
        unsafe { at.write_volatile(flags) };
        // Ordering: SeqCst; partner: the device, which stores its index before it reads the flags (virtio 1.2,
        // 2.7.7.2).
        fence(Ordering::SeqCst);
    }

    /// Returns the largest number of buffers for whose requests there is always room.
    pub(crate) fn room(&self) -> usize {
        if self.is_indirect { self.entries() } else { self.entries() / BUFFER_ENTRIES }
    }

    /// Returns the number of entries that a request with these pieces takes.
    fn entries_for(&self, pieces: &Pieces) -> usize {
        if self.is_indirect { 1 } else { pieces.count() }
    }

    /// Adds a request to the queue. Returns its token: the number that the device returns when it has completed the
    /// request. Returns `None` if there is no room.
    ///
    /// # Safety
    /// Only the device may access the memory of `pieces` and their table until [`take`](Self::take) has returned the
    /// token, or the device has been reset.
    pub(crate) unsafe fn add(&mut self, pieces: &Pieces) -> Option<u16> {
        let count = self.entries_for(pieces);
        if count > self.free_count {
            return None;
        }
        let token = self.free;
        if self.is_indirect {
            let table = self.fill_table(pieces);
            self.memory.set_descriptor(token, table);
            self.free = self.next[usize::from(token)];
        } else {
            for (descriptor, is_last) in descriptors(pieces) {
                let next = self.next[usize::from(self.free)];
                let next_if_any = if is_last { 0 } else { next };
                self.memory.set_descriptor(self.free, Descriptor { next: next_if_any, ..descriptor });
                self.free = next;
            }
        }
        self.free_count -= count;
        let ring = available_offset(self.entries());
        let entry = usize::from(self.added) % self.entries();
        // SAFETY: the memory is valid and aligned, and there are no references to it.
        unsafe { self.memory.at::<u16>(ring + (2 + entry) * size_of::<u16>()).write_volatile(token) };
        self.added = self.added.wrapping_add(1);
        // Ordering: Release, so that the device sees the request, its descriptors and its data before the index.
        self.memory.index(ring).store(self.added, Ordering::Release);
        Some(token)
    }

    /// Writes the descriptors of a request to the table in its first buffer. Returns the descriptor of the table.
    fn fill_table(&self, pieces: &Pieces) -> Descriptor {
        let table = pieces.table();
        for (index, (descriptor, is_last)) in descriptors(pieces).enumerate() {
            let next = if is_last { 0 } else { index as u16 + 1 };
            // SAFETY: the table has room for as many descriptors as a request can have pieces.
            let at = unsafe { table.memory.cast::<Descriptor>().add(index) };
            // SAFETY: the table is in a buffer, so its memory is valid. The table begins at the beginning of a page, so
            // it is aligned. There are no references to it.
            unsafe { at.write_volatile(Descriptor { next, ..descriptor }) };
        }
        let bytes = (pieces.count() * size_of::<Descriptor>()) as u32;
        Descriptor { address: table.address, bytes, flags: TABLE, next: 0 }
    }

    /// Takes the token of the next completed request, and the number of bytes that the device says it has written for
    /// it. Returns `None` if no further request is completed. Both numbers come from the device, so they may be any
    /// numbers. If `token` is that of a request in flight, the caller must [`free`](Self::free) its entries.
    pub(crate) fn take(&mut self) -> Option<(u32, u32)> {
        let ring = used_offset(self.entries());
        before_shared_read(self.memory.index(ring).as_ptr().cast(), size_of::<u16>());
        // Ordering: Acquire, so that the driver sees the entry and the data that the device has written before.
        if self.memory.index(ring).load(Ordering::Acquire) == self.taken {
            return None;
        }
        let entry = self.memory.at::<u8>(ring + 4 + usize::from(self.taken) % self.entries() * size_of::<Used>());
        self.taken = self.taken.wrapping_add(1);
        let field = |offset| {
            // SAFETY: the entry is within the memory, and so are both of its fields.
            let field = unsafe { entry.add(offset) }.cast::<u32>();
            before_shared_read(field.as_ptr().cast(), size_of::<u32>());
            // SAFETY: the memory is valid and aligned, and every content is a number. The read is volatile, because the
            // device may change the number at any time.
            unsafe { field.read_volatile() }
        };
        Some((field(offset_of!(Used, token)), field(offset_of!(Used, written))))
    }

    /// Frees the entries of a request that was in flight. `token` is the token of the request, and `pieces` are the
    /// pieces with which the request was added.
    pub(crate) fn free(&mut self, token: u16, pieces: &Pieces) {
        let count = self.entries_for(pieces);
        let last = (1..count).fold(token, |index, _| self.next[usize::from(index)]);
        self.next[usize::from(last)] = self.free;
        self.free = token;
        self.free_count += count;
    }
}

/// Returns the descriptors of a request, without the numbers of the next ones. The second value of each pair is whether
/// the descriptor is the last one.
fn descriptors(pieces: &Pieces) -> impl Iterator<Item = (Descriptor, bool)> {
    let last = pieces.count() - 1;
    pieces.iter().enumerate().map(move |(index, (Piece { memory, address }, is_written))| {
        let (is_last, writable) = (index == last, if is_written { WRITABLE } else { 0 });
        let flags = if is_last { writable } else { writable | NEXT };
        (Descriptor { address, bytes: memory.len() as u32, flags, next: 0 }, is_last)
    })
}
