//! Builds a program into a bootable ELF file, with cargo.
//!
//! The program and the kernel are ordinary `no_std` crates. If the host has Linux on x86_64, they are compiled for the
//! host's own target, for which stable Rust includes `core` and `alloc`. On other hosts, they are compiled for
//! `x86_64-unknown-none` (see [`Target`]). The flags in this file turn them into a bare-metal program. So a crate that
//! uses the kernel needs no build script, profile or linker script of its own. One of the flags is `--cfg gmp_machine`.
//! Without this flag, the kernel crate is compiled for programs on the host.
//!
//! There are three [profiles](Profile). Ordinary runs use [`Profile::Quick`], which takes the least time to build a
//! program again after an edit. Most tests of the kernel, and runs that count instructions, use [`Profile::Release`],
//! which makes the fastest code. With `--debug`, a run uses [`Profile::Debug`].
//!
//! Each workspace has a target directory. The ELF file is put into the folder `machine` of the target directory of the
//! program's workspace. Intermediate files are put into the folder `machine` of the target directory of the kernel's
//! workspace. So the kernel is built once for all programs, and separately from code for the host. But if the path of
//! that target directory has braces, intermediate files are put beside the ELF file.

use core::hash::{Hash, Hasher as _};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::hash::DefaultHasher;
use std::io::{self, BufReader, IsTerminal as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use cargo_metadata::Message;
use cargo_metadata::diagnostic::Diagnostic;

use crate::Error;
use crate::advice::Advice;
use crate::paths::{check_build_folder, check_target_folder, check_unicode};
use crate::program::Program;

/// The linker script. It specifies the addresses of the program's parts in memory, and their positions in the file.
const LINKER_SCRIPT: &str = include_str!("../../kernel/link.ld");

/// The target for which the C compiler of the host is the linker.
const LINUX: &str = "x86_64-unknown-linux-gnu";

/// The target for which Rust includes a linker.
const BARE: &str = "x86_64-unknown-none";

/// Environment variables that could change the flags or the directories of a build. The builds of programs and of the
/// bootloader do not inherit them.
pub(crate) const CLEARED: [&str; 8] = [
    "RUSTFLAGS",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_BUILD_DIR",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_TARGET_DIR",
];

/// The options of a build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The profile, which determines the optimisation and the checks.
    pub profile: Profile,
    /// The target to compile for.
    pub target: Target,
}

/// The build profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Compiles with optimisation, but incrementally, and adds line tables. After an edit, only the changed parts of a
    /// crate are compiled again. For this, each crate is split into many parts (codegen units), and a function is inlined
    /// into another part only if it is marked with `#[inline]`. So the scheduler needs about twice as many instructions
    /// as with [`Release`](Self::Release).
    #[default]
    Quick,
    /// Compiles with full optimisation, and adds line tables.
    Release,
    /// Compiles without optimisation, and adds overflow checks and debug assertions.
    Debug,
}

impl Profile {
    /// Returns the arguments with which cargo uses this profile. The arguments define [`Quick`](Self::Quick), so the
    /// crate of a program needs no profile of its own.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Quick => &[
                "--profile=quick",
                "--config=profile.quick.inherits='release'",
                "--config=profile.quick.incremental=true",
                // This number is Rust's default for incremental compilation. The number is set here because `quick`
                // inherits from the release profile of the crate, which may specify another number.
                "--config=profile.quick.codegen-units=256",
                // Without this option, the compiler would finally optimise all parts of a crate together, which takes
                // half of the build time.
                "--config=profile.quick.lto='off'",
            ],
            Self::Release => &["--profile=release"],
            Self::Debug => &["--profile=dev"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Release => "release",
            Self::Debug => "debug",
        }
    }
}

/// The target to compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// For hosts with Linux on x86_64. Needs only Rust and a C compiler.
    #[value(name = LINUX)]
    Linux,
    /// For all other hosts. Needs `rustup target add x86_64-unknown-none`.
    #[value(name = BARE)]
    Bare,
}

