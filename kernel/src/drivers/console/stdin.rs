//! Standard input for programs, by lines or bytes, on the machine and on the host. The module `host/console` includes
//! this file by its path.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use boot_protocol::input::Input;
use gmp_sched::cancel::ContextError;
use gmp_sched::platform::OutOfResources;
use gmp_sched::sync::LimitedMutex as _;

use super::input::{touch_stack_ahead, try_read, wait_for_input};
use crate::platform::{Limit, Mutex};

/// The beginning of the next line: what was read, but not returned yet. It may be a whole line if an earlier call had
/// no memory to return it. The G that reads a line holds the lock, so that each G gets whole lines.
static LINE: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Appends `bytes` to `text`, and replaces invalid UTF-8. Returns how many bytes were appended. If there is no memory,
/// nothing is appended.
fn append_lossy(bytes: &[u8], text: &mut String) -> Result<usize, OutOfResources> {
    const REPLACEMENT: &str = "\u{fffd}";
    let pieces = || bytes.utf8_chunks().map(|it| (it.valid(), if it.invalid().is_empty() { "" } else { REPLACEMENT }));
    let length = pieces().map(|(valid, replacement)| valid.len() + replacement.len()).sum();
    text.try_reserve(length).map_err(|_| OutOfResources)?;
    text.extend(pieces().flat_map(|(valid, replacement)| [valid, replacement]));
    Ok(length)
}

/// The standard input of the program, which all values of this type share.
#[derive(Clone, Copy, Debug)]
pub struct Stdin(());

/// Returns a handle to the standard input of the program. Does not read anything.
#[must_use]
pub const fn stdin() -> Stdin {
    Stdin(())
}

impl Stdin {
    /// Reads the next line and appends it to `line`, with the newline at its end. The last line of the input may be
    /// without a newline. Invalid UTF-8 is replaced, and all other bytes are appended unchanged. Returns how many bytes
    /// were appended, which is 0 only at the end of the input.
    ///
    /// If the input comes from a terminal, some bytes are keys: a carriage return is a newline, and Ctrl-D ends the
    /// input. Input from a pipe or file has no such bytes.
    ///
    /// Blocks the calling G until a whole line has been received. In the kernel, the M of the G is not blocked. If
    /// several Gs read, each gets whole lines. Which G gets the next line is not determined.
    ///
    /// # Errors
    ///
    /// If there is no memory for the line. On the host, also if no M can be created to run the other Gs during the
    /// call. No input is lost in these cases: the next call continues the line. Also if the input cannot be read, for
    /// example because it is a folder.
    ///
    /// # Panics
    ///
    /// If the caller is not a G.
    #[track_caller]
    pub fn read_line(&self, line: &mut String) -> Result<usize, InputError> {
        self.read_line_until(line, Limit::NONE)
    }

    /// Like [`read_line`](Self::read_line), but waits no longer than `limit`. If the limit ends the wait, the part of
    /// the line that has been received is kept for the next call.
    ///
    /// # Errors
    ///
    /// In the cases of [`read_line`](Self::read_line), and if the limit ends the wait. On the host, also if `limit` has
    /// a context and there is no memory to wait for this context.
    ///
    /// # Panics
    ///
    /// If the caller is not a G.
    #[track_caller]
    pub fn read_line_until<'l>(&self, line: &mut String, limit: impl Into<Limit<'l>>) -> Result<usize, InputError> {
        let limit = limit.into();
        touch_stack_ahead();
        let mut next = LINE.lock_until(limit)?;
        while !next.ends_with(b"\n") {
            // The memory is allocated before the byte is taken, so that no input is lost if there is none. A panic for
            // lack of memory would leave the lock held if it ended only this G.
            next.try_reserve(1).map_err(|_| OutOfResources)?;
            match wait_for_input(&limit)? {
                Input::Byte(byte) => next.push(byte),
                Input::Failed if next.is_empty() => return Err(InputError::Unreadable),
                Input::End | Input::Failed => break,
            }
        }
        let length = append_lossy(&next, line)?;
        *next = Vec::new();
        Ok(length)
    }

    /// Reads bytes into `buffer`, exactly as they come, and returns their number. Waits only for the first byte:
    /// returns fewer bytes than the buffer holds if no more have been received. Returns 0 only at the end of the input,
    /// or if the buffer is empty. Blocks the calling G until a byte has been received.
    ///
    /// # Errors
    ///
    /// If the input cannot be read. On the host, also if no M can be created to run the other Gs during the call. No
    /// input is lost.
    ///
    /// # Panics
    ///
    /// If the caller is not a G.
    #[track_caller]
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, InputError> {
        touch_stack_ahead();
        let mut line = LINE.lock();
        let mut count = buffer.len().min(line.len());
        buffer[..count].copy_from_slice(&line[..count]);
        line.drain(..count);
        if let [first, ..] = buffer
            && count == 0
        {
            match wait_for_input(&Limit::NONE)? {
                Input::Byte(byte) => *first = byte,
                Input::End => return Ok(0),
                Input::Failed => return Err(InputError::Unreadable),
            }
            count = 1;
        }
        for place in &mut buffer[count..] {
            let Some(Input::Byte(byte)) = try_read() else { break };
            *place = byte;
            count += 1;
        }
        Ok(count)
    }

    /// Returns an iterator over the remaining lines of the input, without the newline, or the carriage return and the
    /// newline, at their ends. The iterator ends at the end of the input. A call of `next` returns an error, blocks and
    /// panics in the cases of [`read_line`](Self::read_line).
    #[must_use]
    pub fn lines(self) -> Lines {
        Lines(self)
    }
}

/// Why the input could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputError {
    /// There was no memory for the line. Or no M could be created to run the other Gs during the call. Or the context
    /// of the limit needs a G that ends the wait, and there was no memory for that G.
    OutOfResources,
    /// The limit (a deadline or a context) was over before a whole line had been received.
    Limit(ContextError),
    /// The input cannot be read, for example because it is a folder. `boot` has printed the reason.
    Unreadable,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfResources => OutOfResources.fmt(f),
            Self::Limit(error) => error.fmt(f),
            Self::Unreadable => f.write_str("the input cannot be read"),
        }
    }
}

impl core::error::Error for InputError {}

impl From<OutOfResources> for InputError {
    fn from(_: OutOfResources) -> Self {
        Self::OutOfResources
    }
}

impl From<ContextError> for InputError {
    fn from(error: ContextError) -> Self {
        Self::Limit(error)
    }
}

/// An iterator over the lines of the input: [`Stdin::lines`].
#[derive(Clone, Debug)]
pub struct Lines(Stdin);

impl Iterator for Lines {
    type Item = Result<String, InputError>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => {
                if line.ends_with('\n') {
                    line.pop();
                    if line.ends_with('\r') {
                        line.pop();
                    }
                }
                Some(Ok(line))
            }
            Err(error) => Some(Err(error)),
        }
    }
}
