//! The console: its two streams of output, the bytes with a special meaning, and the texts that `boot` annotates. These
//! texts are the addresses in backtraces, and the time since power-on.
//!
//! # Two streams on one port
//!
//! What the program prints is its standard output. Everything else is its standard error: the log, reports of panics,
//! deadlocks and the watchdog, and what the program prints with `eprintln!`. Both streams are sent over one port, so
//! their order is kept. Each time the output changes to the other stream, the [`Stream::mark`] of that stream is sent
//! first. If a byte of the text has a special meaning, it is sent with bit 6 inverted, after an [`ESCAPE`]. The kernel
//! writes this form with [`encode`], and `boot` reads it with [`Decoder`]. A terminal ignores marks and [`ESCAPE`], so
//! the output is also readable without `boot`.
//!
//! The module [`input`](crate::input) describes the other direction.
//!
//! The kernel ends lines with `\n` alone, and does not echo input. The user's terminal adds the carriage returns and
//! the echo.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::time::Duration;

/// The byte (XON, `DC1`) that the kernel sends once, when the program first asks for input.
///
/// Until then `boot` holds the input back, for two reasons. A serial port loses input while it is being set up. And
/// input that the program never reads would interrupt the machine at a different time in each run. `boot` removes this
/// XON byte from the output. A terminal ignores the byte.
pub const INPUT_READY: u8 = 0x11;

/// The byte (`SO`) that the kernel sends when the program first asks to be told of an interrupt. From then on, `boot`
/// passes the first SIGINT (Ctrl-C) on, as [`INTERRUPT_KEY`](crate::input::INTERRUPT_KEY). A terminal ignores the byte.
pub const INTERRUPTIBLE: u8 = 0x0e;

/// The byte (`SYN`) that the kernel sends first. Everything before it comes from the firmware or the boot loader, which
/// print to the same port. A terminal ignores this byte.
pub const BEGIN: u8 = 0x16;

/// A stream of the console's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// What the program prints. At power-on the output begins with this stream.
    #[default]
    Output,
    /// The reports and the log of the kernel, and what the program prints with `eprintln!`.
    Error,
}

impl Stream {
    /// The byte (`STX` or `SOH`) that announces this stream. It is sent each time the console switches to this stream.
    pub const fn mark(self) -> u8 {
        match self {
            Self::Output => 0x02,
            Self::Error => 0x01,
        }
    }
}

/// The byte (`DLE`) that announces an escaped byte. A byte of the text is escaped if it would have a special meaning.
/// An escaped byte is sent with bit 6 inverted.
pub const ESCAPE: u8 = 0x10;

/// The bit that is inverted in an escaped byte.
pub(crate) const INVERTED: u8 = 1 << 6;

/// The byte (`ETX`) that precedes the status with which the program is going to end. The kernel sends both before it
/// writes its last report, such as that of a panic, an exception or a deadlock. The report may be long. If a time limit
/// cuts it, `boot` still ends with this status.
pub const ENDING: u8 = 0x03;

/// Whether a byte of the text must be escaped.
const fn is_special(byte: u8) -> bool {
    byte == Stream::Output.mark() || matches!(byte, 0x01 | BEGIN | ENDING | ESCAPE | INPUT_READY | INTERRUPTIBLE)
}

/// The number of bytes that [`encode`] makes of `text`.
pub fn encoded_len(text: &[u8]) -> usize {
    text.len() + text.iter().filter(|&&byte| is_special(byte)).count()
}

/// Passes `text` to `put`, piece by piece, with its special bytes escaped.
pub fn encode(text: &[u8], mut put: impl FnMut(&[u8])) {
    let mut rest = text;
    while let Some(index) = rest.iter().position(|&byte| is_special(byte)) {
        if index > 0 {
            put(&rest[..index]);
        }
        put(&[ESCAPE, rest[index] ^ INVERTED]);
        rest = &rest[index + 1..];
    }
    if !rest.is_empty() {
        put(rest);
    }
}