impl Default for Target {
    /// Returns the target for which this host has a linker.
    fn default() -> Self {
        if cfg!(all(target_os = "linux", target_arch = "x86_64")) { Self::Linux } else { Self::Bare }
    }
}

impl Target {
    /// Returns Rust's name for the target.
    pub fn triple(self) -> &'static str {
        match self {
            Self::Linux => LINUX,
            Self::Bare => BARE,
        }
    }

    fn link_arguments(self) -> &'static [&'static str] {
        match self {
            // The C compiler calls the linker, and must not add the startup code of host programs.
            Self::Linux => &["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"],
            Self::Bare => &["-static", "--no-pie", "--build-id=none"],
        }
    }
}

/// Returns the path of the cargo that has started this process. If cargo has not started this process, returns the name
/// `cargo`, which the operating system then searches in `PATH`.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Builds `program` if necessary, and returns the path of its ELF file. The output of cargo goes to standard error, so
/// that the user sees the progress.
///
/// # Errors
///
/// [`Error::Build`] if the program does not build. [`Error::Usage`] if cargo, the compiler or the linker cannot use one
/// of the paths.
pub fn build(program: &Program, options: Options) -> Result<PathBuf, Error> {
    let (manifest, name, own, kernel) = match program {
        Program::Elf(path) => return Ok(path.clone()),
        Program::Binary { manifest, name, own, kernel } => (manifest, name, own, kernel),
    };
    let [own_files, kernel_files] = [own, kernel].map(|workspace| workspace.target_directory.join("machine"));
    // The folder is passed in `CARGO_BUILD_BUILD_DIR`, and cargo replaces text in braces in this variable.
    let is_shared = !check_unicode(&kernel_files)?.contains(['{', '}']);
    let intermediate = if is_shared { &kernel_files } else { &own_files };
    check_build_folder(intermediate)?;
    check_target_folder(&own_files)?;
    let cannot_write = |error| Error::Build(format!("cannot write to `{}`: {error}", intermediate.display()));
    let script = write_linker_script(intermediate).map_err(cannot_write)?;
    let manifest =
        manifest.canonicalize().map_err(|error| Error::Build(format!("cannot read the manifest: {error}")))?;
    let mut command = Command::new(cargo());
    command.arg("build").arg("--manifest-path").arg(&manifest).args(["--bin", name]);
    command.args(["--target", options.target.triple()]).arg("--target-dir").arg(&own_files);
    command.arg(message_format()).args(options.profile.arguments());
    // Cargo must run in the folder of the crate, because it reads the configuration files of its current folder and of
    // the parents of that folder.
    command.current_dir(manifest.parent().unwrap_or(Path::new(".")));
    for variable in CLEARED {
        command.env_remove(variable);
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", encoded_flags(options.target, &script));
    // Backtraces need line tables. This variable adds them even if the release profile of the crate omits them. The
    // profile `quick` inherits them.
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
    // Reports also need the names of the functions, in the ELF file itself. The profiles of the crate may strip the
    // names, or put them into other files.
    for profile in ["RELEASE", "DEV"] {
        command.env(format!("CARGO_PROFILE_{profile}_STRIP"), "none");
        command.env(format!("CARGO_PROFILE_{profile}_SPLIT_DEBUGINFO"), "off");
    }
    if env::var_os("CARGO_PROFILE_DEV_DEBUG").is_none() {
        command.env("CARGO_PROFILE_DEV_DEBUG", "full");
    }
    // A program can read the name of its profile from this variable when it is compiled, and print it. The other profiles
    // have other values, but also build folders of their own. So a run with another profile does not make cargo compile
    // the program again.
    command.env("GMP_BUILD", options.profile.name());
    if is_shared {
        command.env("CARGO_BUILD_BUILD_DIR", intermediate);
    }
    if own != kernel {
        command.env("RUSTC_WORKSPACE_WRAPPER", write_wrapper(intermediate, &own.root).map_err(cannot_write)?);
    }
    let executable = run(command, name)?;
    executable.ok_or_else(|| Error::Build(format!("cargo did not say where it put `{name}`")))
}

/// Returns the option that makes cargo print the compiler's messages as JSON. Each message includes its text, with
/// colours if cargo itself would print it in colours.
pub(crate) fn message_format() -> &'static str {
    if has_colors() { "--message-format=json-diagnostic-rendered-ansi" } else { "--message-format=json" }
}

