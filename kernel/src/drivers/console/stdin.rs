//! Standard input for programs, line by line, on the machine and on the host. The module `host/console` includes this
//! file by its path.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use boot_protocol::console::END_OF_INPUT;
use gmp_sched::cancel::ContextError;
use gmp_sched::platform::OutOfResources;
use gmp_sched::sync::LimitedMutex as _;

use super::input::{touch_stack_ahead, wait_for_byte};
use crate::platform::{Limit, Mutex};

/// The input that was read, but not returned yet. The G that reads a line holds the lock, so that each G gets whole
/// lines.
static INPUT: Mutex<Input> = Mutex::new(Input { line: Vec::new(), has_ended: false });

struct Input {
    /// The beginning of the next line.
    line: Vec<u8>,
    /// Whether the input has ended. The byte [`END_OF_INPUT`], which is received once, marks the end of the input.
    has_ended: bool,
}

impl Input {
    /// Whether the next line has been received up to its end. This is so before the first byte is received if an
    /// earlier call had no memory to return the line.
    fn is_line_complete(&self) -> bool {
        self.has_ended || self.line.ends_with(b"\n")
    }
}

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
    /// Reads the next line and appends it to `line`, with the newline at its end. A carriage return counts as a
    /// newline. The last line of the input may be without a newline. Invalid UTF-8 is replaced. Returns how many bytes
    /// were appended, which is 0 only at the end of the input.
    ///
    /// Blocks the calling G until a whole line has been received. In the kernel, the M of the G is not blocked. If
    /// several Gs read, each gets whole lines. Which G gets the next line is not determined.
    ///
    /// # Errors
    ///
    /// If there is no memory for the line. On the host, also if no M can be created to run the other Gs during the
    /// call. No input is lost in these cases: the next call continues the line.
    ///
    /// # Panics
    ///
    /// If the caller is not a G.
    #[track_caller]
    pub fn read_line(&self, line: &mut String) -> Result<usize, OutOfResources> {
        self.read_line_until(line, Limit::NONE).map_err(|error| match error {
            InputError::OutOfResources => OutOfResources,
            InputError::Limit(_) => unreachable!("a wait without a limit is not ended by one"),
        })
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
        let mut input = INPUT.lock_until(limit)?;
        while !input.is_line_complete() {
            // The memory is allocated before the byte is taken, so that no input is lost if there is none. A panic for
            // lack of memory would leave the lock held if it ended only this G.
            input.line.try_reserve(1).map_err(|_| OutOfResources)?;
            match wait_for_byte(&limit)? {
                END_OF_INPUT => input.has_ended = true,
                b'\n' | b'\r' => input.line.push(b'\n'),
                byte => input.line.push(byte),
            }
        }
        let length = append_lossy(&input.line, line)?;
        input.line = Vec::new();
        Ok(length)
    }

    /// Returns an iterator over the remaining lines of the input, without their newlines. The iterator ends at the end
    /// of the input. A call of `next` returns an error, blocks and panics in the cases of
    /// [`read_line`](Self::read_line).
    #[must_use]
    pub fn lines(self) -> Lines {
        Lines(self)
    }
}

/// Why a line could not be read: [`Stdin::read_line_until`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputError {
    /// There was no memory for the line. Or no M could be created to run the other Gs during the call. Or the context
    /// of the limit needs a G that ends the wait, and there was no memory for that G.
    OutOfResources,
    /// The limit (a deadline or a context) was over before a whole line had been received.
    Limit(ContextError),
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfResources => OutOfResources.fmt(f),
            Self::Limit(error) => error.fmt(f),
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
    type Item = Result<String, OutOfResources>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => {
                if line.ends_with('\n') {
                    line.pop();
                }
                Some(Ok(line))
            }
            Err(error) => Some(Err(error)),
        }
    }
}
