//! A copy of the workspace, in which mutants are built and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, io};

use crate::crate_directory;
use crate::fit::mutate;
use crate::list::{Catcher, Mutant};

/// The result of testing a mutant.
pub(crate) enum Fate {
    /// The mutant was caught: these tests failed.
    Caught(Vec<String>),
    Survived,
    /// The mutant was not tested, for this reason: it does not fit the source, it does not compile, or its
    /// [`Catcher`] selects no test.
    Void(String),
    /// The mutant cannot be detected, for this reason.
    Equivalent(String),
}

/// A copy of the workspace for one worker.
pub(crate) struct Copy {
    workspace: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Makes a new copy of the source. What earlier copies have built is kept, so that dependencies are not built
    /// again. Only the compiler's incremental state is removed.
    pub(crate) fn new(worker: usize) -> io::Result<Self> {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutants-{worker}"));
        let workspace = place.join("source");
        if workspace.exists() {
            fs::remove_dir_all(&workspace)?;
        }
        copy_directory(crate_directory().parent().expect("the crate is in a workspace"), &workspace)?;
        let target = place.join("target");
        for kind in ["loom", "host"] {
            // The incremental state of an interrupted run may not match the source.
            let incremental = target.join(kind).join("models/incremental");
            if incremental.exists() {
                fs::remove_dir_all(incremental)?;
            }
        }
        Ok(Self { workspace, target })
    }

    pub(crate) fn try_mutant(&self, mutant: &Mutant) -> Fate {
        if let Catcher::Nobody(argument) = &mutant.catcher {
            return Fate::Equivalent(argument.clone());
        }
        let source = match mutate(mutant, &self.workspace.join("gmp-sched")) {
            Ok(source) => source,
            Err(misfit) => return Fate::Void(misfit),
        };
        let path = self.workspace.join("gmp-sched/src").join(&mutant.file);
        let original = fs::read_to_string(&path).expect("the copy is complete");
        fs::write(&path, source).expect("the copy can be written");
        let fate = fate_of(&self.cargo(&mutant.catcher).output().expect("cargo runs"));
        fs::write(&path, original).expect("the copy can be written");
        fate
    }

    /// Returns the cargo command that builds the copy and runs the tests that `catcher` selects.
    fn cargo(&self, catcher: &Catcher) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["test", "--profile=models", "--no-fail-fast", "--package", "gmp-sched"])
            .current_dir(&self.workspace)
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTFLAGS")
            .env("RUST_BACKTRACE", "0");
        let filter = match catcher {
            Catcher::Models(path) => {
                cargo.arg("--lib").env("RUSTFLAGS", "--cfg gmp_loom");
                format!("models::{path}")
            }
            Catcher::Tests { file, name, seeds } => {
                cargo
                    .args(["--package", "thread-tests", "--test", binary_of(file)])
                    .env_remove("GMP_SIM_SEED")
                    .env_remove("GMP_SIM_TRACE");
                if let Some(seeds) = seeds {
                    cargo.env("GMP_SIM_SEEDS", seeds);
                }
                name.clone()
            }
            Catcher::Properties(name) => {
                cargo.args(["--lib", "--test", "run_queue"]);
                name.clone()
            }
            Catcher::Nobody(_) => unreachable!("nobody is not run"),
        };
        // Models are built with other flags, so they need a target directory of their own.
        let kind = if matches!(catcher, Catcher::Models(_)) { "loom" } else { "host" };
        cargo.arg("--target-dir").arg(self.target.join(kind)).args(["--", &filter]);
        cargo
    }
}

/// Returns the name of the test program to which a file in `tests` belongs.
fn binary_of(file: &str) -> &str {
    file.split('/').next().expect("there is a first part")
}

/// Determines the fate of a mutant from the output of the test programs.
fn fate_of(ran: &Output) -> Fate {
    let output = String::from_utf8_lossy(&ran.stdout);
    let failed: Vec<String> = output
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .map(|name| name.trim_start_matches("models::").to_string())
        .collect();
    let is_any_run = output.lines().any(|line| line.starts_with("running ") && line != "running 0 tests");
    match (ran.status.success(), failed.is_empty(), is_any_run) {
        (true, _, true) => Fate::Survived,
        (false, false, true) => Fate::Caught(failed),
        // The run failed, but no test is reported as failed: an error has ended the whole process.
        (false, true, true) => Fate::Caught(vec!["aborted".to_string()]),
        (_, _, false) => Fate::Void(output.into_owned() + &String::from_utf8_lossy(&ran.stderr)),
    }
}

/// Copies the source, without build artifacts and `.git`.
fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy_directory(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
