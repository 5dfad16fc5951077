//! Disk images, from which a computer with BIOS or UEFI boots a program.
//!
//! The crate `boot/image` writes them, with the rust-osdev bootloader. This module calls cargo to compile that crate
//! before the first image is written. The build of the crate also compiles the stages of the bootloader. This needs the
//! source code of Rust's standard library, LLVM's tools, and unstable features of the compiler. The variable
//! `RUSTC_BOOTSTRAP` makes a stable compiler accept these features. Cargo keeps what it has compiled in the folder
//! `image` of the target directory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;
use crate::build::CLEARED;
use crate::console::say;
use crate::program::target_directory;
use crate::qemu::{Firmware, ovmf};

/// The toolchain of rustup that compiles the bootloader. It is a fixed version, because the unstable features that the
/// bootloader uses change from version to version.
const TOOLCHAIN: &str = "1.95.0";

/// The folder that contains the compiler and cargo of the Linux distribution.
const DISTRIBUTION: &str = "/usr/bin";

/// The crate that writes images.
const CRATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/image/Cargo.toml");

/// Environment variables that are not passed on to the commands of the toolchain. The cargo or rustup that runs this
/// program may have set them, and they would make the cargo of another [`Toolchain`] use the wrong compiler.
const OTHER_TOOLCHAIN: [&str; 4] = ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"];

/// A toolchain that may have what the bootloader needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Toolchain {
    /// The toolchain [`TOOLCHAIN`] of rustup.
    Rustup,
    /// The toolchain from the packages of the Linux distribution.
    Distribution,
}

impl Toolchain {
    /// Finds a toolchain that has what the bootloader needs.
    fn find() -> Result<Self, Error> {
        let found = [Self::Rustup, Self::Distribution].into_iter().find(|toolchain| toolchain.is_complete());
        found.ok_or_else(|| {
            Error::Build(format!(
                "a disk image needs the source code of Rust's standard library and LLVM's tools. Run ./setup --images, or:\n  \
                 rustup toolchain install {TOOLCHAIN} --profile minimal --component rust-src,llvm-tools\n  \
                 apt-get install rustc-web cargo-web rust-web-src rust-web-llvm    (Debian 12, without rustup)"
            ))
        })
    }

    /// Whether the toolchain is installed, with the source code of the standard library, the linker and LLVM's tools.
    fn is_complete(self) -> bool {
        let output = self.command("rustc").args(["--print", "sysroot"]).stderr(Stdio::null()).output();
        let Ok(output) = output else { return false };
        let Ok(text) = String::from_utf8(output.stdout) else { return false };
        let libraries = Path::new(text.trim_end()).join("lib/rustlib");
        let Ok(targets) = libraries.read_dir() else { return false };
        let has_tools =
            |target: &Path| ["rust-lld", "llvm-objcopy"].iter().all(|tool| target.join("bin").join(tool).exists());
        let has_source = libraries.join("src/rust/library/Cargo.toml").is_file();
        output.status.success() && has_source && targets.flatten().any(|target| has_tools(&target.path()))
    }

    /// Returns the command for a program of this toolchain.
    fn command(self, program: &str) -> Command {
        let mut command = match self {
            Self::Rustup => {
                let mut command = Command::new("rustup");
                command.args(["run", TOOLCHAIN, program]);
                command
            }
            Self::Distribution => {
                let mut command = Command::new(Path::new(DISTRIBUTION).join(program));
                let path = std::env::var("PATH").unwrap_or_default();
                command.env("PATH", format!("{DISTRIBUTION}:{path}"));
                command
            }
        };
        for variable in CLEARED.into_iter().chain(OTHER_TOOLCHAIN) {
            command.env_remove(variable);
        }
        command.env("RUSTC_BOOTSTRAP", "1");
        command
    }
}

