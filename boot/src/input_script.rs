//! The files that `--record-input` writes and `--input-script` reads. Such a file contains the input of a machine, with
//! the instant at which each piece comes.
//!
//! A file has one line for each piece of the input. The line begins with the instant at which the piece comes, in
//! seconds since the start of the machine, by the machine's clock. After the instant, there is a text in quotes, or the
//! word `end`, which ends the input. The word `keys` before a text says that the text was typed on a terminal, so that
//! some keys have a meaning (see [`boot_protocol::input::Keys`]). The word `frame` before a text says that the text is
//! a frame of the network, and not input of the program. The word `fails` takes the place of `end` if the rest of the
//! input could not be read. An example:
//!
//! ```text
//! # what the user types
//! 0.25 "first line\n"
//! 1.5 "second \x41\n"
//! 2 keys "third line\r"
//! 3 end
//! ```
//!
//! In a text, `\n` is a newline, `\r` a carriage return, `\t` a tab, `\"` a quote, `\\` a backslash, and `\x` with two
//! hexadecimal digits is a byte. All other characters stand for themselves. Empty lines and lines that begin with `#`
//! are ignored. The instants are in ascending order; several pieces may come at the same instant.

use core::fmt;

use boot_protocol::input::Kind;

/// The largest number of decimal places of a time in seconds: nine, because the machine's clock counts nanoseconds.
const FRACTION_DIGITS: usize = 9;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// A piece of the input. `Display` writes it as a line of a file, without the newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// When the piece comes, in nanoseconds of the machine's clock.
    pub at: u64,
    /// The kind of the piece.
    pub kind: Kind,
    /// The content. Empty if the piece ends the input.
    pub bytes: Vec<u8>,
}

/// A mistake in a file. `Display` writes the line, the column and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    line: usize,
    /// The number of the character at which the mistake is, counted from 1 in each line.
    column: usize,
    what: &'static str,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.line, self.column, self.what)
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:09} ", self.at / NS_PER_SECOND, self.at % NS_PER_SECOND)?;
        formatter.write_str(match self.kind {
            Kind::Bytes => "\"",
            Kind::Keys => "keys \"",
            Kind::Frame => "frame \"",
            Kind::End => return formatter.write_str("end"),
            Kind::Failed => return formatter.write_str("fails"),
        })?;
        for chunk in self.bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\n' => formatter.write_str("\\n")?,
                    '\r' => formatter.write_str("\\r")?,
                    '\t' => formatter.write_str("\\t")?,
                    '"' => formatter.write_str("\\\"")?,
                    '\\' => formatter.write_str("\\\\")?,
                    // A control character of ASCII is one byte, which is written as an escape. Other control characters
                    // are written unchanged.
                    _ if character.is_ascii_control() => write!(formatter, "\\x{:02x}", u32::from(character))?,
                    _ => write!(formatter, "{character}")?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(formatter, "\\x{byte:02x}"))?;
        }
        formatter.write_str("\"")
    }
}

/// Parses a file.
///
/// # Errors
///
/// The first mistake in the file.
pub fn parse(file: &str) -> Result<Vec<Piece>, Mistake> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut has_ended = false;
    for (index, text) in file.lines().enumerate() {
        let mut line = Line { number: index + 1, text, rest: text };
        line.skip_spaces();
        if line.rest.is_empty() || line.rest.starts_with('#') {
            continue;
        }
        let start = line;
        let at = line.instant()?;
        if pieces.last().is_some_and(|last| last.at > at) {
            return Err(start.mistake("earlier than the line before"));
        }
        line.skip_spaces();
        let (kind, bytes) = line.content()?;
        if kind != Kind::Frame && has_ended {
            return Err(start.mistake("the input has ended in a line before"));
        }
        has_ended |= matches!(kind, Kind::End | Kind::Failed);
        line.skip_spaces();
        if !line.rest.is_empty() {
            return Err(line.mistake("expected nothing more in this line"));
        }
        pieces.push(Piece { at, kind, bytes });
    }
    Ok(pieces)
}

