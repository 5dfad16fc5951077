//! Runs the program that a student has written, on threads of this computer or on the machine. Compares what it prints
//! and how it ends with what it should.

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::run::{Outputs, Verdict, limited};
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

/// The seconds after which `boot` ends the machine, for a program that takes less than one. The machine may be
/// emulated, on a computer that has other things to do.
const LIMIT: &str = "60";
/// The status with which `boot` ends then.
const TIME_OVER: i32 = 103;

impl Run {
    /// Runs the program on threads of this computer.
    pub(crate) fn on_threads(&self, program: &Path) -> Result<Verdict> {
        let mut command = Command::new(program);
        command.args(&self.arguments).env("RUST_BACKTRACE", "0");
        let test = self.name("on threads");
        let (Some(status), text) = limited(command, Outputs::Standard)? else { return Ok(Verdict::Hangs { test }) };
        Ok(status.code().map_or(Verdict::Crashed { test: test.clone() }, |status| self.compare(test, status, &text)))
    }

    /// Runs the program on the machine, which `boot` builds and starts.
    pub(crate) fn on_machine(&self, boot: &Path, tree: &Tree) -> Result<Verdict> {
        let test = self.name("on the machine");
        if !has_qemu() {
            return Ok(Verdict::NotRun { reason: "there is no qemu-system-x86_64 here".to_string() });
        }
        let mut command = Command::new(boot);
        command.args(["--smp", "4", "--timeout", LIMIT, "--bin", "first", FIRST]).args(&self.arguments);
        // `boot` builds what is in this tree, which need not be the one in which cargo runs this command.
        command.env("CARGO_MANIFEST_DIR", tree.root().join("boot")).current_dir(tree.root()).stdin(Stdio::null());
        let output = command.output().map_err(|error| Error::file("run", boot, &error))?;
        match output.status.code() {
            Some(TIME_OVER) => Ok(Verdict::Hangs { test }),
            Some(status) => Ok(self.compare(test, status, &String::from_utf8_lossy(&output.stdout))),
            None => Ok(Verdict::Crashed { test }),
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

/// Whether this computer has the program that emulates the machine.
pub(crate) fn has_qemu() -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder: PathBuf| folder.join("qemu-system-x86_64")).any(|path| path.is_file())
}
