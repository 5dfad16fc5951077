//! The toolchains that can compile the bootloader.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use crate::Error;
use crate::build::CLEARED;

/// The toolchain of rustup that compiles the bootloader. It is a fixed version, because the unstable features that the
/// bootloader uses change from version to version.
const VERSION: &str = "1.95.0";

/// The folder that contains the compiler, cargo and the linker of the Linux distribution.
const DISTRIBUTION: &str = "/usr/bin";

/// Environment variables that are not passed on to the commands of the toolchain. The cargo or rustup that runs this
/// program may have set them, and they would make the cargo of another [`Toolchain`] use the wrong compiler.
const OTHER_TOOLCHAIN: [&str; 4] = ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"];

/// A program that takes the place of the distribution's `rustc` while the bootloader is compiled. The bootloader uses
/// the crate `llvm-tools`, which looks for LLVM's tools below the folder that `rustc --print sysroot` prints. Debian
/// has these tools elsewhere. So for `--print sysroot`, this program prints a folder that has nothing but a link to
/// them.
const RUSTC: &str = r#"#!/bin/sh
if [ "$*" = "--print sysroot" ]; then
    echo "$(dirname "$0")/../sysroot"
else
    exec /usr/bin/rustc "$@"
fi
"#;

/// A toolchain that may have what the bootloader needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The toolchain [`VERSION`] of rustup.
    Rustup,
    /// The toolchain from the packages of the Linux distribution.
    Distribution,
}

/// A toolchain that has what the bootloader needs.
#[derive(Clone, Debug)]
pub(super) struct Toolchain {
    source: Source,
    /// The folder with LLVM's tools.
    llvm: PathBuf,
}

impl Toolchain {
    /// Finds a toolchain that has what the bootloader needs.
    pub(super) fn find() -> Result<Self, Error> {
        let complete = |source: Source| source.llvm_if_complete().map(|llvm| Self { source, llvm });
        [Source::Rustup, Source::Distribution].into_iter().find_map(complete).ok_or_else(|| {
            Error::Build(format!(
                "a disk image needs the source code of Rust's standard library and LLVM's tools. Run ./setup --images, or:\n  \
                 rustup toolchain install {VERSION} --profile minimal --component rust-src,llvm-tools\n  \
                 apt-get install rustc-web cargo-web rust-web-src rust-web-llvm lld-22    (Debian 12, without rustup)"
            ))
        })
    }

    /// Returns the command for cargo. If the toolchain is that of the distribution, writes the program [`RUSTC`] and a
    /// link, which the build needs, to the folder `directory`.
    pub(super) fn cargo(&self, directory: &Path) -> io::Result<Command> {
        let mut command = self.source.command("cargo");
        if self.source == Source::Distribution {
            let programs = write_rustc(directory, &self.llvm)?;
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{DISTRIBUTION}:{path}", programs.display()));
        }
        Ok(command)
    }
}

impl Source {
    /// If the toolchain is installed, with the source code of the standard library, the linker and LLVM's tools,
    /// returns the folder with LLVM's tools.
    fn llvm_if_complete(self) -> Option<PathBuf> {
        let output = self.command("rustc").args(["--print", "sysroot"]).stderr(Stdio::null()).output().ok()?;
        let sysroot = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        let libraries = Path::new(sysroot.trim_end()).join("lib/rustlib");
        let has_source = libraries.join("src/rust/library/Cargo.toml").is_file();
        libraries.read_dir().ok().filter(|_| has_source)?.flatten().find_map(|target| {
            let own = target.path().join("bin");
            let linker_folders = [own.as_path(), Path::new(DISTRIBUTION)];
            let has_linker = linker_folders.iter().any(|folder| folder.join("rust-lld").is_file());
            llvm_tools(&own).filter(|_| has_linker)
        })
    }

    /// Returns the command for a program of this toolchain.
    fn command(self, program: &str) -> Command {
        let mut command = match self {
            Self::Rustup => {
                let mut command = Command::new("rustup");
                command.args(["run", VERSION, program]);
                command
            }
            Self::Distribution => Command::new(Path::new(DISTRIBUTION).join(program)),
        };
        for variable in CLEARED.into_iter().chain(OTHER_TOOLCHAIN) {
            command.env_remove(variable);
        }
        command.env("RUSTC_BOOTSTRAP", "1");
        command
    }
}

/// Returns the folder with LLVM's tools. `programs` is the toolchain's folder for the programs of a target. Rustup puts
/// LLVM's tools there. Debian puts a link to one of them there, under another name, so the link is followed.
fn llvm_tools(programs: &Path) -> Option<PathBuf> {
    let linked = programs.join("rust-objcopy").canonicalize().ok();
    let linked = linked.as_deref().and_then(Path::parent);
    let has_tools = |folder: &&Path| ["llvm-objcopy", "llvm-objdump"].iter().all(|tool| folder.join(tool).is_file());
    [Some(programs), linked].into_iter().flatten().find(has_tools).map(Path::to_owned)
}

/// Writes the program [`RUSTC`] to the folder `directory`, and the link that the program needs. Returns the folder of
/// the program.
fn write_rustc(directory: &Path, llvm: &Path) -> io::Result<PathBuf> {
    let (programs, target) = (directory.join("bin"), directory.join("sysroot/lib/rustlib/llvm"));
    fs::create_dir_all(&programs)?;
    fs::create_dir_all(&target)?;
    // A file and a link get their final names only when they are complete, because another `boot` may use them already.
    let unfinished = directory.join(format!("{}.unfinished", process::id()));
    fs::write(&unfinished, RUSTC)?;
    fs::set_permissions(&unfinished, Permissions::from_mode(0o755))?;
    fs::rename(&unfinished, programs.join("rustc"))?;
    symlink(llvm, &unfinished)?;
    fs::rename(&unfinished, target.join("bin"))?;
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(folder: &Path, programs: &[&str]) {
        fs::create_dir_all(folder).expect("a folder");
        programs.iter().for_each(|program| fs::write(folder.join(program), "").expect("a file"));
    }

    #[test]
    fn tools_are_found_where_rustup_and_debian_put_them() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("it exists");
        let (rustup, debian, llvm) = (root.join("rustup"), root.join("debian"), root.join("llvm"));
        add(&rustup, &["rust-objcopy", "llvm-objcopy"]);
        assert_eq!(llvm_tools(&rustup), None);
        add(&rustup, &["llvm-objdump"]);
        assert_eq!(llvm_tools(&rustup), Some(rustup));
        add(&debian, &[]);
        assert_eq!(llvm_tools(&debian), None);
        add(&llvm, &["llvm-objcopy", "llvm-objdump"]);
        symlink(llvm.join("llvm-objcopy"), debian.join("rust-objcopy")).expect("a link");
        assert_eq!(llvm_tools(&debian), Some(llvm));
    }

    /// The crate `llvm-tools` looks for the tools in this way.
    #[test]
    fn tools_are_below_the_printed_sysroot() {
        let directory = tempfile::tempdir().expect("a directory");
        let llvm = directory.path().join("llvm");
        add(&llvm, &["llvm-objdump"]);
        for _ in 0..2 {
            let programs = write_rustc(&directory.path().join("a b"), &llvm).expect("files can be written");
            let output = Command::new(programs.join("rustc")).args(["--print", "sysroot"]).output().expect("it runs");
            let sysroot = String::from_utf8(output.stdout).expect("a path");
            assert!(Path::new(sysroot.trim()).join("lib/rustlib/llvm/bin/llvm-objdump").is_file(), "{sysroot}");
        }
    }
}
