//! A workspace in which the checks of labs are built.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::compile::{self, Refusal};
use crate::error::{Error, Result};
use crate::progress::Progress;

/// A workspace, and the folder in which its tests are built.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    target: PathBuf,
    /// A file that is locked while a copy is used, because two graders in one copy would grade each other's
    /// submissions. The file's time of modification is the time of the last build.
    lock: Option<File>,
    /// Whether a line on the terminal may say what is being done.
    shows_progress: bool,
}

/// The crate of the program that a student writes.
pub(crate) const FIRST: &str = "labs/first";

/// Compiles the scheduler without optimisation. The checks then take longer, but compiling an edit takes so much less
/// time that a student waits less.
const UNOPTIMISED: &str = "profile.test.package.gmp-sched.opt-level=0";

/// The programs by which checks are made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Program {
    /// The tests of `labs/checks`.
    Checks {
        /// Whether they are compiled with optimisation, which takes three times as long.
        is_optimised: bool,
    },
    /// The models of the scheduler, which loom runs.
    Models,
    /// The program that a student has written, on threads.
    OnThreads,
    /// The command `boot`, which runs that program on the machine.
    Boot,
    /// The program that converts a trace into the page of its timeline.
    Converter,
}

impl Program {
    /// Adds the arguments for building the program to `cargo`. Returns the name of the target directory, or `None` for
    /// that of the workspace.
    fn ask(self, cargo: &mut Command) -> Option<&'static str> {
        match self {
            Self::Checks { is_optimised } => {
                // `timeline` is the package of the converter. Cargo chooses the features of the libraries for all packages of a
                // command, so the checks and the converter use the same compiled libraries.
                cargo.args(["test", "--no-run", "-p", "lab-checks", "-p", "timeline", "--test", "checks"]);
                cargo.args(["--config", UNOPTIMISED]);
                if is_optimised {
                    cargo.args(["--config", "profile.test.package.lab-checks.opt-level=2"]);
                }
                Some("checks")
            }
            Self::Models => {
                cargo.args(["test", "--no-run", "-p", "gmp-sched", "--lib", "--profile=models"]);
                cargo.env("RUSTFLAGS", "--cfg gmp_loom");
                Some("models")
            }
            Self::OnThreads => {
                cargo.args(["build", "-p", "lab-first", "--bin", "first"]);
                Some("programs")
            }
            // As `cargo run` builds it, so that nothing is built twice.
            Self::Boot => {
                cargo.args(["build", "-p", "boot", "--bin", "boot"]);
                None
            }
            // These options are those of the checks, so the scheduler is not compiled again.
            Self::Converter => {
                cargo.args(["build", "-p", "lab-checks", "-p", "timeline"]);
                cargo.args(["--profile", "test", "--example", "convert"]);
                cargo.args(["--config", UNOPTIMISED]);
                Some("checks")
            }
        }
    }
}

/// A program that was built.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub(crate) path: PathBuf,
    /// The compiler's warnings.
    pub(crate) warnings: String,
}

/// Why a program was not built.
#[derive(Debug)]
pub(crate) enum NotBuilt {
    /// The compiler refuses the source.
    DoesNotCompile(Refusal),
    Error(Error),
}

impl Tree {
    /// The workspace at `root` itself.
    pub(crate) fn of(root: &Path) -> Self {
        Self { root: root.to_path_buf(), target: root.join("target/lab/own"), shows_progress: true, lock: None }
    }

    /// A copy of the workspace at `root`. What an earlier copy has built is kept, so that little is built anew.
    pub(crate) fn copy_of(root: &Path) -> Result<Self> {
        Ok(Self { shows_progress: true, ..Self::copy_number(root, 0)? })
    }

    /// Like [`copy_of`](Self::copy_of), for several copies that are used at the same time. They show no progress. Waits until
    /// no other grader uses the copy with this number.
    pub(crate) fn copy_number(root: &Path, number: usize) -> Result<Self> {
        let place = root.join("target/lab").join(if number == 0 { "copy".into() } else { format!("copy-{number}") });
        let lock = lock(&place).map_err(|error| Error::file("lock", &place, &error))?;
        let (root_of_copy, target) = (place.join("source"), place.join("target"));
        let tree = Self { root: root_of_copy, target, shows_progress: false, lock: Some(lock) };
        tree.renew(root)?;
        Ok(tree)
    }

    /// Undoes all changes in this copy of the workspace at `root`, and takes over those of the workspace.
    pub(crate) fn renew(&self, root: &Path) -> Result<()> {
        mirror(root, &self.root)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the line on the terminal for what is done in this workspace.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(self.shows_progress)
    }

