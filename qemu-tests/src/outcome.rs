//! Why a test failed, with all information that helps to find the cause.

use core::fmt;

use boot::Error;
use boot::session::Ending;
use boot_protocol::status;

/// Why a test failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The test returned an error.
    ReturnedError,
    /// The machine ended unexpectedly during the test.
    MachineEnded(Ending),
    /// The test returned without an error, although it had to end the machine with a certain status.
    MachineGoesOn,
    /// The test exceeded its time limit, which is this number of seconds.
    TimedOut(u32),
    /// The test must print a list of texts in order. It did not print this text after the previous text of the list.
    DidNotPrint(String),
    /// No machine became ready to run the test, or the test program has no such test.
    NoMachine(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReturnedError => formatter.write_str("the test returned an error"),
            Self::MachineEnded(ending) => write!(formatter, "the machine ended: {}", meaning(ending)),
            Self::MachineGoesOn => formatter.write_str("the test did not end the machine, as it should"),
            Self::TimedOut(seconds) => write!(formatter, "time-out: the test was not done after {seconds} s"),
            Self::DidNotPrint(text) => write!(formatter, "the console does not show {text:?} where it should"),
            Self::NoMachine(why) => formatter.write_str(why),
        }
    }
}

/// Describes how a machine ended.
pub(crate) fn meaning(ending: &Ending) -> String {
    match ending {
        Ending::Status(status) => {
            let meaning = match *status {
                0 => "success",
                2 => "a panic in the program",
                status::KERNEL_BROKEN => "a broken invariant of the kernel",
                status::EXCEPTION => "an exception",
                _ => "the program's own",
            };
            format!("status {status} ({meaning})")
        }
        Ending::Reset => "it reset itself, as it does on a triple fault".to_owned(),
        Ending::Failed(error) => error.to_string(),
    }
}

/// A test that failed. Its `Display` shows the cause, the output, and the commands that repeat the failure.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The cause.
    pub cause: Cause,
    /// The machine's output during the test. Addresses in it are resolved to functions and lines.
    pub console: String,
    /// The command that runs the test alone.
    pub command: String,
    /// Whether the command repeats the run exactly, byte for byte. It does if instructions are counted and QEMU itself
    /// loads the program.
    pub is_exact: bool,
    /// The tests that ran before this test in the same boot, and the command that repeats those tests and this test.
    pub before: Option<(Vec<String>, String)>,
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        Self::NoMachine(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.cause)?;
        if self.console.is_empty() {
            writeln!(formatter, "the console shows nothing")?;
        } else {
            writeln!(formatter, "the console since the test began:\n")?;
            for line in self.console.lines() {
                writeln!(formatter, "    {line}")?;
            }
            writeln!(formatter)?;
        }
        let how =
            if self.is_exact { "to repeat it, to the byte, with --gdb up to the first stop" } else { "to repeat it" };
        writeln!(formatter, "{how}:\n    {}", self.command)?;
        if let Some((names, command)) = &self.before {
            let count = names.len();
            writeln!(formatter, "or, with the {count} that ran before it in the same boot:\n    {command}")?;
        }
        Ok(())
    }
}