/// A line that is being parsed.
#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
    /// What has not been parsed yet.
    rest: &'a str,
}

impl Line<'_> {
    /// Returns a mistake at the current position.
    fn mistake(&self, what: &'static str) -> Mistake {
        let parsed = &self.text[..self.text.len() - self.rest.len()];
        Mistake { line: self.number, column: parsed.chars().count() + 1, what }
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes the digits at the current position.
    fn digits(&mut self) -> &str {
        let end = self.rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits
    }

    /// Parses a number of seconds. Returns it in nanoseconds.
    fn instant(&mut self) -> Result<u64, Mistake> {
        let start = *self;
        let seconds = self.digits();
        if seconds.is_empty() {
            return Err(start.mistake("expected an instant in seconds, such as 0.25"));
        }
        let seconds: u64 = seconds.parse().map_err(|_| start.mistake("the instant is too large"))?;
        let mut fraction = 0;
        if let Some(rest) = self.rest.strip_prefix('.') {
            self.rest = rest;
            let start = *self;
            let digits = self.digits();
            if digits.is_empty() || digits.len() > FRACTION_DIGITS {
                return Err(start.mistake("expected 1 to 9 digits"));
            }
            fraction = format!("{digits:0<9}").parse().map_err(|_| start.mistake("expected 1 to 9 digits"))?;
        }
        if !self.rest.starts_with(char::is_whitespace) {
            return Err(self.mistake("expected a space, and then a text in quotes, `keys`, `frame`, `end` or `fails`"));
        }
        let total = seconds.checked_mul(NS_PER_SECOND).and_then(|seconds| seconds.checked_add(fraction));
        total.filter(|&total| total != u64::MAX).ok_or_else(|| start.mistake("the instant is too large"))
    }

    /// Parses what follows the instant. Returns the kind and the bytes of the piece.
    fn content(&mut self) -> Result<(Kind, Vec<u8>), Mistake> {
        for (word, kind) in [("end", Kind::End), ("fails", Kind::Failed)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok((kind, Vec::new()));
            }
        }
        let line = self.rest;
        let after = |word| line.strip_prefix(word)?.trim_start().strip_prefix('"');
        let worded = [("keys", Kind::Keys), ("frame", Kind::Frame)];
        let found = worded.into_iter().find_map(|(word, kind)| Some((kind, after(word)?)));
        let Some((kind, rest)) = found.or_else(|| Some((Kind::Bytes, line.strip_prefix('"')?))) else {
            return Err(self.mistake("expected a text in quotes, `keys`, `frame`, `end` or `fails`"));
        };
        self.rest = rest;
        let mut bytes = Vec::new();
        loop {
            let start = *self;
            let mut characters = self.rest.chars();
            let Some(character) = characters.next() else { return Err(self.mistake("expected a quote at the end")) };
            self.rest = characters.as_str();
            match character {
                '"' => return Ok((kind, bytes)),
                '\\' => bytes
                    .push(self.escaped().ok_or_else(|| start.mistake("expected \\n, \\r, \\t, \\\", \\\\ or \\xNN"))?),
                _ => bytes.extend(character.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
    }

    /// Parses an escape, without its backslash. Returns the byte that the escape stands for, or `None` if it is not a
    /// known escape.
    fn escaped(&mut self) -> Option<u8> {
        let mut characters = self.rest.chars();
        let byte = match characters.next()? {
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            '"' => b'"',
            '\\' => b'\\',
            'x' => {
                let [high, low] = [characters.next()?.to_digit(16)?, characters.next()?.to_digit(16)?];
                u8::try_from(high * 16 + low).ok()?
            }
            _ => return None,
        };
        self.rest = characters.as_str();
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(at: u64, bytes: &[u8]) -> Piece {
        Piece { at, kind: Kind::Bytes, bytes: bytes.to_vec() }
    }

    fn end(at: u64) -> Piece {
        Piece { at, kind: Kind::End, bytes: Vec::new() }
    }

    #[test]
    fn lines_are_parsed() {
        let file = "# a comment\n\n0.25 \"a b\\n\"\n  0.25\t\"\\x41\\\"\\\\\\t\\r\"  \n1.000000001 \"größer\"\n1.1 keys\"\\r\"\n\n20 end\n";
        let expected = [
            piece(250_000_000, b"a b\n"),
            piece(250_000_000, b"A\"\\\t\r"),
            piece(1_000_000_001, "größer".as_bytes()),
            Piece { kind: Kind::Keys, ..piece(1_100_000_000, b"\r") },
            end(20_000_000_000),
        ];
        assert_eq!(parse(file).expect("no mistake"), expected);
        assert_eq!(parse("").expect("no mistake"), []);
    }

    #[test]
    fn what_is_written_is_parsed() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let pieces = [
            piece(0, &all),
            piece(0, b"\x04"),
            Piece { kind: Kind::Keys, ..piece(0, &all) },
            Piece { kind: Kind::Frame, ..piece(0, &all) },
            piece(1, "Zeile \u{85} größer\n".as_bytes()),
            piece(NS_PER_SECOND - 1, b""),
            end(u64::MAX - 1),
            Piece { kind: Kind::Frame, ..piece(u64::MAX - 1, b"") },
        ];
        let file: String = pieces.iter().map(|piece| format!("{piece}\n")).collect();
        assert_eq!(file.lines().count(), pieces.len(), "{file}");
        assert_eq!(parse(&file).expect("no mistake"), pieces);
        assert_eq!(pieces[5].to_string(), "0.999999999 \"\"");
        let failed = Piece { kind: Kind::Failed, ..end(1) };
        assert_eq!(parse(&failed.to_string()).expect("no mistake"), [failed]);
        assert_eq!(pieces[6].to_string(), "18446744073.709551614 end");
    }

    #[test]
    fn mistakes_name_the_line_and_the_column() {
        for (file, mistake) in [
            ("x", "1:1: expected an instant in seconds, such as 0.25"),
            ("\n -1 end", "2:2: expected an instant in seconds, such as 0.25"),
            ("1", "1:2: expected a space, and then a text in quotes, `keys`, `frame`, `end` or `fails`"),
            ("1s end", "1:2: expected a space, and then a text in quotes, `keys`, `frame`, `end` or `fails`"),
            ("1. end", "1:3: expected 1 to 9 digits"),
            ("1.0123456789 end", "1:3: expected 1 to 9 digits"),
            ("99999999999 end", "1:1: the instant is too large"),
            ("99999999999999999999 end", "1:1: the instant is too large"),
            ("1 ", "1:3: expected a text in quotes, `keys`, `frame`, `end` or `fails`"),
            ("1 keys end", "1:3: expected a text in quotes, `keys`, `frame`, `end` or `fails`"),
            ("1 text", "1:3: expected a text in quotes, `keys`, `frame`, `end` or `fails`"),
            ("1 \"größ", "1:8: expected a quote at the end"),
            ("1 \"ö\\q\"", "1:5: expected \\n, \\r, \\t, \\\", \\\\ or \\xNN"),
            ("1 \"\\xg0\"", "1:4: expected \\n, \\r, \\t, \\\", \\\\ or \\xNN"),
            ("1 \"\\x0", "1:4: expected \\n, \\r, \\t, \\\", \\\\ or \\xNN"),
            ("1 \"a\" b", "1:7: expected nothing more in this line"),
            ("1 ended", "1:6: expected nothing more in this line"),
            ("2 \"a\"\n1 \"b\"", "2:1: earlier than the line before"),
            ("1 end\n# comment\n2 \"b\"", "3:1: the input has ended in a line before"),
        ] {
            assert_eq!(parse(file).expect_err("a mistake").to_string(), mistake, "{file}");
        }
    }
}
