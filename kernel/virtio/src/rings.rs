//! The memory of a split queue (virtio 1.2, 2.7), from the driver's side.
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
//! The device may write to all of this memory at any time. So the driver reads only the used ring, and does not trust
//! what it reads.

#![expect(unsafe_code, reason = "keeps references to memory that the device accesses, too")]

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use crate::memory::{Atomic, Memory, Span, read_shared};
use crate::{Dma, OpenError, Transport};

/// The flag which says that another descriptor follows this one.
pub(crate) const NEXT: u16 = 1;
/// The flag which says that the device writes the memory of the descriptor.
pub(crate) const WRITABLE: u16 = 2;
/// The flag which says that the memory of the descriptor is a table of descriptors.
pub(crate) const TABLE: u16 = 4;
/// The flag of the available ring which says that the device need not interrupt.
const NO_INTERRUPT: u16 = 1;

/// A descriptor, as the device reads it. The fields are in little endian, as on the processors that this driver runs
/// on.
#[repr(C)]
pub(crate) struct Descriptor {
    address: AtomicU64,
    bytes: AtomicU32,
    flags: AtomicU16,
    next: AtomicU16,
}

/// An entry of the used ring.
#[repr(C)]
pub(crate) struct Used {
    token: AtomicU32,
    written: AtomicU32,
}

// SAFETY: all fields are atomic integers.
unsafe impl Atomic for Descriptor {}
// SAFETY: all fields are atomic integers.
unsafe impl Atomic for Used {}
// SAFETY: the type is an atomic integer.
unsafe impl Atomic for AtomicU32 {}

impl Descriptor {
    pub(crate) fn set(&self, span: Span, flags: u16, next: u16) {
        self.address.store(span.address, Ordering::Relaxed);
        self.set_bytes(span.bytes);
        self.flags.store(flags, Ordering::Relaxed);
        self.next.store(next, Ordering::Relaxed);
    }

    pub(crate) fn set_bytes(&self, bytes: usize) {
        self.bytes.store(bytes as u32, Ordering::Relaxed);
    }
}

/// The memory of a queue.
pub(crate) struct Rings {
    memory: Memory,
    /// Written by the driver. The device may read a descriptor from when its request is available until it is completed.
    pub(crate) descriptors: &'static [Descriptor],
    /// Written by the driver: flags, an index, and then a token in each entry.
    available: &'static [AtomicU16],
    /// Written by the device: flags and an index.
    used_words: &'static [AtomicU16],
    used: &'static [Used],
}

impl Rings {
    /// Returns the offset of the used ring.
    const fn used_offset(entries: usize) -> usize {
        // The available ring also has a last word that is not used.
        (entries * size_of::<Descriptor>() + (entries + 3) * size_of::<u16>()).next_multiple_of(align_of::<Used>())
    }

    /// Returns how much memory a queue needs.
    pub(crate) const fn bytes(entries: usize) -> usize {
        // The used ring also has a last word that is not used.
        Self::used_offset(entries) + 3 * size_of::<u16>() + entries * size_of::<Used>()
    }

    /// Divides the memory of a queue, which is filled with zeros, into its parts.
    pub(crate) fn new(memory: Memory, entries: usize) -> Self {
        let (available, used) = (entries * size_of::<Descriptor>(), Self::used_offset(entries));
        // SAFETY: only these references access the memory, and the caller of `free` promises not to use them again.
        let descriptors = unsafe { memory.atomics_for_ever(0, entries) };
        // SAFETY: as for the descriptors.
        let available = unsafe { memory.atomics_for_ever(available, 2 + entries) };
        // SAFETY: as for the descriptors.
        let used_words = unsafe { memory.atomics_for_ever(used, 2) };
        // SAFETY: as for the descriptors.
        let used = unsafe { memory.atomics_for_ever(used + 2 * size_of::<u16>(), entries) };
        Self { memory, descriptors, available, used_words, used }
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// The memory consists of whole pages that were allocated with the same `M`, and the device does not use them.
    pub(crate) unsafe fn free<M: Dma>(self) {
        // SAFETY: the caller promises that the device does not use the memory, and the references end with this value.
        unsafe { self.memory.free::<M>() };
    }

    pub(crate) fn entries(&self) -> usize {
        self.descriptors.len()
    }

    /// Fills the two rings with zeros.
    pub(crate) fn clear(&self) {
        self.available.iter().chain(self.used_words).for_each(|word| word.store(0, Ordering::Relaxed));
        let used = self.used.iter().flat_map(|entry| [&entry.token, &entry.written]);
        used.for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Passes the memory to the device, as the queue `number`.
    pub(crate) fn set_up(&self, transport: &mut impl Transport, number: u16) -> Result<(), OpenError> {
        if transport.is_queue_set(number) {
            return Err(OpenError::Refused);
        }
        let at = |offset| self.memory.span(offset, 0).address;
        let available = at(self.entries() * size_of::<Descriptor>());
        let used = at(Self::used_offset(self.entries()));
        // Ordering: SeqCst; partner: the device. It gets the memory by the writes to its registers that follow, and
        // must then not see what the memory contained before.
        fence(Ordering::SeqCst);
        transport.set_queue(number, self.entries() as u16, [at(0), available, used]);
        Ok(())
    }

    /// Puts a token into the entry of the available ring for the request number `added`, modulo 2^16.
    pub(crate) fn set_available(&self, added: u16, token: u16) {
        self.available[2 + usize::from(added) % self.entries()].store(token, Ordering::Relaxed);
    }

    /// Lets the device use the first `added` requests, modulo 2^16. The caller must then notify the device.
    pub(crate) fn publish(&self, added: u16) {
        // Ordering: Release, so that the device sees the request, its descriptors and its data before the index.
        self.available[1].store(added, Ordering::Release);
    }

    /// Sets whether the device interrupts when it has completed a request. After turning interrupts on, the caller must
    /// check for completed requests, because the device may have completed one just before.
    pub(crate) fn set_interrupts(&self, are_on: bool) {
        self.available[0].store(if are_on { 0 } else { NO_INTERRUPT }, Ordering::Relaxed);
        // Ordering: SeqCst; partner: the device, which stores its index before it reads the flags (virtio 1.2,
        // 2.7.7.2).
        fence(Ordering::SeqCst);
    }

    /// Returns how many requests the device says it has completed, modulo 2^16.
    pub(crate) fn completed(&self) -> u16 {
        // Ordering: Acquire, so that the driver sees the entries and the data that the device has written before.
        read_shared(&self.used_words[1], |index| index.load(Ordering::Acquire))
    }

    /// Returns the token of the completed request number `taken`, modulo 2^16, and the number of bytes that the device
    /// has written for it. Both come from the device, so they may be any numbers.
    pub(crate) fn used(&self, taken: u16) -> (u32, u32) {
        let Used { token, written } = &self.used[usize::from(taken) % self.entries()];
        let read = |field| read_shared(field, |field: &AtomicU32| field.load(Ordering::Relaxed));
        (read(token), read(written))
    }
}
