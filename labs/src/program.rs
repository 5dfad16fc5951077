//! Runs the program that a student has written, on threads of this computer or on the machine. Compares what it prints
//! and how it ends with what it should.

use std::env;
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::run::{Outputs, Verdict, limited, verdict_of_signal};
use crate::tree::{FIRST, Tree};

/// A run of the program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    arguments: Vec<String>,
    /// The exit status that it must have.
    status: i32,
    /// What it must print on its standard output.
    prints: String,
}

/// After this number of seconds `boot` ends the machine. The program takes less than one second, but the machine may be
/// emulated on a busy computer.
const LIMIT: &str = "60";
/// The status of `boot` when the time is over.
const TIME_OVER: i32 = 103;
/// How the last line of `boot` begins if the machine did not get as far as the program.
const HAS_NOT_BEGUN: &str = "boot: the kernel has printed nothing";
/// The status of `boot` if it cannot build the program. A program may end with the same status.
const DOES_NOT_BUILD: i32 = 65;

impl Run {
    /// Runs the program on threads of this computer.
    pub(crate) fn on_threads(&self, program: &Path) -> Result<Verdict> {
        let mut command = Command::new(program);
        command.args(&self.arguments).env("RUST_BACKTRACE", "0");
        let test = self.name("on threads");
        let (Some(status), text) = limited(command, Outputs::Standard)? else { return Ok(Verdict::Hangs { test }) };
        Ok(match (status.code(), status.signal()) {
            (Some(status), _) => self.compare(test, status, &text),
            (None, signal) => verdict_of_signal(&test, signal.unwrap_or_default()),
        })
    }

    /// Runs the program on the machine, which `boot` builds and starts.
    pub(crate) fn on_machine(&self, boot: &Path, tree: &Tree) -> Result<Verdict> {
        let test = self.name("on the machine");
        if !has_qemu() {
            return Ok(Verdict::NotRun { reason: "there is no qemu-system-x86_64 here".to_string() });
        }
        let output = on_machine(boot, tree, &["--smp", "4"], "first", &self.arguments)?;
        if let Some(reason) = failure(&output) {
            return Ok(Verdict::Lost { test, reason });
        }
        match output.status.code().unwrap_or_default() {
            TIME_OVER => Ok(Verdict::Hangs { test }),
            DOES_NOT_BUILD if is_refused(&output) => {
                Ok(Verdict::Failed { test, reason: String::from_utf8_lossy(&output.stderr).into() })
            }
            status => Ok(self.compare(test, status, &String::from_utf8_lossy(&output.stdout))),
        }
    }

    /// The command that one would type.
    fn name(&self, place: &str) -> String {
        let arguments = self.arguments.iter().fold(String::new(), |mut text, argument| {
            let _ = write!(text, " {argument}");
            text
        });
        format!("first{arguments}, {place}")
    }

    fn compare(&self, test: String, status: i32, text: &str) -> Verdict {
        if status != self.status {
            return Verdict::Failed { test, reason: format!("the status is {status}; it should be {}", self.status) };
        }
        if text.trim_end() != self.prints {
            return Verdict::Failed {
                test,
                reason: format!("it prints {:?}; it should be {:?}", text.trim_end(), self.prints),
            };
        }
        Verdict::Passed
    }
}

/// Builds the program `name` of the student's crate in `tree`, and runs it on the machine.
pub(crate) fn on_machine(
    boot: &Path,
    tree: &Tree,
    options: &[&str],
    name: &str,
    arguments: &[String],
) -> Result<Output> {
    let mut command = Command::new(boot);
    command.args(options).args(["--timeout", LIMIT, "--bin", name, FIRST]).args(arguments);
    // `boot` builds what is in this tree, which need not be the one in which cargo runs this command.
    command.env("CARGO_MANIFEST_DIR", tree.root().join("boot")).current_dir(tree.root()).stdin(Stdio::null());
    command.output().map_err(|error| Error::file("run", boot, &error))
}

/// Why `boot` has failed, if the student's program is not to blame. Something has ended `boot`, or the build has failed for
/// another reason than an error in that program, or QEMU has failed or hangs, or this computer was too slow to take the output.
/// The last line of `boot` says which, and the lines before it are the output of QEMU.
pub(crate) fn failure(output: &Output) -> Option<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        None => Some("something ended `boot`".to_string()),
        Some(DOES_NOT_BUILD) if is_refused(output) => None,
        Some(TIME_OVER) if !errors.lines().next_back()?.starts_with(HAS_NOT_BEGUN) => None,
        Some(DOES_NOT_BUILD | 74 | TIME_OVER | 104 | 105) => {
            let lines: Vec<&str> = errors.lines().collect();
            let last = lines.iter().rposition(|line| line.starts_with("boot: "))?;
            let mut said =
                lines[last.saturating_sub(SAID)..=last].split(|line| line.trim_start().starts_with("Finished "));
            Some(said.next_back()?.join("\n"))
        }
        Some(_) => None,
    }
}

/// How many lines before the last one of `boot` are shown.
const SAID: usize = 3;

/// Whether the compiler has named an error in the student's crate.
fn is_refused(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).contains(&format!("--> {FIRST}/"))
}

/// Whether this computer has the program that emulates the machine.
pub(crate) fn has_qemu() -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder: PathBuf| folder.join("qemu-system-x86_64")).any(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{ExitStatus, Output};

    use super::failure;

    #[test]
    fn failure_is_that_of_qemu_and_not_of_the_program() {
        let failure = |status: i32, errors: &str| {
            failure(&Output { status: ExitStatus::from_raw(status << 8), stdout: Vec::new(), stderr: errors.into() })
        };
        let failed = "    Finished `quick`\nqemu: no such library\nboot: QEMU failed; see its output above\n";
        let said = "qemu: no such library\nboot: QEMU failed; see its output above";
        assert_eq!(failure(104, failed).as_deref(), Some(said));
        assert_eq!(failure(2, failed), None);
        // The machine hangs before the kernel has printed anything, and while the program runs.
        let (late, silent) =
            ("boot: time-out: the program still ran after 60s\n", "boot: the kernel has printed nothing\n");
        assert!(failure(103, &[late, silent].concat()).is_some());
        assert_eq!(failure(103, &[silent, late].concat()), None);
    }
}
