//! The kernel's command line: `<kernel options> -- <arguments of the program>`.
//!
//! Words are separated by one space. A word is enclosed in double quotes if it is empty or contains a space, a
//! backslash or a quote. Inside the quotes, `\\` is a backslash and `\"` is a quote. The first `--` without
//! quotes is the separator. After the separator, an argument `--` needs no quotes.
//!
//! The user may type a command line into a boot loader. So [`split`] also accepts forms that [`quote`] never writes:
//! several spaces, a quote inside a word, or a missing closing quote.
//!
//! Each kernel option is a word of the form `KEY=VALUE`.

use core::fmt::{self, Write as _};
use core::str::Chars;

/// The word that separates the kernel's options from the program's arguments.
pub const SEPARATOR: &str = "--";

/// The length of the longest command line that QEMU passes to a guest with `-kernel`, in bytes. The terminating zero
/// byte is included.
pub const CAPACITY: usize = 4096;

/// The key of the option that names a disk. See [`DiskOption`] for its value.
pub const DISK: &str = "disk";

/// Quotes `word` for the command line, if quotes are necessary.
///
/// ```
/// # extern crate std; use std::string::ToString;
/// use boot_protocol::command_line::quote;
///
/// assert_eq!(quote("log=debug").to_string(), "log=debug");
/// assert_eq!(quote(r#"say "hi""#).to_string(), r#""say \"hi\"""#);
/// assert_eq!(quote("").to_string(), "\"\"");
/// ```
pub fn quote(word: &str) -> Quoted<'_> {
    Quoted(word)
}

/// The result of [`quote`].
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() && !self.0.contains([' ', '\\', '"']) {
            return formatter.write_str(self.0);
        }
        formatter.write_char('"')?;
        for character in self.0.chars() {
            if matches!(character, '\\' | '"') {
                formatter.write_char('\\')?;
            }
            formatter.write_char(character)?;
        }
        formatter.write_char('"')
    }
}

/// Splits `line` into words.
///
/// ```
/// # extern crate std; use std::{string::{String, ToString}, vec::Vec};
/// use boot_protocol::command_line::split;
///
/// let words: Vec<String> = split(r#"one "two words" """#).map(|word| word.to_string()).collect();
/// assert_eq!(words, ["one", "two words", ""]);
/// ```
pub fn split(line: &str) -> Words<'_> {
    Words { rest: line }
}

/// The result of [`split`].
#[derive(Clone, Debug)]
pub struct Words<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let start = self.rest.trim_start_matches(' ');
        if start.is_empty() {
            self.rest = start;
            return None;
        }
        let (mut quoted, mut escaped) = (false, false);
        let end = start.find(|character| {
            let ends = character == ' ' && !quoted;
            match character {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                _ => {}
            }
            ends
        });
        let (raw, rest) = start.split_at(end.unwrap_or(start.len()));
        self.rest = rest;
        Some(Word { raw })
    }
}

/// A word as it is written on the command line. [`chars`](Self::chars) and `Display` remove its quotes and escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    raw: &'a str,
}

impl<'a> Word<'a> {
    /// Returns the word as a part of the line, without a copy. Returns `None` if the word has quotes, because these
    /// must be removed.
    pub fn as_plain(&self) -> Option<&'a str> {
        (!self.raw.contains('"')).then_some(self.raw)
    }

    /// Returns the characters of the word without its quotes and escapes. The result never has more bytes than the
    /// quoted word, so it can overwrite that word in memory.
    pub fn chars(&self) -> WordChars<'a> {
        WordChars { raw: self.raw.chars(), quoted: false }
    }
}

impl fmt::Display for Word<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chars().try_for_each(|character| formatter.write_char(character))
    }
}

/// The result of [`Word::chars`].
#[derive(Clone, Debug)]
pub struct WordChars<'a> {
    raw: Chars<'a>,
    quoted: bool,
}

impl Iterator for WordChars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            match self.raw.next()? {
                '"' => self.quoted = !self.quoted,
                '\\' if self.quoted => return self.raw.next(),
                character => return Some(character),
            }
        }
    }
}

