//! Helpers for the tests: a crate outside of the workspace, as a user would write it, and commands that boot the
//! crate's program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tempfile::TempDir;

use crate::child::run;

/// The crate outside of the workspace, and the ELF file that `boot` builds from it.
pub(crate) struct Outside {
    /// The folder of the crate.
    pub(crate) directory: TempDir,
    /// The program's ELF file.
    pub(crate) elf: PathBuf,
}

/// The crate outside of the workspace. It is written and built once for all tests.
pub(crate) static OUTSIDE: LazyLock<Outside> = LazyLock::new(|| {
    let directory = write_crate("outside", include_str!("outside_program.rs"));
    let mut command = boot();
    command.arg("--dry-run").arg(directory.path());
    let output = run(command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let words = shlex::split(text(&output.stdout).trim()).expect("a shell command");
    let kernel = words.iter().position(|word| word == "-kernel").expect("the option that names the program");
    Outside { elf: words[kernel + 1].clone().into(), directory }
});

/// Writes a crate with this name and this `main.rs`. Its only dependency is the kernel. No two tests use the same name,
/// because all crates are built into one target directory. There, a program replaces an earlier one of the same name.
pub(crate) fn write_crate(name: &str, main: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let kernel = workspace.join("kernel");
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nkernel = {{ path = {kernel:?} }}\n"
    );
    fs::create_dir(directory.path().join("src")).expect("a directory");
    fs::write(directory.path().join("Cargo.toml"), manifest).expect("written");
    fs::write(directory.path().join("src/main.rs"), main).expect("written");
    // With this `Cargo.lock`, the crate uses the same versions of its dependencies as the workspace does. So nothing
    // has to be downloaded.
    fs::copy(workspace.join("Cargo.lock"), directory.path().join("Cargo.lock")).expect("copied");
    directory
}

/// Returns the command `boot` with an empty input. It builds into the target directory of the workspace, as all tests
/// of this workspace do. So one build of the kernel serves all of them. `TERM` describes the terminals that the tests
/// provide, and not that of the user.
pub(crate) fn boot() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boot"));
    command.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory"));
    command.env("TERM", "xterm").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the command that boots the program of the crate outside of the workspace. `options` are for `boot`, and
/// `arguments` are for the program.
pub(crate) fn boot_outside(options: &[&str], arguments: &[&str]) -> Command {
    let mut command = boot();
    command.args(options).arg(&OUTSIDE.elf).args(arguments);
    command
}

/// Runs a command that boots a machine, and waits until the command ends. Meanwhile no other machine runs, or only
/// small ones if this machine is [small](small_machine).
pub(crate) fn finish(command: Command) -> Output {
    if command.get_args().any(|word| word == "--icount" || word == "--smp=1") {
        finish_small(command)
    } else {
        let _machine = only_machine();
        run(command)
    }
}

/// Like [`finish`], for a machine that is small although its options do not show this.
pub(crate) fn finish_small(command: Command) -> Output {
    let _machine = small_machine();
    run(command)
}

/// Boots the program with time limits of 2, 4, 8, … 128 seconds, until `is_long_enough` returns true for the output.
/// How long a boot takes depends on the host, and a limit that is over before the program begins shows nothing about
/// the program. Returns the last output.
pub(crate) fn finish_at_limit(options: &[&str], argument: &str, is_long_enough: impl Fn(&Output) -> bool) -> Output {
    let mut seconds = 2;
    loop {
        let limit = format!("--timeout={seconds}");
        let output = finish(boot_outside(&[options, &[&limit]].concat(), &[argument]));
        if seconds == 128 || is_long_enough(&output) {
            return output;
        }
        seconds *= 2;
    }
}

/// Held while machines run: for writing by a test whose machine may need all CPUs of the host, and for reading by a
/// test whose machine is small.
static MACHINES: RwLock<()> = RwLock::new(());

/// Takes the lock that a test holds while its machine runs. No other machine runs meanwhile.
pub(crate) fn only_machine() -> RwLockWriteGuard<'static, ()> {
    LazyLock::force(&OUTSIDE);
    MACHINES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock that a test holds while its machine runs, for a *small* machine: one that needs at most one CPU of
/// the host, because it has only one CPU, counts instructions, or mostly waits. Other small machines may run meanwhile.
pub(crate) fn small_machine() -> RwLockReadGuard<'static, ()> {
    LazyLock::force(&OUTSIDE);
    MACHINES.read().unwrap_or_else(PoisonError::into_inner)
}

/// The exit status of a command.
pub(crate) fn status(output: &Output) -> Option<i32> {
    output.status.code()
}

/// Converts printed bytes to text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