/// Separates the streams of the console's output.
///
/// ```
/// use boot_protocol::console::{Decoder, Received, Stream};
///
/// let mut decoder = Decoder::default();
/// let mut received = b"a\x01b\x11\x10\x42\x02c".iter().filter_map(|&byte| decoder.decode(byte));
/// assert_eq!(received.next(), Some(Received::Byte(Stream::Output, b'a')));
/// assert_eq!(received.next(), Some(Received::Byte(Stream::Error, b'b')));
/// assert_eq!(received.next(), Some(Received::InputReady));
/// assert_eq!(received.next(), Some(Received::Byte(Stream::Error, 2)));
/// assert_eq!(received.next(), Some(Received::Byte(Stream::Output, b'c')));
/// assert_eq!(received.next(), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoder {
    stream: Stream,
    previous: Previous,
}

/// How the previous byte of the output determines the meaning of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Previous {
    #[default]
    Other,
    Escape,
    Ending,
}

/// What the next byte of the output means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The kernel has begun to print: see [`BEGIN`].
    Begin,
    /// A byte of the text of a stream.
    Byte(Stream, u8),
    /// The request for input, [`INPUT_READY`].
    InputReady,
    /// The program asks to be told of an interrupt: see [`INTERRUPTIBLE`].
    Interruptible,
    /// The program is going to end with this status: see [`ENDING`].
    Ending(u8),
}

impl Decoder {
    /// Decodes the next byte of the output. Returns `None` if the byte is only the [`mark`](Stream::mark) of the stream
    /// to which the next text belongs. Also returns `None` for [`ESCAPE`] and [`ENDING`], because their meaning depends
    /// on the next byte.
    pub fn decode(&mut self, byte: u8) -> Option<Received> {
        match core::mem::take(&mut self.previous) {
            Previous::Other => {}
            Previous::Escape => return Some(Received::Byte(self.stream, byte ^ INVERTED)),
            Previous::Ending => return Some(Received::Ending(byte)),
        }
        match byte {
            ESCAPE => self.previous = Previous::Escape,
            ENDING => self.previous = Previous::Ending,
            BEGIN => {
                *self = Self::default();
                return Some(Received::Begin);
            }
            INPUT_READY => return Some(Received::InputReady),
            INTERRUPTIBLE => return Some(Received::Interruptible),
            _ if byte == Stream::Output.mark() => self.stream = Stream::Output,
            _ if byte == Stream::Error.mark() => self.stream = Stream::Error,
            _ => return Some(Received::Byte(self.stream, byte)),
        }
        None
    }
}

/// The text before each address in a backtrace. `boot` adds the function and line after such an address on standard
/// error. `Display` of [`Frame`] writes this text.
pub const FRAME_PREFIX: &str = "at 0x";

/// The number of hexadecimal digits of an address after [`FRAME_PREFIX`]. Leading zeros are included, so the number of
/// digits is always the same.
pub const FRAME_DIGITS: usize = 16;

/// One frame of a backtrace, as the kernel prints it on a line of its own.
///
/// The address of the innermost frame is the program counter. The address of each other frame is the address to which
/// the call in that frame returns, minus 1. So a lookup finds the line of the call and not the line after the call.
///
/// ```
/// # extern crate std; use std::string::ToString;
/// use boot_protocol::console::Frame;
///
/// assert_eq!(Frame(0xffff_ffff_8000_1234).to_string(), "  at 0xffffffff80001234");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame(pub u64);

impl fmt::Display for Frame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "  {FRAME_PREFIX}{:0width$x}", self.0, width = FRAME_DIGITS)
    }
}

/// A backtrace, one line per [`Frame`]. If several frames in succession are equal, as in a recursive function, the
/// frame is printed once, and a line with the number of repetitions follows.
///
/// ```
/// # extern crate std; use std::string::ToString;
/// use boot_protocol::console::Frames;
///
/// let shown = Frames([1, 2, 2, 2, 2, 3, 3].into_iter()).to_string();
/// let lines: std::vec::Vec<_> = shown.lines().collect();
/// assert_eq!(lines.len(), 5);
/// assert_eq!(lines[0], "  at 0x0000000000000001");
/// assert_eq!(lines[1], "  at 0x0000000000000002");
/// assert_eq!(lines[2], "     ... 3 more times");
/// assert_eq!(lines[3], "  at 0x0000000000000003");
/// assert_eq!(lines[4], "     ... once more");
/// ```
#[derive(Clone, Debug)]
pub struct Frames<I>(pub I);

