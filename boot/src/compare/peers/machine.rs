//! Our benchmark on a machine, and our other programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use boot_protocol::console::Stream;

use super::{Order, last_lines, timed_out};
use crate::Error;
use crate::build::{self, Options, Profile, Target};
use crate::compare::setting::Setting;
use crate::program::Program;
use crate::qemu::Configuration;
use crate::session::{Ending, Event, Session};

/// Builds one of our programs with full optimisation.
pub(in crate::compare) fn build(name: &str) -> Result<PathBuf, Error> {
    let program = Program::find(OsStr::new(name), None)?;
    build::build(&program, Options { profile: Profile::Release, target: Target::default() })
}

/// Returns the machine of a setting. Go's programs run on the same machine.
pub(in crate::compare) fn configuration(setting: Setting) -> Configuration {
    let cpus = if let Setting::Machine(cpus) = setting { cpus } else { 1 };
    Configuration { cpus, icount: setting == Setting::Instructions, ..Configuration::default() }
}

/// Runs the benchmark once. See [`Program::run`](super::Program::run).
pub(super) fn run(elf: &Path, order: &Order<'_>) -> Result<(String, Option<String>), Error> {
    let deadline = order.deadline();
    let mut session = Session::boot(&configuration(order.setting), elf, order.filters)?;
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let failure = loop {
        match session.next(deadline) {
            Event::Output(Stream::Output, bytes) => output.extend(bytes),
            Event::Output(Stream::Error, bytes) => errors.extend(bytes),
            Event::TimedOut => break Some(timed_out(order.limit)),
            Event::Ended(Ending::Status(0)) => break None,
            Event::Ended(Ending::Failed(error)) => break Some(error.to_string()),
            Event::Ended(ending) => break Some(format!("it ended with status {}", ending.status())),
        }
    };
    let failure = failure.map(|failure| failure + &last_lines(&String::from_utf8_lossy(&errors)));
    Ok((String::from_utf8_lossy(&output).into_owned(), failure))
}
