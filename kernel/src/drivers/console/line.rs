//! Formats text in the context of the caller, without a lock.

use alloc::vec::Vec;
use core::fmt::{self, Write};

use boot_protocol::console::Stream;

use super::output;
use crate::cpu::contexts;

/// The longest text, in bytes, that is formatted on the caller's stack.
const SHORT: usize = 256;

/// Stores formatted text as long as it fits, and counts the bytes of the whole text.
#[derive(Default)]
struct Short {
    bytes: heapless::Vec<u8, SHORT>,
    length: usize,
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.length += text.len();
        // If a piece does not fit, `length` exceeds the capacity, and the caller does not use the stored text.
        let _ = self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Stores formatted text as long as it fits into the reserved capacity.
struct Long(Vec<u8>);

impl Write for Long {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.0.capacity() - self.0.len();
        self.0.extend_from_slice(&text.as_bytes()[..room.min(text.len())]);
        Ok(())
    }
}

/// Passes each piece of formatted text to a closure.
struct Pieces<F>(F);

impl<F: FnMut(&[u8])> Write for Pieces<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        (self.0)(text.as_bytes());
        Ok(())
    }
}

/// Formats text and passes it to `write`, as a whole if possible. Long text needs memory from the heap. If this memory
/// cannot be allocated, as in an interrupt handler or when memory is exhausted, the text is passed piece by piece. If a
/// `Display` implementation returns an error, the text ends with what was formatted before the error.
pub(super) fn with_formatted(arguments: fmt::Arguments<'_>, mut write: impl FnMut(&[u8])) {
    if let Some(text) = arguments.as_str() {
        return write(text.as_bytes());
    }
    let mut short = Short::default();
    let _ = short.write_fmt(arguments);
    if short.length <= SHORT {
        return write(&short.bytes);
    }
    let mut long = Vec::new();
    if contexts::may_allocate() && long.try_reserve_exact(short.length).is_ok() {
        let mut long = Long(long);
        let _ = long.write_fmt(arguments);
        write(&long.0);
    } else {
        let _ = Pieces(write).write_fmt(arguments);
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