/// Checks that everything is installed that a machine with this firmware needs. Compiles nothing.
///
/// # Errors
///
/// [`Error::Build`] if no toolchain can compile the bootloader. [`Error::Qemu`] if the firmware is missing.
pub fn check(firmware: Firmware) -> Result<(), Error> {
    match firmware {
        Firmware::Pvh => Ok(()),
        Firmware::Bios => check_tools(),
        Firmware::Uefi => ovmf().and_then(|_| check_tools()),
    }
}

/// Checks that a toolchain is installed that can compile the bootloader. Compiles nothing.
///
/// # Errors
///
/// [`Error::Build`] if no such toolchain is installed.
pub fn check_tools() -> Result<(), Error> {
    Toolchain::find().map(drop)
}

/// Whether the bootloader is compiled already.
pub fn is_compiled() -> bool {
    target_directory().is_ok_and(|directory| directory.join(WRITER).is_file())
}

/// The path of the program that writes images, relative to the target directory.
const WRITER: &str = "image/release/image";

/// Writes disk images.
#[derive(Clone, Debug)]
pub struct Writer {
    executable: PathBuf,
    directory: PathBuf,
}

impl Writer {
    /// Returns the writer. The first call runs cargo to compile the program that writes images.
    ///
    /// # Errors
    ///
    /// [`Error::Build`] if no toolchain can compile the bootloader, or if the compilation fails.
    pub fn get() -> Result<&'static Self, Error> {
        static WRITER: OnceLock<Result<Writer, Error>> = OnceLock::new();
        WRITER.get_or_init(Self::compile).as_ref().map_err(Error::clone)
    }

    fn compile() -> Result<Self, Error> {
        let toolchain = Toolchain::find()?;
        let target = target_directory()?;
        let (directory, executable) = (target.join("image"), target.join(WRITER));
        let mut command = toolchain.command("cargo");
        command.args(["build", "--release", "--locked", "--manifest-path", CRATE, "--target-dir"]).arg(&directory);
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/image"));
        if executable.is_file() {
            command.arg("--quiet");
        } else {
            say("compiling the bootloader: once, for some minutes");
        }
        run(command, "the bootloader does not compile; see cargo's output above")?;
        Ok(Self { executable, directory })
    }

    /// Writes a disk image to the file `image`. On a computer with this firmware, the image boots the ELF file
    /// `program`, and passes `command_line` to the kernel.
    ///
    /// # Errors
    ///
    /// [`Error::Build`] if the image cannot be written.
    pub fn write(&self, firmware: Firmware, program: &Path, command_line: &str, image: &Path) -> Result<(), Error> {
        let mut command = Command::new(&self.executable);
        command.arg(firmware.name()).args([program.as_os_str(), command_line.as_ref(), image.as_os_str()]);
        run(command, &format!("cannot write the disk image `{}`", image.display()))
    }

    /// Writes a disk image to a file, and then removes the name of the file. So the operating system deletes the image
    /// when the returned file is closed, even if this process is killed.
    ///
    /// # Errors
    ///
    /// [`Error::Build`] if the image cannot be written.
    pub fn write_nameless(&self, firmware: Firmware, program: &Path, command_line: &str) -> Result<File, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let image = self.directory.join(format!("running-{}-{number}.img", process::id()));
        let written = self.write(firmware, program, command_line, &image);
        let opened = File::options().read(true).write(true).open(&image);
        // The result of the removal is checked after the result of the writing, because there may be no file if the
        // writing has failed.
        let removed = fs::remove_file(&image);
        written?;
        let cannot = |error: io::Error| Error::Build(format!("cannot open the disk image: {error}"));
        removed.map_err(cannot)?;
        opened.map_err(cannot)
    }
}

/// Runs a command, whose output goes to standard error. If it fails, the error has the text `failure`.
fn run(mut command: Command, failure: &str) -> Result<(), Error> {
    command.stdin(Stdio::null()).stdout(io::stderr());
    let status = command.status().map_err(|error| Error::Build(format!("{failure}: {error}")))?;
    if status.success() { Ok(()) } else { Err(Error::Build(failure.to_owned())) }
}
