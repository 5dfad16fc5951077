//! A ring of bytes for one producer and one consumer.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Up to `N` bytes, first in, first out. `N` is a power of two.
///
/// Only one caller at a time may put bytes in, and only one at a time may take bytes out. The users ensure this by
/// locks. A panic bypasses these locks, so bytes may then be lost or duplicated. Memory safety does not depend on the
/// locks.
#[derive(Debug)]
pub(super) struct Ring<const N: usize> {
    bytes: [AtomicU8; N],
    /// How many bytes were ever taken out.
    taken: AtomicUsize,
    /// How many bytes were ever put in.
    put: AtomicUsize,
}

impl<const N: usize> Ring<N> {
    pub(super) const fn new() -> Self {
        const { assert!(N.is_power_of_two()) };
        Self { bytes: [const { AtomicU8::new(0) }; N], taken: AtomicUsize::new(0), put: AtomicUsize::new(0) }
    }

    /// Returns the number of bytes for which there is room.
    pub(super) fn room(&self) -> usize {
        // Ordering: Acquire; partner: the Release store in `skip`. The consumer has read the bytes before that store,
        // so overwriting them is allowed.
        N - self.put.load(Ordering::Relaxed).wrapping_sub(self.taken.load(Ordering::Acquire)).min(N)
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
            self.bytes[put.wrapping_add(index) % N].store(*byte, Ordering::Relaxed);
        }
        // Ordering: Release; partner: the Acquire load in `peek`. So the consumer sees the bytes that the count
        // includes.
        self.put.store(put.wrapping_add(count), Ordering::Release);
    }

    /// Copies as many of the next bytes as fit into `to`, without taking them out. Returns the number of bytes copied.
    pub(super) fn peek(&self, to: &mut [u8]) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        // Ordering: Acquire; partner: the Release store in `put`. So the bytes that the count includes are visible.
        let count = self.put.load(Ordering::Acquire).wrapping_sub(taken).min(to.len());
        for (index, byte) in to[..count].iter_mut().enumerate() {
            *byte = self.bytes[taken.wrapping_add(index) % N].load(Ordering::Relaxed);
        }
        count
    }

    /// Like [`peek`](Self::peek), but to memory that is shared with a device.
    pub(super) fn copy_to(&self, to: &[AtomicU8]) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        // Ordering: Acquire; partner: the Release store in `put`. So the bytes that the count includes are visible.
        let count = self.put.load(Ordering::Acquire).wrapping_sub(taken).min(to.len());
        for (index, byte) in to[..count].iter().enumerate() {
            byte.store(self.bytes[taken.wrapping_add(index) % N].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        count
    }

    /// Takes out `count` bytes that [`peek`](Self::peek) has copied.
    pub(super) fn skip(&self, count: usize) {
        self.skip_to(self.taken().wrapping_add(count));
    }

    /// Takes out the bytes before a position. They were copied by [`peek`](Self::peek) or [`copy_to`](Self::copy_to).
    pub(super) fn skip_to(&self, position: usize) {
        // Ordering: Release; partner: the Acquire load in `room`. So the producer overwrites the bytes only after they
        // were read.
        self.taken.store(position, Ordering::Release);
    }
}
