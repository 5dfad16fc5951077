//! The queue of disks and network devices: it keeps the requests that are in flight, and matches the device's
//! completions with them. (The module [`lane`](crate::lane) contains simpler queues.)
//!
//! Each piece of memory of a request has a descriptor. With *indirect* descriptors, those of a request form a table
//! that belongs to the request. The table has one descriptor in the queue, so each request takes one entry. Otherwise
//! the descriptors of a request form a chain in the queue, and each piece takes an entry. The token of a request is the
//! number of its first descriptor in the queue.
//!
//! What the driver has to know about its descriptors is in fields of [`Ring`], which the device cannot access.

#![expect(unsafe_code, reason = "lends memory to the device")]

use alloc::vec::Vec;
use core::fmt;

use crate::memory::{Memory, Span};
use crate::rings::{Descriptor, NEXT, Rings, TABLE, WRITABLE};
use crate::{Dma, OpenError, PAGE_SIZE, Transport};

/// The largest number of entries of a queue.
pub(crate) const MAX_ENTRIES: usize = 256;
/// A device whose queue has fewer entries than this is refused.
const MIN_ENTRIES: usize = 16;
/// The largest number of pieces of memory of one request.
pub(crate) const MAX_PIECES: usize = 17;

/// The size of a table of descriptors for the largest number of pieces.
pub(crate) const TABLE_BYTES: usize = MAX_PIECES * size_of::<Descriptor>();

/// The pieces of memory of a request: those that the device reads, and then those that it writes.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    list: heapless::Vec<Span, MAX_PIECES>,
    /// The number of pieces that the device reads.
    read: usize,
}

impl Pieces {
    /// Adds a piece that the device reads. All of them come before those that the device writes. There are at most
    /// [`MAX_PIECES`] in all. Empty pieces are left out.
    pub(crate) fn add_read(&mut self, span: Span) {
        debug_assert_eq!(self.read, self.list.len(), "the pieces that the device reads come first");
        self.add_written(span);
        self.read = self.list.len();
    }

    /// Adds a piece that the device writes.
    pub(crate) fn add_written(&mut self, span: Span) {
        if span.bytes != 0 {
            self.list.push(span).expect("a request has at most 17 pieces");
        }
    }

    /// Returns each piece with its flags.
    fn iter(&self) -> impl Iterator<Item = (Span, u16)> {
        let flags = |index| {
            let writable = if index < self.read { 0 } else { WRITABLE };
            if index + 1 == self.list.len() { writable } else { writable | NEXT }
        };
        self.list.iter().enumerate().map(move |(index, &span)| (span, flags(index)))
    }
}

/// A request in flight, to which its memory belongs.
///
/// # Safety
/// The pieces and the table must be memory that belongs to the value, so that nothing accesses this memory while the
/// value is in a [`Ring`]. They must be the same as long as it is there.
pub(crate) unsafe trait Payload {
    /// Returns the pieces of the request's memory. There is at least one.
    fn pieces(&self) -> Pieces;

    /// Returns room for [`MAX_PIECES`] descriptors, and where the device finds it. Called only if the queue uses
    /// indirect descriptors.
    fn table(&mut self) -> (&[Descriptor], Span) {
        unreachable!("requests of this type have no table")
    }
}

/// The device has completed a request that is not in flight.
#[derive(Debug)]
pub(crate) struct NotInFlight;

/// A queue of a device, with the requests that are in flight.
pub(crate) struct Ring<T> {
    /// The number of the queue in its device.
    number: u16,
    rings: Rings,
    is_indirect: bool,
    /// The requests in flight, by token, and how many entries each takes.
    in_flight: Vec<Option<(T, usize)>>,
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

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<T: Payload> Ring<T> {
    /// Sets up the queue `number` of a device. If this fails, the device does not use the queue. `may_be_indirect` is
    /// whether the feature was negotiated.
    pub(crate) fn new<M: Dma>(
        transport: &mut impl Transport,
        number: u16,
        may_be_indirect: bool,
    ) -> Result<Self, OpenError> {
        let offered = usize::from(transport.queue_entries(number)).min(MAX_ENTRIES);
        // The number of entries is a power of two (virtio 1.2, 2.7).
        let entries = offered.checked_ilog2().map_or(0, |exponent| 1 << exponent);
        if entries < MIN_ENTRIES {
            return Err(OpenError::Refused);
        }
        let (mut next, mut in_flight) = (room(entries)?, room(entries)?);
        next.resize(entries, 0);
        in_flight.resize_with(entries, || None);
        // A table may not have more descriptors than the queue has entries (virtio 1.2, 2.7.5.3.1).
        let is_indirect = may_be_indirect && entries >= MAX_PIECES;
        let rings = Rings::new(Memory::allocate::<M>(Rings::bytes(entries).div_ceil(PAGE_SIZE))?, entries);
        let mut ring = Self { number, rings, is_indirect, in_flight, next, free: 0, free_count: 0, added: 0, taken: 0 };
        match ring.set_up(transport) {
            Ok(()) => Ok(ring),
            Err(error) => {
                // SAFETY: the memory consists of whole pages, and the device did not get it.
                unsafe { ring.free::<M>() };
                Err(error)
            }
        }
    }

    /// Frees the memory of the queue.
    ///
    /// # Safety
    /// The queue was made with the same `M`, and the device does not use the queue: it has been reset.
    pub(crate) unsafe fn free<M: Dma>(self) {
        // SAFETY: the caller promises this.
        unsafe { self.rings.free::<M>() };
    }

    /// Sets up the queue again, with the same size and in the same memory. The device has been reset, so it no longer
    /// uses what was there before. Allocates nothing. The caller must then [remove](Self::remove) the requests in
    /// flight before it adds others.
    pub(crate) fn renew(&mut self, transport: &mut impl Transport) -> Result<(), OpenError> {
        if usize::from(transport.queue_entries(self.number)) < self.entries() {
            return Err(OpenError::Refused);
        }
        self.rings.clear();
        self.set_up(transport)
    }

    /// Passes the rings, which are filled with zeros, to the device.
    fn set_up(&mut self, transport: &mut impl Transport) -> Result<(), OpenError> {
        (self.free, self.free_count, self.added, self.taken) = (0, self.entries(), 0, 0);
        self.next.iter_mut().zip(1..).for_each(|(next, following)| *next = following);
        self.rings.set_up(transport, self.number)
    }

    /// Returns the number of the queue in its device.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Returns the number of entries.
    pub(crate) fn entries(&self) -> usize {
        self.next.len()
    }

    /// Whether each request takes one entry.
    pub(crate) fn is_indirect(&self) -> bool {
        self.is_indirect
    }

    /// See [`Rings::set_interrupts`].
    pub(crate) fn set_interrupts(&self, are_on: bool) {
        self.rings.set_interrupts(are_on);
    }

    /// Returns the requests in flight.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &T> {
        self.in_flight.iter().flatten().map(|(request, _)| request)
    }

