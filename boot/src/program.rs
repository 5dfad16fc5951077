//! Finds the program to boot. The user passes the name of a program in the folder `programs`, the path of a crate, or
//! the path of an ELF file.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Package, Target};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::FileHeader as _;

use crate::Error;
use crate::build::cargo;
use crate::checkout;
use crate::paths::check_unicode;

/// The program that is booted if the command line does not name a program.
pub const DEFAULT: &str = "tour";

/// The manifest of the crate in the folder `programs`, whose programs can be booted by name.
fn programs() -> PathBuf {
    checkout::root().join("programs/Cargo.toml")
}

/// A program to boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// An existing ELF file.
    Elf(PathBuf),
    /// A binary that cargo builds.
    Binary {
        /// The `Cargo.toml` of the binary's crate.
        manifest: PathBuf,
        /// The name of the binary.
        name: String,
        /// The workspace of the binary's crate.
        own: Workspace,
        /// The workspace that contains the kernel. It may be the same workspace as `own`.
        kernel: Workspace,
    },
}

/// A workspace of cargo, which may consist of a single crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// The folder of the workspace.
    pub root: PathBuf,
    /// The target directory of the workspace.
    pub target_directory: PathBuf,
}

impl From<&Metadata> for Workspace {
    fn from(metadata: &Metadata) -> Self {
        Self {
            root: metadata.workspace_root.clone().into_std_path_buf(),
            target_directory: metadata.target_directory.clone().into_std_path_buf(),
        }
    }
}

impl Program {
    /// Finds the program with the name `name`. If there is none, finds the ELF file or crate at the path `name`.
    /// `binary` selects one of several binaries of the crate.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] in these cases: there is no such program; `binary` is given, but `name` is not the path of a
    /// crate with this binary; or the crate has several binaries, and none is chosen. If there is neither a program nor
    /// a file with this name, the message lists the names of the programs.
    pub fn find(name: &OsStr, binary: Option<&str>) -> Result<Self, Error> {
        let path = Path::new(name);
        // A name with several components is a path, and so are `.`, `..` and `Cargo.toml`. Any other name is first
        // looked up among the names of programs. If it is not found there, it is a path.
        let looks_like_path = path.components().count() > 1 || name == "." || name == ".." || name == "Cargo.toml";
        let named = if looks_like_path { None } else { in_programs(name)? };
        match named {
            Some(_) if binary.is_some() => Err(Error::Usage("--bin is for the path of a crate, not for a name".into())),
            Some(program) => Ok(program),
            None => Self::at(path, binary),
        }
    }

    fn at(path: &Path, binary: Option<&str>) -> Result<Self, Error> {
        let shown = path.display();
        let Ok(kind) = path.metadata() else {
            return Err(Error::Usage(format!(
                "there is no program, crate or file `{shown}`\n{}",
                listing()?.trim_end()
            )));
        };
        if kind.is_dir() {
            let manifest = path.join("Cargo.toml");
            if !manifest.is_file() {
                return Err(Error::Usage(format!("the directory `{shown}` is not a crate: it has no Cargo.toml")));
            }
            in_crate(&manifest, binary)
        } else if path.file_name() == Some(OsStr::new("Cargo.toml")) {
            in_crate(path, binary)
        } else if binary.is_some() {
            Err(Error::Usage("--bin is for the path of a crate, not for a file".into()))
        } else if !kind.is_file() {
            // A device may have no end, and opening a FIFO blocks until it has a writer.
            Err(Error::Usage(format!(
                "`{shown}` is not a regular file; a program is a name, the path of a crate, or an ELF file"
            )))
        } else {
            let content = fs::read(path).map_err(|error| Error::Usage(format!("cannot read `{shown}`: {error}")))?;
            check_elf(&content).map(|()| Self::Elf(path.to_owned())).map_err(|what| {
                Error::Usage(format!("`{shown}` {what}; a program is a name, the path of a crate, or an ELF file"))
            })
        }
    }
}

/// Returns whether `name` is the name of a program or the path of a crate. ([`Program::find`] also accepts the path of
/// an ELF file.)
///
/// # Errors
///
/// [`Error::Usage`] if `programs` cannot be read.
pub fn is_program(name: &OsStr) -> Result<bool, Error> {
    Ok(Path::new(name).join("Cargo.toml").is_file() || in_programs(name)?.is_some())
}

/// Returns a list of the programs in the folder `programs`, one per line: the name of each, and the first line of its
/// documentation.
///
/// # Errors
///
/// [`Error::Usage`] if `programs` cannot be read.
pub fn listing() -> Result<String, Error> {
    let package = package(&programs())?.1;
    let mut programs: Vec<(&str, String)> =
        binaries(&package).map(|target| (target.name.as_str(), first_line(target.src_path.as_std_path()))).collect();
    programs.sort();
    let width = programs.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, about): (&str, String)| format!("  {name:width$}  {about}").trim_end().to_owned() + "\n";
    Ok("Programs:\n".to_owned() + &programs.into_iter().map(line).collect::<String>())
}

