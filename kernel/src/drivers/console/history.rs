//! The latest messages, kept in memory for the report of a panic.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The last `N` bytes of the text that was appended.
///
/// Appending takes no lock, so it is possible in every context. If several callers append at once, their texts are
/// mixed only if the texts are together longer than the ring.
#[derive(Debug)]
pub(super) struct History<const N: usize> {
    bytes: [AtomicU8; N],
    /// The number of bytes that were ever appended.
    end: AtomicUsize,
}

impl<const N: usize> History<N> {
    pub(super) const fn new() -> Self {
        Self { bytes: [const { AtomicU8::new(0) }; N], end: AtomicUsize::new(0) }
    }

    /// Appends text. If the text is longer than the ring, only its end is kept. Callable from everywhere.
    pub(super) fn append(&self, text: &[u8]) {
        let start = self.end.fetch_add(text.len(), Ordering::Relaxed);
        let left_out = text.len().saturating_sub(N);
        for (index, byte) in text.iter().enumerate().skip(left_out) {
            self.bytes[start.wrapping_add(index) % N].store(*byte, Ordering::Relaxed);
        }
    }

    /// Returns the kept text, byte by byte. If the ring has lost the beginning of the oldest line, leaves this line
    /// out. If text is being appended concurrently, only a part of that text may be returned.
    pub(super) fn kept(&self) -> impl Iterator<Item = u8> {
        let end = self.end.load(Ordering::Relaxed);
        let start = end.saturating_sub(N);
        let byte = move |index: usize| self.bytes[index % N].load(Ordering::Relaxed);
        // If more than `N` bytes were appended, the oldest line has lost its beginning.
        let lines =
            if start == 0 { 0 } else { (start..end).find(|&index| byte(index) == b'\n').map_or(end, |at| at + 1) };
        (lines..end).map(byte)
    }
}
