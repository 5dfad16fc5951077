//! The lines on the console that list the tests in the kernel, and those that report the results of tests.
//!
//! The test program can be used in three ways:
//!
//! - Without arguments, it prints a [`Plan`] for each test.
//! - With the argument [`SERVE`], it reads the names of tests from the console, one per line. It prints
//!   [`Report::Ready`] when it waits for a name, and then runs the test and prints the result.
//! - If the arguments are names of tests, it runs these tests.
//!
//! Some failures cannot be reported by the program, for example if the machine has ended or hangs. The host detects
//! such failures.

use core::fmt;

use crate::command_line::{Word, quote, split};

/// The beginning of each line that lists a test or reports a result.
pub const MARK: &str = "@@test ";

/// The argument that makes the test program read the names of tests from the console.
pub const SERVE: &str = "serve";

/// A line that reports a step of a test run. `Display` writes the line, and [`Report::parse`] parses it.
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
    /// The test program waits for the name of a test.
    Ready,
    /// The named test starts.
    Started(&'a str),
    /// The named test passed.
    Passed(&'a str),
    /// The named test failed, and the machine continues.
    Failed(&'a str),
    /// There is no test with this name.
    Unknown(&'a str),
}

impl<'a> Report<'a> {
    /// Parses one line. Returns `None` if the line is not a report.
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

/// How to run a test, and the expected result. `Display` writes the line that lists the test, and [`listed`] parses
/// this line on the host.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The name of the test, of the form `module::function`.
    pub name: &'a str,
    /// The numbers of CPUs to run the test with. The test runs once for each number, on a machine with that many CPUs.
    pub cpus: &'a [u32],
    /// The time limit in seconds, by the host's clock. The limit is only for ending a test that hangs.
    pub seconds: u32,
    /// The machine's memory in MiB.
    pub memory: u32,
    /// The status with which the test must end the machine. `None` if the machine continues after the test. The test
    /// program must then report that the test passed.
    pub status: Option<u8>,
    /// Texts that the console must show in this order while the test runs. Each is a line or a part of a line.
    pub texts: &'a [&'a str],
    /// Options for the kernel. Each has the form `KEY=VALUE`.
    pub options: &'a [&'a str],
    /// Arguments for the test. On the command line they come after a second `--`, which follows the arguments of the
    /// program.
    pub arguments: &'a [&'a str],
    /// Whether the test needs a boot of its own, in which no other test runs.
    pub isolated: bool,
    /// Whether QEMU counts instructions instead of time, so that all runs are equal.
    pub icount: bool,
    /// Whether the test runs only with `--ignored`.
    pub ignored: bool,
    /// Whether `cargo test` leaves this test out. Such a test is run by another test.
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

/// Parses a line that lists a test. Returns the name of the test, and its attributes, which are words of the form
/// `KEY=VALUE`. Returns `None` if the line does not list a test.
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
    fn carriage_return_is_not_part_of_the_name() {
        assert_eq!(Report::parse("@@test ok a::b\r"), Some(Report::Passed("a::b")));
    }

    #[test]
    fn a_report_does_not_list() {
        assert!(listed("@@test ok a::b").is_none());
        assert!(Report::parse("@@test list a::b cpus=8").is_none());
    }
}
