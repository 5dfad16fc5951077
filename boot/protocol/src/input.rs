//! The input of the console: bytes, and keys of a terminal.
//!
//! Input from a pipe or a file is bytes. All of them reach the program, in order. Input from a terminal is keys, some
//! of which have a meaning: see [`Keys`]. The end of the input is not a byte. So a byte of a file never ends the input.
//!
//! The serial port transmits only bytes. There a plain byte is a key, so that a terminal can be connected to the port
//! without `boot`. A byte of a file that would be a key with a meaning is sent with bit 6 inverted, after an
//! [`ESCAPE`]. So is each [`ESCAPE`] byte of a file or a terminal. `boot` writes this form with [`encode`], and the kernel
//! reads it with [`Decoder`]. The memory of [`input_memory`] contains the [`Kind`] of each piece instead, and the bytes as
//! they are.
//!
//! [`input_memory`]: crate::input_memory

use core::time::Duration;

use crate::console::{ESCAPE, INVERTED};

/// The key (`EOT`, Ctrl-D) that ends the input.
pub const END_KEY: u8 = 0x04;

/// The key (`DC4`, Ctrl-T) by which the user asks the kernel for a report. A terminal sends this key only when the user
/// also enters a newline. So [`Keys`] drops the key, and a newline directly after it.
pub const INSPECT_KEY: u8 = 0x14;

/// The key (`ETX`, Ctrl-C) that asks the program to end. `boot` sends it for the first SIGINT that `boot` receives, but
/// only if the kernel has said that the program wants it, by [`INTERRUPTIBLE`](crate::console::INTERRUPTIBLE).
pub const INTERRUPT_KEY: u8 = 0x03;

/// How long the program may take to end after the first Ctrl-C.
pub const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// Follows an [`ESCAPE`] to say that the rest of the input cannot be read. No byte that [`encode`] escapes has this value
/// when bit 6 is inverted.
const FAILED: u8 = 0x18;

/// What a program gets from its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The next byte.
    Byte(u8),
    /// The input has ended.
    End,
    /// The rest of the input cannot be read.
    Failed,
}

/// What is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Input for the program.
    Input(Input),
    /// The key [`INSPECT_KEY`].
    Inspect,
    /// The key [`INTERRUPT_KEY`]. If the program does not ask to be told of interrupts, this key is a byte of the input.
    Interrupt,
}

/// The kind of a piece of the input. The values are those of the [`KIND`](crate::input_memory::KIND) word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of a pipe or file.
    Bytes,
    /// Keys of a terminal.
    Keys,
    /// The end of the input. The piece has no bytes.
    End,
    /// The rest of the input cannot be read. The piece has no bytes.
    Failed,
    /// A frame that arrives from the network.
    Frame,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Bytes, Self::Keys, Self::End, Self::Failed, Self::Frame];

    /// Returns the kind with this value, or `None` if there is none.
    pub fn from_word(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u64 == word)
    }
}

/// Translates the keys of a terminal.
///
/// - Enter is a carriage return, a newline, or both, depending on the terminal. It is translated to one newline.
/// - [`END_KEY`] ends the input.
/// - [`INSPECT_KEY`] requests a report. An Enter directly after this key is dropped.
/// - [`INTERRUPT_KEY`] asks the program to end.
/// - All other keys are bytes of the input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keys {
    /// The previous key.
    previous: u8,
}

impl Keys {
    /// Creates a translator. There is no previous key.
    pub const fn new() -> Self {
        Self { previous: 0 }
    }

    /// Translates the next key. Returns `None` if the key belongs to the previous one.
    pub fn press(&mut self, key: u8) -> Option<Received> {
        let previous = core::mem::replace(&mut self.previous, key);
        match (previous, key) {
            (_, INSPECT_KEY) => Some(Received::Inspect),
            (_, INTERRUPT_KEY) => Some(Received::Interrupt),
            (_, END_KEY) => Some(Received::Input(Input::End)),
            (INSPECT_KEY, b'\r' | b'\n') | (b'\r', b'\n') => None,
            (_, b'\r') => Some(Received::Input(Input::Byte(b'\n'))),
            _ => Some(Received::Input(Input::Byte(key))),
        }
    }
}