/// Whether cargo's text is coloured.
fn has_colors() -> bool {
    match env::var("CARGO_TERM_COLOR").as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none(),
    }
}

/// Runs cargo, and returns the path of the executable that cargo has built for the binary `name`. Returns `None` if
/// cargo has succeeded without naming an executable. The messages of the compiler are shown on standard error.
pub(crate) fn run(mut command: Command, name: &str) -> Result<Option<PathBuf>, Error> {
    let cannot = |error: io::Error| Error::Build(format!("cannot run cargo: {error}"));
    // Cargo would show its progress in a line that it overwrites later. The messages of the compiler, which this process
    // shows meanwhile, would run into this line.
    command.env("CARGO_TERM_PROGRESS_WHEN", "never");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let said = Said::read(child.stdout.take().expect("asked for a pipe"), name);
    if said.is_err() {
        // If cargo were not ended here, the error would be reported only after cargo has ended by itself. The call also
        // succeeds if cargo has ended already. It fails only if the signal cannot be sent.
        drop(child.kill());
    }
    let status = child.wait().map_err(cannot)?;
    let said = said.map_err(cannot)?;
    if status.success() {
        return Ok(said.executable);
    }
    let advice = Advice::find(&said.about_program, said.uses_kernel).map(|advice| format!("\nboot: {}", advice.text()));
    Err(Error::Build(format!("`{name}` does not build; see cargo's output above{}", advice.unwrap_or_default())))
}

/// What cargo has said about the build of one binary.
#[derive(Default)]
struct Said {
    /// The path of the executable, if cargo has built it.
    executable: Option<PathBuf>,
    /// Whether the program uses the crate `kernel`: cargo has reported that crate, as built or as up to date.
    uses_kernel: bool,
    /// The messages of the compiler about the binary itself.
    about_program: Vec<Diagnostic>,
}

impl Said {
    /// Reads cargo's messages until cargo closes its output. Shows the messages of the compiler on standard error.
    /// `name` is the name of the binary.
    fn read(output: impl io::Read, name: &str) -> io::Result<Self> {
        let mut said = Self::default();
        for message in Message::parse_stream(BufReader::new(output)) {
            match message? {
                Message::CompilerArtifact(artifact) if artifact.target.is_bin() && artifact.target.name == name => {
                    said.executable = artifact.executable.map(Into::into);
                }
                Message::CompilerArtifact(artifact) => said.uses_kernel |= artifact.target.name == "kernel",
                Message::CompilerMessage(message) => {
                    // If the write fails, there is no other way to show the message.
                    let text = message.message.rendered.as_deref().unwrap_or(&message.message.message);
                    let _ = io::stderr().write_all(text.as_bytes());
                    if message.target.is_bin() && message.target.name == name {
                        said.about_program.push(message.message);
                    }
                }
                _ => {}
            }
        }
        Ok(said)
    }
}

/// Returns the flags for rustc, in the form that `CARGO_ENCODED_RUSTFLAGS` requires.
fn encoded_flags(target: Target, script: &Path) -> OsString {
    let code = [
        // Selects those parts of the kernel crate that are for the machine.
        "--cfg=gmp_machine",
        "-Crelocation-model=static",
        // The kernel is in the highest 2 GiB of the address space.
        "-Ccode-model=kernel",
        "-Cpanic=abort",
        // The prebuilt `core` for Linux keeps data in the red zone below its stack pointer, so the kernel never writes
        // to the red zone of interrupted code. All other code is compiled without a red zone, as is usual in a kernel.
        "-Cno-redzone=yes",
        // Backtraces need frame pointers.
        "-Cforce-frame-pointers=yes",
    ];
    let plain = |argument: &&str| OsString::from(format!("-Clink-arg={argument}"));
    // Both the C compiler and LLVM's linker take this argument. With `-Wl,`, a comma in the path would end the
    // argument.
    let mut script_flag = OsString::from("-Clink-arg=-T");
    script_flag.push(script);
    let flags = code.iter().map(OsString::from).chain(target.link_arguments().iter().map(plain)).chain([script_flag]);
    flags.collect::<Vec<_>>().join(OsStr::new("\x1f"))
}

