//! A ring of bytes whose two ends are independent of each other.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Up to `N` bytes, first in, first out. `N` is a power of two.
///
/// One caller at a time may put bytes in and one may take some out; see to that with locks. If two do it nevertheless,
/// as a panic may, bytes are lost or doubled and no more.
#[derive(Debug)]
pub(super) struct Ring<const N: usize> {
    bytes: [AtomicU8; N],
    /// How many bytes were ever taken out, and put in.
    taken: AtomicUsize,
    put: AtomicUsize,
}

impl<const N: usize> Ring<N> {
    pub(super) const fn new() -> Self {
        const { assert!(N.is_power_of_two()) };
        Self { bytes: [const { AtomicU8::new(0) }; N], taken: AtomicUsize::new(0), put: AtomicUsize::new(0) }
    }

    /// How many bytes there is room for.
    pub(super) fn room(&self) -> usize {
        // Ordering: pairs with the store in `skip`: bytes are not overwritten before they have been read.
        N - self.put.load(Ordering::Relaxed).wrapping_sub(self.taken.load(Ordering::Acquire)).min(N)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.put.load(Ordering::Acquire) == self.taken.load(Ordering::Relaxed)
    }

    /// The position behind the last byte that was put in.
    pub(super) fn end(&self) -> usize {
        self.put.load(Ordering::Acquire)
    }

    /// The position behind the last byte that was taken out.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether all bytes before a position have been taken out, which may be ahead of [`end`](Self::end).
    pub(super) fn is_taken_to(&self, position: usize) -> bool {
        self.taken().wrapping_sub(position).cast_signed() >= 0
    }

    /// Puts bytes in, as many as there is room for.
    pub(super) fn put(&self, bytes: &[u8]) {
        let put = self.put.load(Ordering::Relaxed);
        let count = bytes.len().min(self.room());
        for (index, byte) in bytes[..count].iter().enumerate() {
            self.bytes[put.wrapping_add(index) % N].store(*byte, Ordering::Relaxed);
        }
        // Ordering: pairs with the load in `peek`: the bytes are there before they are counted.
        self.put.store(put.wrapping_add(count), Ordering::Release);
    }

    /// Copies the next bytes, as many as fit into `to`, without taking them out. Returns how many there are.
    pub(super) fn peek(&self, to: &mut [u8]) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        // Ordering: pairs with the store in `put`.
        let count = self.put.load(Ordering::Acquire).wrapping_sub(taken).min(to.len());
        for (index, byte) in to[..count].iter_mut().enumerate() {
            *byte = self.bytes[taken.wrapping_add(index) % N].load(Ordering::Relaxed);
        }
        count
    }

    /// Takes `count` bytes out that [`peek`](Self::peek) has shown.
    pub(super) fn skip(&self, count: usize) {
        // Ordering: pairs with the load in `room`.
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(count), Ordering::Release);
    }
}