/// Passes a piece of the input to `put`, part by part, in the form for the serial port. A frame has no such form.
pub fn encode(kind: Kind, bytes: &[u8], mut put: impl FnMut(&[u8])) {
    if kind == Kind::Frame {
        return;
    }
    let is_special = |byte: &u8| match kind {
        Kind::Keys => *byte == ESCAPE,
        _ => matches!(*byte, ESCAPE | END_KEY | INSPECT_KEY | INTERRUPT_KEY | b'\r'),
    };
    let mut rest = bytes;
    while let Some(index) = rest.iter().position(is_special) {
        put(&rest[..index]);
        put(&[ESCAPE, rest[index] ^ INVERTED]);
        rest = &rest[index + 1..];
    }
    put(rest);
    match kind {
        Kind::Bytes | Kind::Keys | Kind::Frame => {}
        Kind::End => put(&[END_KEY]),
        Kind::Failed => put(&[ESCAPE, FAILED]),
    }
}

/// Reads what [`encode`] has written, or what a terminal sends.
///
/// ```
/// use boot_protocol::input::{Decoder, Input, Kind, Received, encode};
///
/// let (mut decoder, mut received) = (Decoder::new(), Vec::new());
/// for (kind, bytes) in [(Kind::Bytes, &b"\x04"[..]), (Kind::End, b"")] {
///     encode(kind, bytes, |part| received.extend(part.iter().filter_map(|&byte| decoder.decode(byte))));
/// }
/// assert_eq!(received, [Received::Input(Input::Byte(0x04)), Received::Input(Input::End)]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    keys: Keys,
    is_escaped: bool,
}

impl Decoder {
    /// Creates a decoder for the beginning of the input.
    pub const fn new() -> Self {
        Self { keys: Keys::new(), is_escaped: false }
    }

    /// Decodes the next byte. Returns `None` if the byte only affects the next one, or belongs to the previous key.
    pub fn decode(&mut self, byte: u8) -> Option<Received> {
        if core::mem::take(&mut self.is_escaped) {
            // An escaped byte is not a key, so the next key does not belong to it.
            self.keys = Keys::new();
            let input = if byte == FAILED { Input::Failed } else { Input::Byte(byte ^ INVERTED) };
            return Some(Received::Input(input));
        }
        if byte == ESCAPE {
            self.is_escaped = true;
            return None;
        }
        self.press(byte)
    }

    /// Translates a key that was not received through the serial port. See [`Keys::press`].
    pub fn press(&mut self, key: u8) -> Option<Received> {
        self.keys.press(key)
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use alloc::vec::Vec;

    use super::*;

    fn decoded(pieces: &[(Kind, &[u8])]) -> Vec<Received> {
        let (mut decoder, mut received) = (Decoder::new(), Vec::new());
        for (kind, bytes) in pieces {
            encode(*kind, bytes, |part| received.extend(part.iter().filter_map(|&byte| decoder.decode(byte))));
        }
        received
    }

    fn bytes(bytes: &[u8]) -> Vec<Received> {
        bytes.iter().map(|&byte| Received::Input(Input::Byte(byte))).collect()
    }

    /// The input contains all pairs of bytes, so every byte occurs after every byte.
    #[test]
    fn every_byte_of_a_file_is_received() {
        let all: Vec<u8> = (0..=u8::MAX).flat_map(|first| (0..=u8::MAX).flat_map(move |next| [first, next])).collect();
        assert_eq!(decoded(&[(Kind::Bytes, &all)]), bytes(&all));
        let mut expected = bytes(b"\x04\x14\n");
        expected.push(Received::Input(Input::End));
        assert_eq!(decoded(&[(Kind::Bytes, b"\x04\x14"), (Kind::Bytes, b"\n"), (Kind::End, b"")]), expected);
        assert_eq!(decoded(&[(Kind::Failed, b"")]), [Received::Input(Input::Failed)]);
    }

    #[test]
    fn keys_have_their_meaning() {
        assert_eq!(decoded(&[(Kind::Keys, b"a\r\nb\rc\nd\n\n")]), bytes(b"a\nb\nc\nd\n\n"));
        let mut expected = [[Received::Inspect].into(), bytes(b"a"), [Received::Inspect].into(), bytes(b"\n")].concat();
        expected.push(Received::Input(Input::End));
        assert_eq!(decoded(&[(Kind::Keys, b"\x14\na\x14\r"), (Kind::Keys, b"\n\n\x04")]), expected);
        assert_eq!(decoded(&[(Kind::Keys, b"\x03")]), [Received::Interrupt]);
        let others: Vec<u8> = (0..=u8::MAX).filter(|key| !matches!(key, 0x03 | 0x04 | 0x14 | b'\r')).collect();
        assert_eq!(decoded(&[(Kind::Keys, &others)]), bytes(&others));
    }

    #[test]
    fn kinds_have_their_words() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_word(kind as u64), Some(kind));
        }
        assert_eq!(Kind::from_word(5), None);
    }
}
