//! The console: bytes with a special meaning, and two kinds of text that `boot` annotates. One is an address in a
//! backtrace, and the other is the time since power-on.
//!
//! The kernel ends lines with `\n` alone, and does not echo input. The user's terminal adds the carriage returns and the
//! echo.

use core::fmt;
use core::time::Duration;

/// The byte (XON, `DC1`) that the kernel sends once, when the program first asks for input.
///
/// Until then `boot` holds the input back, for two reasons. A serial port loses input while it is being set up. And
/// input that the program never reads would interrupt the machine at a different time in each run. `boot` removes the
/// byte from the output. A terminal ignores it.
pub const INPUT_READY: u8 = 0x11;

/// The byte (`EOT`, Ctrl-D) that `boot` sends when its own input has ended. The kernel treats this byte as the end of
/// the input.
pub const END_OF_INPUT: u8 = 0x04;

/// The key (`DC4`, Ctrl-T) by which the user asks the kernel for a report. A terminal sends this key only when the user
/// also enters a newline. So the kernel removes both the key and a newline directly after it from the program's input.
pub const INSPECT_KEY: u8 = 0x14;

/// The text before each address in a backtrace. `boot` adds the function and line after such an address. `Display` of
/// [`Frame`] writes this text.
pub const FRAME_PREFIX: &str = "at 0x";

/// The number of hexadecimal digits of such an address. Leading zeros are included, so it is always the same.
pub const FRAME_DIGITS: usize = 16;

/// One frame of a backtrace, as the kernel prints it on a line of its own.
///
/// The address of the innermost frame is its program counter. For each caller it is the return address minus 1. So a
/// lookup finds the line of the call, and not the line after the call.
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

/// The text that follows the number of seconds of a [`SincePowerOn`]. When `boot` sees this text for the first time, it
/// adds how long ago it started QEMU. The machine cannot know this time.
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
