//! The command `boot-profile`, which writes profiles. It is built when `--profile` is first used, because the libraries
//! for profiles take longer to build than all other parts of `boot`.

use std::env;
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use gmp_sched::trace::TrackTrace;
use gmp_sched::trace::memory::image;

use crate::Error;
use crate::build;
use crate::checkout;

/// The name of the command.
const NAME: &str = "boot-profile";

/// The names of the files that the command writes, without their directory.
pub(crate) fn names() -> impl Iterator<Item = String> {
    let extensions = ["folded", "svg", "pb.gz"];
    ["block", "mutex", "cpu"]
        .into_iter()
        .flat_map(move |name| extensions.map(|extension| format!("{name}.{extension}")))
}

/// The command, ready to run.
#[derive(Debug)]
pub(crate) struct Profiler(PathBuf);

impl Profiler {
    /// Builds the command if necessary, next to `boot`. The output of cargo goes to standard error.
    ///
    /// # Errors
    ///
    /// [`Error::Build`] if the command does not build.
    pub(crate) fn build() -> Result<Self, Error> {
        let mut command = Command::new(build::cargo());
        command.args(["build", "--package=profile", "--bin", NAME]).arg(build::message_format());
        command.arg("--manifest-path").arg(checkout::root().join("Cargo.toml"));
        if let Some(target) = env::current_exe().ok().as_deref().and_then(|boot| boot.parent()?.parent()) {
            command.arg("--target-dir").arg(target);
        }
        if !cfg!(debug_assertions) {
            command.arg("--release");
        }
        let executable = build::run(command, NAME)?;
        executable.map(Self).ok_or_else(|| Error::Build(format!("cargo did not say where it put `{NAME}`")))
    }

    /// Writes the profiles of a run to files in `directory`. `elf` is the program, and `title` its name. Returns lines
    /// that say what was written.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, or if the command cannot be run.
    pub(crate) fn write(&self, traces: &[TrackTrace], elf: &Path, title: &str, directory: &Path) -> io::Result<String> {
        let mut trace = tempfile::tempfile()?;
        trace.write_all(&image(traces))?;
        trace.rewind()?;
        let output = Command::new(&self.0).arg(elf).arg(title).arg(directory).stdin(trace).output()?;
        let [printed, refused] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        match output.status.success() {
            true => Ok(printed.trim_end().to_owned()),
            false if refused.is_empty() => Err(io::Error::other(format!("{NAME}: {}", output.status))),
            false => Err(io::Error::other(refused.trim_end().to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_those_of_the_profiles() {
        assert_eq!(super::names().collect::<Vec<_>>(), profile::names().collect::<Vec<_>>());
    }
}