/// Returns the characters of a list of options that are separated by blanks or commas. Each comma that is a separator is
/// replaced by a blank. Between double quotes, no comma is a separator. Elsewhere a comma is a separator if it is the last
/// character, or if a blank, another comma or `KEY=` follows. So the value of an option may contain commas.
///
/// ```
/// # extern crate std; use std::string::String;
/// use boot_protocol::command_line::with_blanks;
///
/// let blanks = |text| with_blanks(text).collect::<String>();
/// assert_eq!(blanks("procs=2,panic=isolate"), "procs=2 panic=isolate");
/// assert_eq!(blanks("procs=2, program.sizes=1,2,3"), "procs=2  program.sizes=1,2,3");
/// assert_eq!(blanks("\"program.sum=1,x=2\""), "\"program.sum=1,x=2\"");
/// ```
pub fn with_blanks(text: &str) -> impl Iterator<Item = char> {
    let mut is_quoted = false;
    text.char_indices().map(move |(index, character)| {
        is_quoted ^= character == '"';
        let is_separator = || {
            let after = &text[index + 1..];
            let word = after.split([' ', ',', '"']).next().unwrap_or(after);
            after.is_empty() || after.starts_with([' ', ',']) || word.find('=').is_some_and(|length| length > 0)
        };
        if character == ',' && !is_quoted && is_separator() { ' ' } else { character }
    })
}

/// Returns the kernel's options, which are the words of `line` before the separator.
pub fn options(line: &str) -> impl Iterator<Item = Word<'_>> {
    split(line).take_while(|word| word.raw != SEPARATOR)
}

/// Returns the program's arguments, which are the words of `line` after the first separator.
///
/// ```
/// # extern crate std; use std::{string::ToString, vec::Vec};
/// use boot_protocol::command_line::{arguments, options};
///
/// let line = "log=debug -- greet --loudly -- \"all of you\"";
/// assert_eq!(options(line).map(|word| word.to_string()).collect::<Vec<_>>(), ["log=debug"]);
/// let arguments: Vec<_> = arguments(line).map(|word| word.to_string()).collect();
/// assert_eq!(arguments, ["greet", "--loudly", "--", "all of you"]);
/// ```
pub fn arguments(line: &str) -> impl Iterator<Item = Word<'_>> {
    let mut words = split(line);
    words.find(|word| word.raw == SEPARATOR);
    words
}

/// A whole command line. `Display` quotes the options and arguments if necessary, and writes the separator between
/// them.
///
/// ```
/// # extern crate std; use std::string::ToString;
/// use boot_protocol::command_line::Line;
///
/// let line = Line { options: &["log=info"], arguments: &["wc", "my file"] };
/// assert_eq!(line.to_string(), r#"log=info -- wc "my file""#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Line<'a, T> {
    /// The options for the kernel. Each has the form `KEY=VALUE`.
    pub options: &'a [T],
    /// The arguments for the program.
    pub arguments: &'a [T],
}

impl<T: AsRef<str>> fmt::Display for Line<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for option in self.options {
            write!(formatter, "{} ", quote(option.as_ref()))?;
        }
        formatter.write_str(SEPARATOR)?;
        self.arguments.iter().try_for_each(|argument| write!(formatter, " {}", quote(argument.as_ref())))
    }
}

/// The value of a `disk=` option: the name of a file exactly as the user wrote it, and the length of this file.
///
/// The length is needed because a disk consists of whole sectors, but a file can have any length. The command line
/// contains one such option for each disk, in the order of the devices.
///
/// ```
/// # extern crate std; use std::string::ToString;
/// use boot_protocol::command_line::DiskOption;
///
/// let disk = DiskOption { name: "notes: old.txt", bytes: 1700 };
/// assert_eq!(disk.to_string(), "notes: old.txt:1700");
/// assert_eq!(DiskOption::parse("notes: old.txt:1700"), Some(disk));
/// assert_eq!(DiskOption::parse("notes"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOption<'a> {
    /// The name exactly as the user gave it.
    pub name: &'a str,
    /// The length of the file. The disk may be longer, because a disk consists of whole sectors.
    pub bytes: u64,
}

impl<'a> DiskOption<'a> {
    /// Parses the value of a `disk=` option. Returns `None` if the value has another form.
    pub fn parse(value: &'a str) -> Option<Self> {
        let (name, bytes) = value.rsplit_once(':')?;
        Some(Self { name, bytes: bytes.parse().ok()? })
    }
}

impl fmt::Display for DiskOption<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.name, self.bytes)
    }
}
