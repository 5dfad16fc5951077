//! The test program that runs in the kernel.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::time::Instant;

use boot::Error;
use boot::build::{Options, Profile, build};
use boot::memory;
use boot::program::Program;
use boot::qemu::{Configuration, Firmware};
use boot::session::{Ending, Event, Session};
use boot::signals::share_signals;
use boot_protocol::report::MARK;

use crate::outcome::meaning;
use crate::test::Test;
use crate::transcript::Transcript;

/// The path of the crate of the test program, relative to the root of the workspace.
pub(crate) const PATH: &str = "qemu-tests/guest";

/// How long a machine may take to boot and report that it is ready. It is also the time limit for a machine that boots,
/// lists its tests and ends.
pub(crate) const BOOT_TIME: Duration = Duration::from_secs(30);

/// How long firmware and a bootloader may take before the kernel begins. This is long enough for a busy host.
const FIRMWARE_TIME: Duration = Duration::from_secs(120);

/// Returns how long firmware and a bootloader may take before the kernel begins. This is added to every time limit of a
/// machine that boots from a disk image. PVH needs neither of them, so the result is zero.
///
/// If QEMU counts instructions, one thread of the host executes all CPUs, one after the other. In UEFI, all CPUs
/// execute instructions all the time, because those without work poll. So the firmware takes as many times as long as
/// there are CPUs. (With 8 CPUs, OVMF took 190 s on an EPYC.)
pub(crate) fn firmware_time(configuration: &Configuration) -> Duration {
    match configuration.firmware {
        Firmware::Pvh => Duration::ZERO,
        Firmware::Uefi if configuration.icount => FIRMWARE_TIME * configuration.cpus,
        _ => FIRMWARE_TIME,
    }
}

/// The test program, built for the kernel.
#[derive(Clone, Debug)]
pub struct Guest {
    elf: PathBuf,
}

impl Guest {
    /// Prepares a process that runs the tests: shares its signals with the machines that it will boot, builds the test
    /// program, and lists its tests.
    ///
    /// # Errors
    ///
    /// The errors of [`build`](Self::build) and [`tests`](Self::tests). [`Error::Qemu`] if the signal handlers cannot
    /// be installed.
    pub fn prepare() -> Result<(Self, Vec<Test>), Error> {
        share_signals().map_err(|error| Error::Qemu(format!("signals cannot be handled: {error}")))?;
        let guest = Self::build()?;
        let tests = guest.tests()?;
        Ok((guest, tests))
    }

    /// Builds the test program. Cargo's output goes to standard error.
    ///
    /// # Errors
    ///
    /// [`Error::Build`] if the program does not build.
    pub fn build() -> Result<Self, Error> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest");
        let program = Program::find(directory.as_os_str(), None)?;
        let options = Options { profile: Profile::Release, ..Options::default() };
        Ok(Self { elf: build(&program, options)? })
    }

    /// Returns the path of the ELF file.
    pub fn elf(&self) -> &Path {
        &self.elf
    }

    /// Returns how many MiB of memory a machine needs in addition to `memory`, because firmware and bootloader also use
    /// memory. Returns 0 if `memory` is enough for them, too.
    pub(crate) fn memory_of_firmware(&self, firmware: Firmware, memory: u32) -> u32 {
        let least = |firmware| memory::least(&self.elf, firmware).unwrap_or_default();
        if memory < least(firmware) { least(firmware) - least(Firmware::Pvh) } else { 0 }
    }

    /// Boots the program on one CPU and returns the tests that it lists, sorted by name. Hidden tests are included.
    ///
    /// # Errors
    ///
    /// [`Error::Qemu`] if QEMU is missing or fails, or if the program does not end with success in time. The same error
    /// if the program lists a test in an unknown form, or two tests with the same name.
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
        Session::boot(configuration, &self.elf, arguments)
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