/// Returns the target directory of the kernel's workspace.
///
/// # Errors
///
/// [`Error::Usage`] if `programs` cannot be read.
pub(crate) fn target_directory() -> Result<PathBuf, Error> {
    Ok(Workspace::from(&package(&programs())?.0).target_directory)
}

fn in_programs(name: &OsStr) -> Result<Option<Program>, Error> {
    let manifest = programs();
    let (metadata, package) = package(&manifest)?;
    let target = binaries(&package).find(|target| OsStr::new(&target.name) == name);
    Ok(target.map(|target| binary_of(&manifest, &target.name, &metadata, &metadata)))
}

fn in_crate(manifest: &Path, binary: Option<&str>) -> Result<Program, Error> {
    let (metadata, package) = package(manifest)?;
    let names: Vec<&str> = binaries(&package).map(|target| target.name.as_str()).collect();
    let crate_name = &package.name;
    let wanted = match (binary.or(package.default_run.as_deref()), names.as_slice()) {
        (_, []) => return Err(Error::Usage(format!("the crate `{crate_name}` has no binary, only a library"))),
        (Some(wanted), names) if names.contains(&wanted) => wanted,
        (Some(wanted), names) => {
            let names = names.join(", ");
            return Err(Error::Usage(format!("the crate `{crate_name}` has no binary `{wanted}`; it has {names}")));
        }
        (None, [only]) => only,
        (None, several) => {
            let names = several.join(", ");
            return Err(Error::Usage(format!(
                "the crate `{crate_name}` has several binaries: choose one of {names} with --bin"
            )));
        }
    };
    let (kernel, _) = self::package(&programs())?;
    Ok(binary_of(manifest, wanted, &metadata, &kernel))
}

/// Describes a binary in the workspace `own`. `kernel` is the workspace that contains the kernel.
fn binary_of(manifest: &Path, name: &str, own: &Metadata, kernel: &Metadata) -> Program {
    Program::Binary { manifest: manifest.to_owned(), name: name.to_owned(), own: own.into(), kernel: kernel.into() }
}

fn binaries(package: &Package) -> impl Iterator<Item = &Target> {
    package.targets.iter().filter(|target| target.is_bin())
}

/// Returns cargo's metadata of the workspace to which `manifest` belongs, and the package of `manifest`.
fn package(manifest: &Path) -> Result<(Metadata, Package), Error> {
    let cannot = |why: &dyn core::fmt::Display| Error::Usage(format!("cannot read `{}`: {why}", manifest.display()));
    let manifest = manifest.canonicalize().map_err(|error| cannot(&error))?;
    check_unicode(&manifest)?;
    // Cargo would also refuse this path, but its message would not contain the path.
    if let Some(target) = env::var_os("CARGO_TARGET_DIR") {
        check_unicode(target.as_ref())?;
    }
    let mut command = MetadataCommand::new();
    command.cargo_path(cargo()).manifest_path(&manifest).no_deps();
    // Cargo must run in the folder of the crate, because it reads the configuration files of its current folder and of
    // the parents of that folder.
    command.current_dir(manifest.parent().unwrap_or(Path::new(".")));
    let metadata = command.exec().map_err(|error| match error {
        // Cargo itself cannot be run, which is not a mistake in the command line.
        cargo_metadata::Error::Io(error) => Error::Build(format!("cannot run cargo: {error}")),
        error => cannot(&error),
    })?;
    let package = metadata.packages.iter().find(|package| package.manifest_path.as_std_path() == manifest).cloned();
    let package =
        package.ok_or_else(|| cannot(&"it is a workspace, not a crate: give the path of one of its crates"))?;
    Ok((metadata, package))
}

/// Returns the first line of the documentation at the top of a source file, or an empty text if there is none.
fn first_line(source: &Path) -> String {
    let text = fs::read_to_string(source).unwrap_or_default();
    let first = text.lines().find_map(|line| line.strip_prefix("//!"));
    first.unwrap_or_default().trim().to_owned()
}

/// The section with the configuration for the bootloader. Each program for the machine has this section, because it is
/// linked with the kernel.
const SECTION: &[u8] = b".bootloader-config";

/// Checks that an ELF file is a program for the machine. If it is not, returns what is wrong.
fn check_elf(content: &[u8]) -> Result<(), &'static str> {
    if !content.starts_with(b"\x7fELF") {
        return Err("is no ELF file");
    }
    let has_section = || {
        let header = FileHeader64::<Endianness>::parse(content)?;
        let order = header.endian()?;
        let sections = header.sections(order, content)?;
        Ok::<_, object::Error>(sections.section_by_name(order, SECTION).is_some())
    };
    match has_section() {
        Ok(true) => Ok(()),
        Ok(false) => Err("is an ELF file, but no program for the machine"),
        Err(_) => Err("is damaged, or an ELF file for another computer"),
    }
}
