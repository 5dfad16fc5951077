//! Annotates the machine's output with information that only the host has: the function and line of an address, and how
//! long ago QEMU was started.
//!
//! A *place* is a line of a report. It contains one address of the backtrace of a G that does not run (see [`Place`]).
//! [`ReportAnnotator`] drops a place if its address is in the code of the kernel or of a library.
//!
//! [`Place`]: boot_protocol::console::Place

use core::mem;
use std::path::Path;
use std::time::Instant;

use boot_protocol::console::{FRAME_DIGITS, FRAME_PREFIX, PLACE_PREFIX, POWER_ON};

use crate::symbols::Symbols;

/// Adds annotations to standard output, which is what the program prints. When the program first prints how long ago
/// the machine was powered on, the annotator adds how long ago QEMU was started. All else is passed on unchanged.
#[derive(Debug)]
pub struct OutputAnnotator {
    /// When QEMU was started; `None` if this time is not to be added, or if it has been added already.
    started: Option<Instant>,
    /// How many bytes at the end of the output match the beginning of [`POWER_ON`].
    matched: usize,
}

/// Adds annotations to standard error, where the reports of the kernel are. After each address of a backtrace, the
/// annotator adds the function and line. It drops the places that are not to be shown.
///
/// Each byte is passed on as soon as it arrives. So a prompt or another incomplete line is shown at once. Only a line
/// that may be a place is held back, until it is known whether the line is shown.
pub struct ReportAnnotator {
    symbols: Symbols,
    /// How many bytes at the end of the output match the beginning of an address, which is printed as [`FRAME_PREFIX`]
    /// followed by digits.
    matched: usize,
    /// The value of the hexadecimal digits among the bytes that `matched` counts.
    address: u64,
    /// Whether the last byte of the output is a space or a newline, so that the next byte begins a word.
    at_word: bool,
    place: PlaceLine,
}

/// The state of the current line, which may be a place.
enum PlaceLine {
    /// The bytes of the line so far, which are held back. They match the beginning of a place: [`PLACE_PREFIX`],
    /// followed by digits.
    Held(Vec<u8>),
    /// The line is not a place, or it is a place that is shown. The rest of the line is passed on.
    Other,
    /// The line is a place that is not shown. Its newline will be dropped, too.
    Dropped,
}

impl core::fmt::Debug for ReportAnnotator {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("ReportAnnotator").field("program", &self.symbols.program).finish_non_exhaustive()
    }
}

impl OutputAnnotator {
    /// Makes an annotator for a machine whose QEMU was started at `started`. If `started` is `None`, nothing is added.
    /// The output then depends only on the machine.
    pub fn new(started: Option<Instant>) -> Self {
        Self { started, matched: 0 }
    }

    /// Appends `bytes` to `output`, together with the annotation.
    pub fn annotate(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        for &byte in bytes {
            output.push(byte);
            if self.completes_power_on(byte)
                && let Some(started) = self.started.take()
            {
                let text = format!(", {:.3} s after QEMU was started", started.elapsed().as_secs_f64());
                output.extend(text.into_bytes());
            }
        }
    }

    fn completes_power_on(&mut self, byte: u8) -> bool {
        let text = POWER_ON.as_bytes();
        // After a mismatch, only the current byte can begin a new match, because the first byte of the text occurs in
        // the text only once.
        let goes_on = byte == text[self.matched];
        self.matched = if goes_on { self.matched + 1 } else { usize::from(byte == text[0]) };
        let complete = self.matched == text.len();
        if complete {
            self.matched = 0;
        }
        complete
    }
}

impl ReportAnnotator {
    /// Makes an annotator for a machine that runs the ELF file `program`. The file is read when the machine prints the
    /// first address.
    pub fn new(program: &Path) -> Self {
        let symbols = Symbols::new(program);
        Self { symbols, matched: 0, address: 0, at_word: true, place: PlaceLine::Held(Vec::new()) }
    }

    /// Appends `bytes` to `output`, together with the annotations.
    pub fn annotate(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        for &byte in bytes {
            match mem::replace(&mut self.place, PlaceLine::Other) {
                PlaceLine::Held(held) => self.hold(held, byte, output),
                PlaceLine::Other => self.pass_on(byte, output),
                PlaceLine::Dropped if byte == b'\n' => {}
                PlaceLine::Dropped => self.pass_on(byte, output),
            }
            if byte == b'\n' {
                self.place = PlaceLine::Held(Vec::new());
            }
        }
    }

    /// Appends `byte` to `held`, the beginning of a line that may be a place. If the line turns out not to be a place,
    /// passes the held bytes on. If the place is complete, shows or drops the place.
    fn hold(&mut self, mut held: Vec<u8>, byte: u8, output: &mut Vec<u8>) {
        let prefix = PLACE_PREFIX.as_bytes();
        let is_place = prefix.get(held.len()).map_or(byte.is_ascii_hexdigit(), |&expected| byte == expected);
        held.push(byte);
        if is_place && held.len() < prefix.len() + FRAME_DIGITS {
            self.place = PlaceLine::Held(held);
            return;
        }
        let digits = held.get(prefix.len()..).and_then(|digits| str::from_utf8(digits).ok());
        let address = digits.filter(|_| is_place).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        match address.and_then(|address| self.symbols.describe_own(address)) {
            Some(description) if description.is_empty() => self.place = PlaceLine::Dropped,
            Some(description) => output.extend([held, description.into_bytes()].concat()),
            None => held.into_iter().for_each(|byte| self.pass_on(byte, output)),
        }
    }

    /// Appends `byte` to `output`. If the byte completes an address, also appends the annotation.
    fn pass_on(&mut self, byte: u8, output: &mut Vec<u8>) {
        output.push(byte);
        if self.completes_an_address(byte) {
            output.extend(self.symbols.describe(self.address).into_bytes());
        }
    }