/// Writes the linker script into `directory`, and returns its path. The file's name depends on the script's content.
/// The path is one of the flags of the build. So cargo links again if the script has changed.
fn write_linker_script(directory: &Path) -> io::Result<PathBuf> {
    write_once(directory, &format!("link-{:016x}.ld", hash(LINKER_SCRIPT)), LINKER_SCRIPT, 0o644)
}

/// Writes a *wrapper* of rustc, which is a shell script that runs rustc. Returns the path of this script. The script's
/// name depends on the root of the workspace.
///
/// Two crates may have the same name and the same path within their workspaces, for example two crates that `boot new`
/// has made. If they share a build directory, cargo mistakes one for the other. Cargo also compares the path of the
/// wrapper, so each workspace gets a wrapper of its own. Cargo uses this wrapper only for the members of the workspace,
/// so dependencies are still built once for all workspaces.
fn write_wrapper(directory: &Path, workspace: &Path) -> io::Result<PathBuf> {
    write_once(directory, &format!("rustc-{:016x}.sh", hash(workspace)), "#!/bin/sh\nexec \"$@\"\n", 0o755)
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Writes a file if it does not exist yet. Returns its path.
fn write_once(directory: &Path, name: &str, content: &str, mode: u32) -> io::Result<PathBuf> {
    let path = directory.join(name);
    if !path.is_file() {
        fs::create_dir_all(directory)?;
        // The file gets its final name only when it is complete. So a concurrent `boot` never sees an incomplete file.
        let unfinished = directory.join(format!("{name}.{}.unfinished", process::id()));
        fs::write(&unfinished, content)?;
        fs::set_permissions(&unfinished, Permissions::from_mode(mode))?;
        fs::rename(unfinished, &path)?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, test_kill_process};

    use super::*;

    #[test]
    fn flags_are_separated_as_cargo_requires() {
        let flags = encoded_flags(Target::Linux, Path::new("/a b/link.ld"));
        let flags: Vec<&str> = flags.to_str().expect("text").split('\x1f').collect();
        assert!(flags.contains(&"-Cpanic=abort"));
        assert!(flags.contains(&"--cfg=gmp_machine"));
        assert!(flags.contains(&"-Clink-arg=-nostdlib"));
        assert_eq!(flags.last(), Some(&"-Clink-arg=-T/a b/link.ld"));
        let bare = encoded_flags(Target::Bare, Path::new("/link.ld"));
        assert!(bare.to_str().expect("text").ends_with("-Clink-arg=-T/link.ld"));
    }

    #[test]
    fn cargo_whose_messages_cannot_be_read_is_ended() {
        let directory = tempfile::tempdir().expect("a directory");
        let id = directory.path().join("id");
        // This command replaces cargo. It writes its process id to a file, prints bytes that are no text, and then runs
        // for longer than any test.
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ > "$0"; printf '\377\n'; exec sleep 100000"#]).arg(&id);
        let error = run(command, "any").expect_err("the output is no text");
        assert!(error.to_string().contains("cannot run cargo"), "{error}");
        let id = fs::read_to_string(id).expect("text").trim().parse().ok().and_then(Pid::from_raw);
        assert!(test_kill_process(id.expect("an id")).is_err(), "it still runs");
    }

    #[test]
    fn linker_script_is_written_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = write_linker_script(directory.path()).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("text"), LINKER_SCRIPT);
        let written = path.metadata().and_then(|file| file.modified()).expect("a time");
        assert_eq!(write_linker_script(directory.path()).expect("still there"), path);
        assert_eq!(path.metadata().and_then(|file| file.modified()).expect("a time"), written);
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1);
    }
}
