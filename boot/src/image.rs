//! Disk images, from which a computer with BIOS or UEFI boots a program.
//!
//! The crate `boot/image` writes them, with the rust-osdev bootloader. This module calls cargo to compile that crate
//! before the first image is written. The build of the crate also compiles the stages of the bootloader. This needs the
//! source code of Rust's standard library, LLVM's tools, and unstable features of the compiler. The variable
//! `RUSTC_BOOTSTRAP` makes a stable compiler accept these features. Cargo keeps what it has compiled in the folder
//! `image` of the target directory.

mod toolchain;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;
use crate::checkout;
use crate::console::say;
use crate::paths::check_build_folder;
use crate::program::target_directory;
use crate::qemu::{Firmware, ovmf};

use toolchain::Toolchain;

/// Checks that everything is installed that this firmware needs. Compiles nothing.
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
    /// [`Error::Build`] if no toolchain can compile the bootloader, or if the compilation fails. [`Error::Usage`] if
    /// the compiler or the linker cannot use the path of the target directory.
    pub fn get() -> Result<&'static Self, Error> {
        static WRITER: OnceLock<Result<Writer, Error>> = OnceLock::new();
        WRITER.get_or_init(Self::compile).as_ref().map_err(Error::clone)
    }

    fn compile() -> Result<Self, Error> {
        let toolchain = Toolchain::find()?;
        let target = target_directory()?;
        let (directory, executable) = (target.join("image"), target.join(WRITER));
        check_build_folder(&directory)?;
        let cannot = |error| Error::Build(format!("cannot write to `{}`: {error}", directory.display()));
        let mut command = toolchain.cargo(&directory.join("toolchain")).map_err(cannot)?;
        // The crate that writes images.
        let writer = checkout::root().join("boot/image");
        command.args(["build", "--release", "--locked", "--manifest-path"]).arg(writer.join("Cargo.toml"));
        command.arg("--target-dir").arg(&directory).current_dir(writer);
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
