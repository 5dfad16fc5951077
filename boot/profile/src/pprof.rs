//! The format of pprof, a Protocol Buffers message that is compressed with gzip.
//!
//! The messages are those of `profile.proto` (github.com/google/pprof/blob/main/proto/profile.proto), without the
//! fields that are not needed here.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prost::Message;

/// A profile: samples, and the tables to which they refer by number.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "the fields are those of profile.proto")]
pub struct PprofProfile {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
}

/// What a value means, and its unit.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "the fields are those of profile.proto")]
pub struct ValueType {
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A call stack and its values. The call stack consists of the numbers of its locations, innermost first.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "the fields are those of profile.proto")]
pub struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A label of a sample.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "the fields are those of profile.proto")]
pub struct Label {
    #[prost(int64, tag = "1")]
    pub key: i64,
    #[prost(int64, tag = "2")]
    pub str: i64,
}

/// A range of memory into which a file is loaded. The only such file here is the program.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "the fields are those of profile.proto")]
pub struct Mapping {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    #[prost(int64, tag = "5")]
    pub filename: i64,
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// An address, and its functions, innermost first.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "the fields are those of profile.proto")]
pub struct Location {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub address: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A function, and the line that is executed.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "the fields are those of profile.proto")]
pub struct Line {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "the fields are those of profile.proto")]
pub struct Function {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

impl PprofProfile {
    /// Writes the profile, compressed.
    ///
    /// # Errors
    ///
    /// `output` returns an error.
    pub fn write(&self, output: impl Write) -> io::Result<()> {
        let mut compressed = GzEncoder::new(output, Compression::default());
        compressed.write_all(&self.encode_to_vec())?;
        compressed.finish()?.flush()
    }

    /// Reads a profile that [`write`](Self::write) has written.
    ///
    /// # Errors
    ///
    /// `input` returns an error, or `input` does not contain a compressed profile.
    pub fn read(input: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        GzDecoder::new(input).read_to_end(&mut bytes)?;
        Self::decode(&bytes[..]).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Returns the text with this number; an empty text if there is none.
    #[must_use]
    pub fn text(&self, number: i64) -> &str {
        usize::try_from(number).ok().and_then(|number| self.string_table.get(number)).map_or("", String::as_str)
    }

    /// Returns the functions of a sample, outermost first.
    #[must_use]
    pub fn functions(&self, sample: &Sample) -> Vec<&str> {
        let location = |id: &u64| self.location.iter().find(|location| location.id == *id);
        let function = |id: u64| self.function.iter().find(|function| function.id == id);
        let lines = sample.location_id.iter().filter_map(location).flat_map(|location| &location.line);
        let names = lines.filter_map(|line| function(line.function_id)).map(|function| self.text(function.name));
        let mut names: Vec<_> = names.collect();
        names.reverse();
        names
    }
}

/// Numbers values from 1 on, in the order in which they occur first.
pub(crate) struct Numbers<T>(HashMap<T, u64>);

impl<T: core::hash::Hash + Eq> Numbers<T> {
    pub(crate) fn none() -> Self {
        Self(HashMap::new())
    }

    /// Returns the number of `value`, and whether it is new.
    pub(crate) fn of(&mut self, value: T) -> (u64, bool) {
        let next = self.0.len() as u64 + 1;
        let number = *self.0.entry(value).or_insert(next);
        (number, number == next)
    }
}
