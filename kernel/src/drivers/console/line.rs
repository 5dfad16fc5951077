//! Formats text in the context of the caller, without a lock.

use alloc::vec::Vec;
use core::fmt::{self, Write};

use boot_protocol::console::Stream;

use super::output;
use crate::cpu::contexts;

/// The longest text, in bytes, that is formatted on the caller's stack.
const SHORT: usize = 256;

/// Collects formatted text. Short text stays in an array on the caller's stack. Longer text moves to the heap. If the
/// heap has no memory for it, the text is passed to `write` piece by piece.
struct Collector<F> {
    /// The text, if it is short. Empty after the text has moved to the heap or was passed to `write`.
    short: heapless::Vec<u8, SHORT>,
    /// The text, after it has moved to the heap.
    long: Vec<u8>,
    /// Whether the beginning of the text was passed to `write` already, because it could not be stored.
    is_passed: bool,
    write: F,
}

impl<F: FnMut(&[u8])> Collector<F> {
    /// Makes room for `more` bytes on the heap, and moves the text there. Returns `false` if there is no memory or the
    /// caller may not allocate.
    fn grow(&mut self, more: usize) -> bool {
        let has_room = contexts::may_allocate() && self.long.try_reserve(self.short.len() + more).is_ok();
        if has_room {
            self.long.extend_from_slice(&self.short);
            self.short.clear();
        }
        has_room
    }

    /// Passes the stored text to `write`.
    fn pass(&mut self) {
        let Self { short, long, write, .. } = self;
        // Text that has moved to the heap is not empty, because it did not fit into the array.
        write(if long.is_empty() { short } else { long });
    }
}

impl<F: FnMut(&[u8])> Write for Collector<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let text = text.as_bytes();
        if self.is_passed {
            (self.write)(text);
        } else if self.long.is_empty() && self.short.extend_from_slice(text).is_ok() {
            // The text still fits into the array.
        } else if self.grow(text.len()) {
            self.long.extend_from_slice(text);
        } else {
            self.pass();
            self.is_passed = true;
            (self.write)(text);
        }
        Ok(())
    }
}

/// Formats text and passes it to `write`, as a whole if possible. Long text needs memory from the heap. If this memory
/// cannot be allocated, as in an interrupt handler or when memory is exhausted, the text is passed piece by piece. If a
/// `Display` implementation returns an error, the text ends with what was formatted before the error.
///
/// Each `Display` implementation is called once, because another call could have other effects and another result.
pub(super) fn with_formatted(arguments: fmt::Arguments<'_>, mut write: impl FnMut(&[u8])) {
    if let Some(text) = arguments.as_str() {
        return write(text.as_bytes());
    }
    let mut text = Collector { short: heapless::Vec::new(), long: Vec::new(), is_passed: false, write };
    let _ = text.write_fmt(arguments);
    if !text.is_passed {
        text.pass();
    }
}

/// Prints a report to standard error, line by line. A line of at most 256 bytes is not mixed with other output.
/// Interrupt handlers use this for long text, because they cannot allocate the memory to format it as a whole. If the
/// last line has no newline, the line is printed when this writer is dropped.
pub(crate) struct LineWriter(heapless::Vec<u8, SHORT>);

impl LineWriter {
    pub(crate) fn new() -> Self {
        Self(heapless::Vec::new())
    }

    fn send(&mut self) {
        output::write_to(Stream::Error, &self.0);
        self.0.clear();
    }
}

impl Write for LineWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.0.push(byte).is_err() {
                self.send();
                // The buffer is empty now, so the byte fits.
                let _ = self.0.push(byte);
            }
            if byte == b'\n' {
                self.send();
            }
        }
        Ok(())
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            self.send();
        }
    }
}
