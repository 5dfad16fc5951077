//! The ring of the output that has not been sent yet.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

pub(super) const RING_BYTES: usize = 128 * 1024;

pub(super) static RING: Ring = Ring::new();

/// Bytes, first in, first out.
///
/// Only one caller at a time may put bytes in, and only one at a time may take bytes out. The console's lock ensures
/// this. A panic bypasses the lock, so bytes may then be lost or duplicated. Memory safety does not depend on the lock.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: [AtomicU8; RING_BYTES],
    /// How many bytes were ever taken out.
    taken: AtomicUsize,
    /// How many bytes were ever put in.
    put: AtomicUsize,
}

impl Ring {
    const fn new() -> Self {
        const { assert!(RING_BYTES.is_power_of_two()) };
        Self { bytes: [const { AtomicU8::new(0) }; RING_BYTES], taken: AtomicUsize::new(0), put: AtomicUsize::new(0) }
    }

    /// Returns the number of bytes for which there is room.
    pub(super) fn room(&self) -> usize {
        // Ordering: Acquire; partner: the Release store in `take_to`. The consumer has read the bytes before that
        // store, so overwriting them is allowed.
        RING_BYTES - self.put.load(Ordering::Relaxed).wrapping_sub(self.taken.load(Ordering::Acquire)).min(RING_BYTES)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.put.load(Ordering::Acquire) == self.taken.load(Ordering::Relaxed)
    }

    /// Returns the position after the last byte that was put in. A position is a number of bytes, counted from the
    /// start of the kernel.
    pub(super) fn end(&self) -> usize {
        self.put.load(Ordering::Acquire)
    }

    /// Returns the position after the last byte that was taken out.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether all bytes before a position have been taken out. The position may be greater than [`end`](Self::end).
    pub(super) fn is_taken_to(&self, position: usize) -> bool {
        self.taken().wrapping_sub(position).cast_signed() >= 0
    }

    /// Puts in as many of the bytes as there is room for.
    pub(super) fn put(&self, bytes: &[u8]) {
        let put = self.put.load(Ordering::Relaxed);
        let count = bytes.len().min(self.room());
        for (index, byte) in bytes[..count].iter().enumerate() {
            self.bytes[put.wrapping_add(index) % RING_BYTES].store(*byte, Ordering::Relaxed);
        }
        // Ordering: Release; partner: the Acquire load in `copy_to`. So the consumer sees the bytes that the count
        // includes.
        self.put.store(put.wrapping_add(count), Ordering::Release);
    }

    /// Copies as many of the next bytes as `to` has places, without taking them out. Each place is a byte or an atomic
    /// byte, which `set` writes. Returns the number of bytes copied.
    pub(super) fn copy_to<Place>(
        &self,
        to: impl ExactSizeIterator<Item = Place>,
        mut set: impl FnMut(Place, u8),
    ) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        // Ordering: Acquire; partner: the Release store in `put`. So the bytes that the count includes are visible.
        let count = self.put.load(Ordering::Acquire).wrapping_sub(taken).min(to.len());
        for (index, place) in to.take(count).enumerate() {
            set(place, self.bytes[taken.wrapping_add(index) % RING_BYTES].load(Ordering::Relaxed));
        }
        count
    }

    /// Takes out the bytes before a position, which [`copy_to`](Self::copy_to) has copied.
    pub(super) fn take_to(&self, position: usize) {
        // Ordering: Release; partner: the Acquire load in `room`. So the producer overwrites the bytes only after they
        // were read.
        self.taken.store(position, Ordering::Release);
    }
}
