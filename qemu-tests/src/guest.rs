//! The test program that runs in the kernel.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::time::Instant;

use boot::Error;
use boot::build::{Options, build};
use boot::program::Program;
use boot::qemu::Configuration;
use boot::session::{Ending, Event, Session};
use boot_protocol::report::MARK;

use crate::outcome::meaning;
use crate::test::Test;
use crate::transcript::Transcript;

/// The path of the crate of the test program, relative to the root of the workspace.
pub(crate) const PATH: &str = "qemu-tests/guest";

/// How long a machine may take to boot and report that it is ready. It is also the time limit for a request that the
/// machine can answer without waiting for anything.
pub(crate) const BOOT_TIME: Duration = Duration::from_secs(30);

/// The test program, built for the kernel.
#[derive(Clone, Debug)]
pub struct Guest {
    elf: PathBuf,
}

impl Guest {
    /// Builds the test program. Cargo's output goes to standard error.
    ///
    /// # Errors
    ///
    /// [`Error::Build`] if the program does not build.
    pub fn build() -> Result<Self, Error> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest");
        let program = Program::find(directory.as_os_str(), None)?;
        Ok(Self { elf: build(&program, Options::default())? })
    }

    /// Boots the program on one CPU and returns the tests that it lists, sorted by name. Hidden tests are included.
    ///
    /// # Errors
    ///
    /// [`Error::Qemu`] if QEMU is missing or fails, or the program does not end.
    pub fn tests(&self) -> Result<Vec<Test>, Error> {
        let configuration = Configuration { cpus: 1, ..Configuration::default() };
        let mut session = self.boot(&configuration, &[])?;
        let mut transcript = Transcript::default();
        let deadline = Instant::now() + BOOT_TIME;
        let why = loop {
            match session.next(Some(deadline)) {
                Event::Output(_, bytes) => transcript.push(&bytes),
                Event::Ended(Ending::Status(0)) => return listed(&transcript),
                Event::Ended(ending) => break meaning(&ending),
                Event::TimedOut => {
                    session.last_words(|_, bytes| transcript.push(bytes));
                    break format!("it did not end within {BOOT_TIME:?}");
                }
            }
        };
        Err(Error::Qemu(format!("the machine did not list its tests: {why}\n{}", transcript.text())))
    }

    /// Boots the program with `arguments`.
    pub(crate) fn boot(&self, configuration: &Configuration, arguments: &[String]) -> Result<Session, Error> {
        Session::start(&self.elf, &configuration.qemu_arguments(&self.elf, arguments)?)
    }
}

/// Parses the tests that the machine has listed and returns them, sorted by name.
fn listed(transcript: &Transcript) -> Result<Vec<Test>, Error> {
    let text = transcript.text();
    let lines = text.lines().filter(|line| line.starts_with(MARK));
    let unreadable = |line| Error::Qemu(format!("the machine listed a test in an unknown form: {line}"));
    let parse = |line| Test::parse(line).ok_or_else(|| unreadable(line));
    let mut tests = lines.map(parse).collect::<Result<Vec<_>, _>>()?;
    tests.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(twice) = tests.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(Error::Qemu(format!("there are two tests of the name {}", twice[0].name)));
    }
    Ok(tests)
}