    fn completes_an_address(&mut self, byte: u8) -> bool {
        let prefix = FRAME_PREFIX.as_bytes();
        let starts_word = mem::replace(&mut self.at_word, byte.is_ascii_whitespace());
        let digit = char::from(byte).to_digit(16).filter(|_| self.matched >= prefix.len());
        if let Some(digit) = digit {
            self.address = self.address << 4 | u64::from(digit);
            self.matched += 1;
        } else if prefix.get(self.matched) == Some(&byte) && (self.matched > 0 || starts_word) {
            self.matched += 1;
        } else {
            self.matched = usize::from(starts_word && byte == prefix[0]);
        }
        let complete = self.matched == prefix.len() + FRAME_DIGITS;
        if complete {
            self.matched = 0;
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::env;

    use super::*;

    /// Returns the address of this function, as it is in the ELF file of this test program. The address can be looked
    /// up, because the program has line tables and the function is not inlined.
    #[inline(never)]
    fn landmark() -> u64 {
        let here = landmark as fn() -> u64 as usize as u64;
        let map = std::fs::read_to_string("/proc/self/maps").expect("the memory map");
        let base = map.split('-').next().expect("an address");
        here - u64::from_str_radix(base, 16).expect("a number")
    }

    fn annotated(text: &str, chunk: usize) -> String {
        let mut annotator = ReportAnnotator::new(&env::current_exe().expect("this program"));
        let mut output = Vec::new();
        text.as_bytes().chunks(chunk).for_each(|part| annotator.annotate(part, &mut output));
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn address_is_annotated_however_the_bytes_are_split() {
        let text = format!("panic\n  at 0x{:016x}\nnext", landmark());
        for chunk in [1, 2, 3, 5, 19, text.len()] {
            let shown = annotated(&text, chunk);
            let line = shown.lines().nth(1).expect("two lines");
            assert!(line.contains("boot::annotator::tests::landmark ("), "{line}");
            assert!(line.contains("src/annotator.rs:"), "{line}");
            assert!(shown.ends_with("\nnext"), "{shown}");
        }
    }

    #[test]
    fn other_text_is_unchanged() {
        let digits = format!("{:016x}", landmark());
        for text in [
            "  at 0x0000000000000001\n".to_owned(),
            format!("  at 0x{}\n", &digits[1..]),
            format!("flat 0x{digits}\n"),
            format!("at {digits}\n"),
            format!("at 0{digits}\n"),
            "\u{fffd} at at at 0x".to_owned(),
        ] {
            assert_eq!(annotated(&text, 1), text);
        }
    }

    #[test]
    fn frame_after_an_incomplete_one_is_annotated() {
        let shown = annotated(&format!("at at 0x{:016x}", landmark()), 1);
        assert!(shown.contains("landmark"), "{shown}");
    }

    #[test]
    fn output_is_unchanged_without_the_program() {
        let mut output = Vec::new();
        ReportAnnotator::new(Path::new("/no/such/file")).annotate(b"at 0x0123456789abcdef\n", &mut output);
        assert_eq!(output, b"at 0x0123456789abcdef\n");
    }

    #[test]
    fn place_is_shown_only_if_it_is_in_code_of_the_program() {
        let place = |address: u64| format!("\n  in 0x{address:016x}");
        let annotated = |text: &str| {
            let mut output = Vec::new();
            ReportAnnotator::new(&env::current_exe().expect("this program")).annotate(text.as_bytes(), &mut output);
            String::from_utf8(output).expect("text")
        };
        let own = annotated(&format!("goroutine 5{}{}\n", place(landmark()), place(1)));
        // The place in the code of this test is dropped, because files in the folder `boot` do not belong to a program.
        // The address 1 belongs to no known code, so its line is shown.
        assert_eq!(own, format!("goroutine 5{}\n", place(1)));
        for text in ["  in 0x12\n", "  in 0x0000000000000001", "  in 0xabcdefg\n  a prompt? ", "  in\n\n in 0x"] {
            assert_eq!(annotated(text), text);
        }
    }

    #[test]
    fn time_since_the_start_is_printed_once() {
        let started = Instant::now().checked_sub(Duration::from_secs(1000)).expect("the host runs for longer");
        let text = "s after 0.131 s after s after power-on; 0.9 s after power-on\n";
        for chunk in [1, 3, text.len()] {
            let mut annotator = OutputAnnotator::new(Some(started));
            let mut output = Vec::new();
            for part in text.as_bytes().chunks(chunk) {
                let before = output.len();
                annotator.annotate(part, &mut output);
                assert!(output[before..].starts_with(&part[..1]), "every byte comes out at once");
            }
            let output = String::from_utf8(output).expect("text");
            let (before, after) = output.split_once(", 100").expect("a thousand seconds and a bit");
            assert_eq!(before, "s after 0.131 s after s after power-on");
            let (rest, after) = after.split_once(" s after QEMU was started").expect("what it is");
            assert_eq!(rest.len(), "0.123".len(), "{rest}");
            assert_eq!(after, "; 0.9 s after power-on\n");
        }
        let mut output = Vec::new();
        OutputAnnotator::new(None).annotate(text.as_bytes(), &mut output);
        assert_eq!(output, text.as_bytes());
    }

    #[test]
    fn address_that_the_program_prints_is_unchanged() {
        let text = format!("  at 0x{:016x}\n", landmark());
        let mut output = Vec::new();
        OutputAnnotator::new(Some(Instant::now())).annotate(text.as_bytes(), &mut output);
        assert_eq!(output, text.as_bytes());
    }
}