    /// Removes the requests in flight, one at each call of `next`. If the device may still use their memory, the caller
    /// must never use it again.
    pub(crate) fn remove(&mut self) -> impl Iterator<Item = T> {
        self.in_flight.iter_mut().filter_map(|entry| entry.take().map(|(request, _)| request))
    }

    /// Adds a request to the queue. The caller must then notify the device.
    ///
    /// # Errors
    /// If there is no room. The request is returned.
    pub(crate) fn add(&mut self, mut request: T) -> Result<(), T> {
        let pieces = request.pieces();
        let count = if self.is_indirect { 1 } else { pieces.list.len() };
        if count > self.free_count {
            return Err(request);
        }
        let token = self.free;
        if self.is_indirect {
            let (table, Span { address, .. }) = request.table();
            for (index, ((span, flags), descriptor)) in pieces.iter().zip(table).enumerate() {
                descriptor.set(span, flags, index as u16 + 1);
            }
            let table = Span { address, bytes: pieces.list.len() * size_of::<Descriptor>() };
            self.add_descriptor(table, TABLE);
        } else {
            pieces.iter().for_each(|(span, flags)| self.add_descriptor(span, flags));
        }
        self.free_count -= count;
        self.in_flight[usize::from(token)] = Some((request, count));
        self.rings.set_available(self.added, token);
        self.added = self.added.wrapping_add(1);
        self.rings.publish(self.added);
        Ok(())
    }

    /// Breaks the protocol: says that more requests are available than the queue has entries. Tests use this.
    pub(crate) fn mislead(&mut self) {
        self.added = self.added.wrapping_add(MAX_ENTRIES as u16 + 1);
        self.rings.publish(self.added);
    }

    /// Takes and fills the first free descriptor. The next free one follows it in the chain if `flags` says so.
    fn add_descriptor(&mut self, span: Span, flags: u16) {
        let next = self.next[usize::from(self.free)];
        self.rings.descriptors[usize::from(self.free)].set(span, flags, if flags & NEXT == 0 { 0 } else { next });
        self.free = next;
    }

    /// Whether the device says that it has completed a further request.
    pub(crate) fn has_completed(&self) -> bool {
        self.rings.completed() != self.taken
    }

    /// Takes the next completed request, and the number of bytes that the device says it has written for it. Returns
    /// `None` if no further request is completed.
    ///
    /// # Errors
    /// If the device has completed a request that is not in flight. The queue must then not be used until it is
    /// [renewed](Self::renew).
    pub(crate) fn complete(&mut self) -> Result<Option<(T, u32)>, NotInFlight> {
        if !self.has_completed() {
            return Ok(None);
        }
        let (token, written) = self.rings.used(self.taken);
        self.taken = self.taken.wrapping_add(1);
        let entry = self.in_flight.get_mut(token as usize).and_then(Option::take);
        let (request, count) = entry.ok_or(NotInFlight)?;
        // The token is that of a request, so it has no more than 16 bits.
        let last = (1..count).fold(token as u16, |index, _| self.next[usize::from(index)]);
        self.next[usize::from(last)] = self.free;
        self.free = token as u16;
        self.free_count += count;
        Ok(Some((request, written)))
    }
}

/// Returns a vector with room for `count` elements.
pub(crate) fn room<T>(count: usize) -> Result<Vec<T>, OpenError> {
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| OpenError::OutOfMemory)?;
    Ok(list)
}