    /// Called before and after a build. Cargo compares the times of files. If the clock has been set back since the
    /// last build, a new submission looks older than the program that was built from the previous one, and cargo would
    /// not build it. So in this case everything is built anew.
    fn note_time(&self) -> Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        let now = SystemTime::now();
        let noted = lock.metadata().and_then(|data| data.modified()).and_then(|last| {
            for folder in [self.target.clone(), self.root.join("target")] {
                if now < last && folder.exists() {
                    fs::remove_dir_all(folder)?;
                }
            }
            lock.set_modified(now)
        });
        noted.map_err(|error| Error::file("renew", &self.target, &error))
    }

    /// Builds `program`.
    pub(crate) fn build(&self, program: Program) -> core::result::Result<Built, NotBuilt> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root).env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
        if let Some(folder) = program.ask(&mut cargo) {
            // A student edits one file and checks again, so the compiler is to compile only the parts of the crate that the
            // edit concerns. `.ci/run` sets both variables to values for builds without edits. The checks have no debug
            // information, because they show no backtraces.
            cargo.env("CARGO_INCREMENTAL", "1").env_remove("CARGO_PROFILE_DEV_CODEGEN_UNITS");
            cargo.args(["--config", "profile.dev.debug=false"]).arg("--target-dir").arg(self.target.join(folder));
        }
        cargo.args(["--quiet", "--message-format=json"]);
        self.note_time().map_err(NotBuilt::Error)?;
        let output = compile::run(cargo, &self.progress()).map_err(NotBuilt::Error)?;
        self.note_time().map_err(NotBuilt::Error)?;
        if let Some(path) = output.executable().filter(|_| output.status.success()) {
            return Ok(Built { path, warnings: output.warnings() });
        }
        let failure = || NotBuilt::Error(Error::new(format!("cargo failed:\n{}", output.failure())));
        Err(output.refusal().map_or_else(failure, NotBuilt::DoesNotCompile))
    }
}

/// Makes the folder `place`, and returns a lock on it. The lock ends with the process, however that ends.
fn lock(place: &Path) -> io::Result<File> {
    fs::create_dir_all(place)?;
    let lock = File::options().write(true).create(true).truncate(false).open(place.join("lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("Waiting for another grader, which uses {}", place.display());
            lock.lock()?;
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    Ok(lock)
}

/// Makes `to` a copy of the folder `from`, without the folders `target` and `.git`, and without links. Files with the same
/// content are not written, so that cargo sees no change in them.
fn mirror(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(|error| Error::file("make", to, &error))?;
    let (there, mut here) = (entries(from)?, entries(to)?);
    for (name, path) in there {
        let copy = to.join(&name);
        here.remove(&name);
        if path.is_dir() {
            mirror(&path, &copy)?;
        } else {
            let content = fs::read(&path).map_err(|error| Error::file("read", &path, &error))?;
            if fs::read(&copy).ok().as_ref() != Some(&content) {
                fs::write(&copy, content).map_err(|error| Error::file("write", &copy, &error))?;
            }
        }
    }
    for path in here.values() {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.map_err(|error| Error::file("remove", path, &error))?;
    }
    Ok(())
}

/// The files and folders in `folder` that belong to the source, by their names.
pub(crate) fn entries(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let read = fs::read_dir(folder).map_err(|error| Error::file("read", folder, &error))?;
    let mut entries = BTreeMap::new();
    for entry in read {
        let path = entry.map_err(|error| Error::file("read", folder, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !path.is_symlink() && name != "target" && name != ".git" {
            entries.insert(name, path);
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::fs::{self, File};
    use std::time::SystemTime;

    use super::{Tree, mirror};

    #[test]
    fn copy_has_one_user() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "one").unwrap();
        let copies = [0, 1].map(|number| Tree::copy_number(root.path(), number).unwrap());
        let lock = File::open(root.path().join("target/lab/copy/lock")).unwrap();
        assert!(lock.try_lock().is_err());
        fs::write(copies[0].root().join("file"), "two").unwrap();
        copies[0].renew(root.path()).unwrap();
        assert_eq!(fs::read_to_string(copies[0].root().join("file")).unwrap(), "one");
        drop(copies);
        lock.try_lock().unwrap();
    }

    #[test]
    fn nothing_that_was_built_is_used_after_the_clock_has_gone_back() {
        let root = tempfile::tempdir().unwrap();
        let copy = Tree::copy_number(root.path(), 0).unwrap();
        let (lock, minute) = (copy.lock.as_ref().unwrap(), Duration::from_secs(60));
        for (last, is_kept) in [(SystemTime::now() - minute, true), (SystemTime::now() + minute, false)] {
            fs::create_dir_all(copy.target.join("checks")).unwrap();
            lock.set_modified(last).unwrap();
            copy.note_time().unwrap();
            assert_eq!(copy.target.exists(), is_kept);
            assert!(lock.metadata().unwrap().modified().unwrap() <= SystemTime::now());
        }
    }

    #[test]
    fn mirror_copies_what_differs_and_removes_what_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::create_dir_all(from.join("target")).unwrap();
        fs::write(from.join("inner/file"), "one").unwrap();
        fs::write(from.join("target/built"), "").unwrap();
        mirror(&from, &to).unwrap();
        let written = fs::metadata(to.join("inner/file")).unwrap().modified().unwrap();
        fs::write(to.join("inner/old"), "").unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(fs::metadata(to.join("inner/file")).unwrap().modified().unwrap(), written);
        assert!(!to.join("inner/old").exists() && !to.join("target").exists());
        fs::write(from.join("inner/file"), "two").unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("inner/file")).unwrap(), "two");
    }
}