impl<I: Iterator<Item = u64> + Clone> fmt::Display for Frames<I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut addresses = self.0.clone();
        let mut next = addresses.next();
        while let Some(address) = next {
            writeln!(formatter, "{}", Frame(address))?;
            let mut more = 0_usize;
            next = addresses.find(|&other| {
                more += usize::from(other == address);
                other != address
            });
            match more {
                0 => {}
                1 => writeln!(formatter, "     ... once more")?,
                _ => writeln!(formatter, "     ... {more} more times")?,
            }
        }
        Ok(())
    }
}

/// The text before each address of a [`Place`], at the beginning of a line. `boot` drops the line if the address is in
/// code of the kernel or a library. Otherwise `boot` shows the line.
pub const PLACE_PREFIX: &str = "  in 0x";

/// The backtrace of a G that does not run. The first address is where the G will continue, and the other addresses are
/// in the callers. For each address, `Display` writes a line break and a line. Without addresses, the text is empty.
///
/// ```
/// # extern crate std; use std::string::ToString;
/// use boot_protocol::console::Place;
///
/// assert_eq!(Place([1, 2].into_iter()).to_string(), "\n  in 0x0000000000000001\n  in 0x0000000000000002");
/// ```
#[derive(Clone, Debug)]
pub struct Place<I>(pub I);

impl<I: Iterator<Item = u64> + Clone> fmt::Display for Place<I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .clone()
            .try_for_each(|address| write!(formatter, "\n{PLACE_PREFIX}{address:0width$x}", width = FRAME_DIGITS))
    }
}

impl<I: Iterator<Item = u64> + Clone> Hash for Place<I> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.clone().for_each(|address| address.hash(state));
    }
}

/// The text that a [`SincePowerOn`] prints after the number of seconds. Where this text first occurs on standard
/// output, `boot` inserts after it how long ago QEMU was started, which the machine cannot know. If instructions are
/// counted, `boot` inserts nothing, because all such runs must be equal.
pub const POWER_ON: &str = "s after power-on";

/// The time since power-on, as a program prints it.
///
/// ```
/// # extern crate std; use std::string::ToString;
/// use boot_protocol::console::SincePowerOn;
/// use core::time::Duration;
///
/// assert_eq!(SincePowerOn(Duration::from_micros(131_900)).to_string(), "0.131 s after power-on");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SincePowerOn(pub Duration);

impl fmt::Display for SincePowerOn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:03} {POWER_ON}", self.0.as_secs(), self.0.subsec_millis())
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn every_byte_comes_back_in_its_stream() {
        let all: Vec<u8> = (0..=u8::MAX).chain((0..=u8::MAX).rev()).collect();
        let mut sent = Vec::new();
        let mut expected = Vec::new();
        for stream in [Stream::Output, Stream::Error, Stream::Output] {
            sent.push(stream.mark());
            let before = sent.len();
            encode(&all, |piece| sent.extend_from_slice(piece));
            assert_eq!(sent.len() - before, encoded_len(&all));
            assert!([BEGIN, ENDING, INPUT_READY].iter().all(|special| !sent[before..].contains(special)));
            expected.extend(all.iter().map(|&byte| Received::Byte(stream, byte)));
        }
        let mut decoder = Decoder::default();
        let received: Vec<Received> = sent.iter().filter_map(|&byte| decoder.decode(byte)).collect();
        assert_eq!(received, expected);
        let received: Vec<Received> = [ENDING, ENDING, b'a'].iter().filter_map(|&byte| decoder.decode(byte)).collect();
        assert_eq!(received, [Received::Ending(ENDING), Received::Byte(Stream::Output, b'a')]);
    }

    #[test]
    fn begin_starts_a_new_output() {
        let mut decoder = Decoder::default();
        let sent = [Stream::Error.mark(), b'a', BEGIN, b'b'];
        let received: Vec<Received> = sent.iter().filter_map(|&byte| decoder.decode(byte)).collect();
        let expected = [Received::Byte(Stream::Error, b'a'), Received::Begin, Received::Byte(Stream::Output, b'b')];
        assert_eq!(received, expected);
    }
}
