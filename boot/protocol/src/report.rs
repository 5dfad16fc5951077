//! The lines by which the tests inside the machine are listed and report. Each stands alone on a line of the console.
//!
//! The program that holds the tests prints a [`Plan`] for each when it gets no arguments. With the argument [`SERVE`]
//! it says [`Report::Ready`], reads the name of a test from the console, one a line, runs it, and says how it went. With
//! names as arguments it runs these. What no line can report, since the machine is gone or hangs, the host sees.

use core::fmt;

use crate::command_line::{Word, quote, split};

/// What each of these lines starts with.
pub const MARK: &str = "@@test ";

/// The argument that asks for names on the console.
pub const SERVE: &str = "serve";

/// One line of a test run. `Display` writes it, [`Report::parse`] reads it.
///
/// ```
/// # extern crate std; use std::string::ToString;
/// use boot_protocol::report::Report;
///
/// assert_eq!(Report::Passed("clock::is_monotonic").to_string(), "@@test ok clock::is_monotonic");
/// assert_eq!(Report::parse("@@test ok clock::is_monotonic"), Some(Report::Passed("clock::is_monotonic")));
/// assert_eq!(Report::parse("what the test printed"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report<'a> {
    /// Waiting for the name of a test.
    Ready,
    /// The named test starts.
    Started(&'a str),
    /// The named test passed.
    Passed(&'a str),
    /// The named test failed, and the machine goes on.
    Failed(&'a str),
    /// There is no test of that name.
    Unknown(&'a str),
}

impl<'a> Report<'a> {
    /// Reads one line; `None` if it is not one of these.
    pub fn parse(line: &'a str) -> Option<Self> {
        let rest = line.trim_end().strip_prefix(MARK)?;
        Some(match rest.split_once(' ') {
            None if rest == "ready" => Self::Ready,
            Some(("start", name)) => Self::Started(name),
            Some(("ok", name)) => Self::Passed(name),
            Some(("fail", name)) => Self::Failed(name),
            Some(("unknown", name)) => Self::Unknown(name),
            _ => return None,
        })
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => write!(formatter, "{MARK}ready"),
            Self::Started(name) => write!(formatter, "{MARK}start {name}"),
            Self::Passed(name) => write!(formatter, "{MARK}ok {name}"),
            Self::Failed(name) => write!(formatter, "{MARK}fail {name}"),
            Self::Unknown(name) => write!(formatter, "{MARK}unknown {name}"),
        }
    }
}

/// How a test wants to be run, and what must come of it. `Display` writes the line that lists it.
///
/// The host reads that line back with [`listed`].
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// `module::function`.
    pub name: &'a str,
    /// The numbers of CPUs to run it with, each in a machine of its own.
    pub cpus: &'a [u32],
    /// The time it may take on the host's clock: a backstop against a hang, not a measure.
    pub seconds: u32,
    /// The machine's memory in MiB.
    pub memory: u32,
    /// The machine must end with this status during the test, if any; else the test must report that it passed.
    pub status: Option<u8>,
    /// What the console must show while the test runs, in this order: lines or parts of lines.
    pub texts: &'a [&'a str],
    /// Options for the kernel, `KEY=VALUE`.
    pub options: &'a [&'a str],
    /// Arguments of the program, which it gets after its own and a `--`.
    pub arguments: &'a [&'a str],
    /// Whether no other test may run in the same boot.
    pub isolated: bool,
    /// Whether QEMU counts instructions in place of time, which makes each run equal to the last.
    pub icount: bool,
    /// Whether it runs only when asked for by `--ignored`.
    pub ignored: bool,
    /// Whether `cargo test` leaves it out, because something else runs it by name.
    pub hidden: bool,
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{MARK}list {} cpus=", self.name)?;
        for (index, count) in self.cpus.iter().enumerate() {
            write!(formatter, "{}{count}", if index == 0 { "" } else { "," })?;
        }
        write!(formatter, " seconds={} memory={}", self.seconds, self.memory)?;
        if let Some(status) = self.status {
            write!(formatter, " status={status}")?;
        }
        for (key, values) in [("text", self.texts), ("option", self.options), ("argument", self.arguments)] {
            for value in values {
                write!(formatter, " {key}={}", quote(value))?;
            }
        }
        for (flag, is_set) in
            [("isolated", self.isolated), ("icount", self.icount), ("ignored", self.ignored), ("hidden", self.hidden)]
        {
            if is_set {
                write!(formatter, " {flag}=")?;
            }
        }
        Ok(())
    }
}

/// Reads a line that lists a test: its name, and then words `KEY=VALUE`. `None` if it is not such a line.
///
/// ```
/// # extern crate std; use std::{string::ToString, vec::Vec};
/// use boot_protocol::report::listed;
///
/// let line = r#"@@test list heap::grows cpus=1,8 seconds=30 text="two words""#;
/// let (name, attributes) = listed(line).expect("a test");
/// assert_eq!(name, "heap::grows");
/// let attributes: Vec<_> = attributes.map(|word| word.to_string()).collect();
/// assert_eq!(attributes, ["cpus=1,8", "seconds=30", "text=two words"]);
/// ```
pub fn listed(line: &str) -> Option<(&str, impl Iterator<Item = Word<'_>>)> {
    let mut words = split(line.trim_end().strip_prefix(MARK)?.strip_prefix("list ")?);
    let name = words.next()?.as_plain()?;
    Some((name, words))
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn each_report_comes_back() {
        for report in [
            Report::Ready,
            Report::Started("a::b"),
            Report::Passed("a::b"),
            Report::Failed("a::b"),
            Report::Unknown("no such test"),
        ] {
            assert_eq!(Report::parse(&report.to_string()), Some(report));
        }
    }

    #[test]
    fn other_lines_are_not_reports() {
        for line in ["", "@@test", "@@test ", "@@test ready to go", " @@test ok a", "x @@test ok a", "@@test okay a"] {
            assert_eq!(Report::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_carriage_return_does_not_belong_to_the_name() {
        assert_eq!(Report::parse("@@test ok a::b\r"), Some(Report::Passed("a::b")));
    }

    #[test]
    fn a_report_does_not_list() {
        assert!(listed("@@test ok a::b").is_none());
        assert!(Report::parse("@@test list a::b cpus=8").is_none());
    }
}
