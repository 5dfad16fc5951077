//! The latest messages, kept in memory for the report of a panic.

use core::fmt;
use core::str;
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

    /// Writes the kept text. If the ring has lost the beginning of the oldest line, leaves this line out. If text is
    /// being appended concurrently, only a part of that text may be written.
    pub(super) fn write_to(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let end = self.end.load(Ordering::Relaxed);
        let start = end.saturating_sub(N);
        let byte = |index: usize| self.bytes[index % N].load(Ordering::Relaxed);
        // If more than `N` bytes were appended, the oldest line has lost its beginning, so it is left out.
        let cut =
            if start == 0 { Some(0) } else { (start..end).position(|index| byte(index) == b'\n').map(|at| at + 1) };
        let Some(cut) = cut else { return Ok(()) };
        let mut part = [0; 64];
        let mut length = 0;
        for index in start + cut..end {
            part[length] = byte(index);
            length += 1;
            if length == part.len() || index + 1 == end {
                length = write_part(out, &mut part, length)?;
            }
        }
        Ok(())
    }
}

/// Writes the first `length` bytes of `part` up to the first incomplete or invalid character. Drops the bytes of an
/// invalid character. Moves the bytes that remain to the front of `part`, and returns their number.
fn write_part(out: &mut impl fmt::Write, part: &mut [u8], length: usize) -> Result<usize, fmt::Error> {
    match str::from_utf8(&part[..length]) {
        Ok(text) => out.write_str(text).map(|()| 0),
        Err(error) => {
            let whole = error.valid_up_to();
            out.write_str(str::from_utf8(&part[..whole]).unwrap_or_default())?;
            // An incomplete character at the end is kept, and the next call completes it. Invalid bytes are skipped.
            let skipped = error.error_len().map_or(whole, |wrong| whole + wrong);
            part.copy_within(skipped..length, 0);
            Ok(length - skipped)
        }
    }
}
