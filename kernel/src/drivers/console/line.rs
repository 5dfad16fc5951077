//! Formats text in the context of the caller, without a lock.

use alloc::vec::Vec;
use core::fmt::{self, Write};

use boot_protocol::console::Stream;

use super::output;
use crate::cpu::contexts;

/// The longest text, in bytes, that is formatted on the caller's stack.
const SHORT: usize = 256;

/// Collects formatted text, and passes it to `write`. Short text stays in an array on the caller's stack. Longer text
/// moves to the heap, and is passed as a whole when this value is dropped. If the heap has no memory for the text, it
/// is passed line by line.
pub(crate) struct Collector<F: FnMut(&[u8])> {
    /// The text, if it is short. Otherwise empty, or the last line if the text is passed line by line.
    short: heapless::Vec<u8, SHORT>,
    /// The text, after it has moved to the heap.
    long: Vec<u8>,
    /// Whether the text is passed line by line.
    is_by_line: bool,
    write: F,
}

impl<F: FnMut(&[u8])> Collector<F> {
    fn new(is_by_line: bool, write: F) -> Self {
        Self { short: heapless::Vec::new(), long: Vec::new(), is_by_line, write }
    }

    /// Appends `text` to the stored text. Returns `false`, and stores nothing, if there is no memory for it or the caller
    /// may not allocate.
    fn add(&mut self, text: &[u8]) -> bool {
        if self.long.is_empty() && self.short.extend_from_slice(text).is_ok() {
            return true;
        }
        let has_room = contexts::may_allocate() && self.long.try_reserve(self.short.len() + text.len()).is_ok();
        if has_room {
            self.long.extend_from_slice(&self.short);
            self.short.clear();
            self.long.extend_from_slice(text);
        }
        has_room
    }

    /// Passes the stored text to `write`, if there is any.
    fn pass(&mut self) {
        // At most one of the two has text.
        for stored in [self.long.as_slice(), &self.short] {
            if !stored.is_empty() {
                (self.write)(stored);
            }
        }
        self.long.clear();
        self.short.clear();
    }
}

impl<F: FnMut(&[u8])> Write for Collector<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let text = text.as_bytes();
        if !self.is_by_line && self.add(text) {
            return Ok(());
        }
        if !self.is_by_line {
            self.is_by_line = true;
            self.pass();
        }
        for &byte in text {
            if self.short.push(byte).is_err() {
                self.pass();
                // The array is empty now, so the byte fits.
                let _ = self.short.push(byte);
            }
            if byte == b'\n' {
                self.pass();
            }
        }
        Ok(())
    }
}

impl<F: FnMut(&[u8])> Drop for Collector<F> {
    fn drop(&mut self) {
        self.pass();
    }
}

/// Formats text and passes it to `write`, as a whole if possible. Long text needs memory from the heap. If this memory
/// cannot be allocated, as in an interrupt handler or when memory is exhausted, the rest of the text is passed line by
/// line. If a `Display` implementation returns an error, the text ends with what was formatted before the error.
///
/// Each `Display` implementation is called once, because another call could have other effects and another result.
pub(super) fn with_formatted(arguments: fmt::Arguments<'_>, mut write: impl FnMut(&[u8])) {
    match arguments.as_str() {
        Some(text) => write(text.as_bytes()),
        None => _ = Collector::new(false, write).write_fmt(arguments),
    }
}

/// Prints a report to standard error, line by line. A line of at most 256 bytes is not mixed with other output.
/// Interrupt handlers use this for long text, because they cannot allocate the memory to format it as a whole. If the
/// last line has no newline, the line is printed when this writer is dropped.
pub(crate) type LineWriter = Collector<fn(&[u8])>;

impl LineWriter {
    pub(crate) fn to_stderr() -> Self {
        Self::new(true, |line| _ = output::write_to(Stream::Error, line))
    }
}
